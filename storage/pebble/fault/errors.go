package fault

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/cockroachdb/pebble/v2"

	"halite/storage"
)

// Wrap turns an error of the tree into an error of the storage contract. doing names the operation. An error about a damaged
// file names the file.
func Wrap(doing string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, storage.ErrCorrupt), errors.Is(err, storage.ErrUnavailable),
		errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%s: %w", doing, err)
	case IsDamage(err):
		if info := pebble.ExtractDataCorruptionInfo(err); info != nil {
			return fmt.Errorf("%s: %w: table file %s: %w", doing, storage.ErrCorrupt, info.Path, info.Details)
		}
		return fmt.Errorf("%s: %w: %w", doing, storage.ErrCorrupt, err)
	case storage.Exhausted(err), errors.Is(err, pebble.ErrClosed):
		return fmt.Errorf("%s: %w: %w", doing, storage.ErrUnavailable, err)
	}
	return fmt.Errorf("%s: %w", doing, err)
}

// IsDamage reports whether an error of the tree is about a damaged or missing file.
func IsDamage(err error) bool { return pebble.IsCorruptionError(err) || errors.Is(err, os.ErrNotExist) }

// CloseIter closes an iterator and returns the first error of the read.
func CloseIter(it *pebble.Iterator, err error) error {
	if closeErr := it.Close(); err == nil {
		err = closeErr
	}
	return Wrap("read", err)
}
