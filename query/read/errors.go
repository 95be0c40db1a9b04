package read

import (
	"context"
	"errors"
	"fmt"

	promengine "github.com/prometheus/prometheus/promql"

	"halite/query/budget"
)

// StorageError is the error of a failed read; the query has no result. errors.As also finds Prometheus's ErrStorage in it.
type StorageError struct {
	Op  string
	Err error
}

func (e *StorageError) Error() string { return fmt.Sprintf("%s: %v", e.Op, e.Err) }

// Unwrap returns the cause.
func (e *StorageError) Unwrap() error { return e.Err }

// As lets errors.As find an ErrStorage, for callers that only know Prometheus's errors.
func (e *StorageError) As(target any) bool {
	t, ok := target.(*promengine.ErrStorage)
	if ok {
		*t = promengine.ErrStorage{Err: e}
	}
	return ok
}

// Classify wraps the error of a read in a StorageError, unless a limit or the end of the context is the cause.
func Classify(op string, err error) error {
	if limit := new(budget.LimitError); errors.As(err, &limit) {
		return limit
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%s: %w", op, err)
	}
	return &StorageError{Op: op, Err: err}
}
