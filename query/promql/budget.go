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
	// Limit is what ran out, "series" or "bytes"; Value is how many of it are allowed.
	Limit string
	Value int64
}

func (e *LimitError) Error() string {
	if e.Limit == limitSeries {
		return fmt.Sprintf("query selects more than %d series (query.max-series); select fewer or a shorter range", e.Value)
	}
	return fmt.Sprintf("query would hold more than %d bytes in memory while reading (query.max-bytes); "+
		"select fewer series or a shorter range", e.Value)
}

const (
	limitSeries = "series"
	limitBytes  = "bytes"
)

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
	seriesMax, bytesMax int64
	series, bytes, peak atomic.Int64
}

func newBudget(o *Options) *budget {
	return &budget{seriesMax: int64(o.SeriesMax), bytesMax: o.BytesMax}
}

// take counts bytes in, or fails with a *LimitError.
func (b *budget) take(bytes int64) error {
	now := b.bytes.Add(bytes)
	if now > b.bytesMax {
		b.bytes.Add(-bytes)
		return &LimitError{Limit: limitBytes, Value: b.bytesMax}
	}
	for most := b.peak.Load(); now > most && !b.peak.CompareAndSwap(most, now); {
		most = b.peak.Load()
	}
	return nil
}

func (b *budget) release(bytes int64) { b.bytes.Add(-bytes) }

// takeSeries counts selected series in, or fails with a *LimitError.
func (b *budget) takeSeries(n int) error {
	if b.series.Add(int64(n)) > b.seriesMax {
		b.series.Add(-int64(n))
		return &LimitError{Limit: limitSeries, Value: b.seriesMax}
	}
	err := b.take(int64(n) * seriesBytes)
	if err != nil {
		b.series.Add(-int64(n))
	}
	return err
}

func (b *budget) releaseSeries(n int) {
	b.series.Add(-int64(n))
	b.release(int64(n) * seriesBytes)
}
