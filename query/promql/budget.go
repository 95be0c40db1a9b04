package promql

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	promengine "github.com/prometheus/prometheus/promql"
)

// LimitError says that a query would hold more than it may. To errors.As it is also Prometheus' ErrTooManySamples.
type LimitError struct {
	// Limit is what ran out, "samples" or "bytes"; Value is how many of it are allowed.
	Limit string
	Value int64
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("query would hold more than %d %s in memory while reading; "+
		"select fewer series or a shorter range", e.Value, e.Limit)
}

// As makes those who know only Prometheus' errors see ErrTooManySamples.
func (e *LimitError) As(target any) bool {
	t, ok := target.(*promengine.ErrTooManySamples)
	if ok {
		*t = promengine.ErrTooManySamples("reading from storage")
	}
	return ok
}

// StorageError says that a read below failed; the query has no answer. To errors.As it is also Prometheus' ErrStorage.
type StorageError struct {
	Op  string
	Err error
}

func (e *StorageError) Error() string { return fmt.Sprintf("%s: %v", e.Op, e.Err) }

// Unwrap gives the cause.
func (e *StorageError) Unwrap() error { return e.Err }

// As makes those who know only Prometheus' errors see ErrStorage.
func (e *StorageError) As(target any) bool {
	t, ok := target.(*promengine.ErrStorage)
	if ok {
		*t = promengine.ErrStorage{Err: e}
	}
	return ok
}

// storageError wraps the error of a read. The end of the context is not the storage's fault and stays what it is.
func storageError(op string, err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%s: %w", op, err)
	}
	return &StorageError{Op: op, Err: err}
}

// budget counts what a query holds at once.
type budget struct {
	samplesMax, bytesMax int64
	samples, bytes       atomic.Int64
}

func newBudget(samplesMax int, bytesMax int64) *budget {
	return &budget{samplesMax: int64(samplesMax), bytesMax: bytesMax}
}

// take counts samples and bytes in, or neither and fails with a *LimitError.
func (b *budget) take(samples int, bytes int64) error {
	if b.samples.Add(int64(samples)) > b.samplesMax {
		b.samples.Add(-int64(samples))
		return &LimitError{Limit: "samples", Value: b.samplesMax}
	}
	if b.bytes.Add(bytes) > b.bytesMax {
		b.samples.Add(-int64(samples))
		b.bytes.Add(-bytes)
		return &LimitError{Limit: "bytes", Value: b.bytesMax}
	}
	return nil
}

func (b *budget) release(samples int, bytes int64) {
	b.samples.Add(-int64(samples))
	b.bytes.Add(-bytes)
}
