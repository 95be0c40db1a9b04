package ingest

import (
	"errors"
	"fmt"
	"time"

	"halite/ingest/wal"
	"halite/storage"
)

// refusedLogInterval is the least time between two log lines about writes that a failed log refuses.
const refusedLogInterval = time.Minute

// Refusing returns the error with which writes are refused at present, nil if they are taken. Reads go on. An error that
// wraps storage.ErrFailed lasts until the server is started again; all others end by themselves.
func (i *Ingester) Refusing() error {
	if err := i.log.Refusing(); err != nil {
		return retryable(err)
	}
	if resource, reason := i.lacks(); resource != "" {
		return fmt.Errorf("%w: %s", storage.ErrUnavailable, reason)
	}
	return nil
}

// retryable marks errors of the log with storage.ErrUnavailable if the same request can succeed later, and the failure of
// the log with storage.ErrFailed, too.
func retryable(err error) error {
	switch {
	case err == nil || errors.Is(err, storage.ErrUnavailable):
		return err
	case errors.Is(err, wal.ErrFailed):
		return fmt.Errorf("%w: %w: %w", storage.ErrUnavailable, storage.ErrFailed, err)
	case errors.Is(err, wal.ErrOverload), storage.Exhausted(err):
		return fmt.Errorf("%w: %w", storage.ErrUnavailable, err)
	}
	return err
}

// refuse turns an error of the log into the answer of a write. Other errors stay.
func (i *Ingester) refuse(err error) error {
	switch {
	case err == nil:
	case errors.Is(err, wal.ErrFailed):
		i.refused.Add(1)
		return i.overload(resourceFailed, "the write-ahead log failed; the server must be started again")
	case storage.Exhausted(err):
		return i.overload(resourceSpace, "the write-ahead log lacks disk space or descriptors")
	case errors.Is(err, wal.ErrOverload):
		return i.overload(resourceLog, "the disk of the log does not keep up")
	}
	return err
}

// reportRefused logs how many writes a failed log has refused since the last line.
func (i *Ingester) reportRefused(now time.Time) {
	if now.Sub(i.refusedLogged) < refusedLogInterval {
		return
	}
	if n := i.refused.Swap(0); n > 0 {
		i.refusedLogged = now
		i.opts.Logger.Error("writes are refused because the write-ahead log failed; start the server again",
			"refused_writes", n, "err", i.log.Stats().Err)
	}
}
