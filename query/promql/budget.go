package promql

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"

	promengine "github.com/prometheus/prometheus/promql"

	"halite/storage/index"
)

// LimitError says that a query would hold more than it may. To errors.As it is also Prometheus' ErrTooManySamples.
type LimitError struct {
	// Limit is what ran out; Value is how many of it are allowed.
	Limit Limit
	Value int64
}

// Limit is one of the limits of a query.
type Limit uint8

const (
	// LimitSeries are the series that a query may have selected at once.
	LimitSeries Limit = iota
	// LimitBytes is the memory that a query may take.
	LimitBytes
	// LimitTotalBytes is the memory that all queries and answers may take together: a later attempt may find more.
	LimitTotalBytes
)

func (e *LimitError) Error() string {
	switch e.Limit {
	case LimitSeries:
		return fmt.Sprintf("query selects more than %d series (query.max-series); select fewer or a shorter range", e.Value)
	case LimitTotalBytes:
		return fmt.Sprintf("queries and answers under way would hold more than %d bytes in memory together "+
			"(query.max-total-bytes); try again later, or select fewer series or a shorter range", e.Value)
	}
	return fmt.Sprintf("query would hold more than %d bytes in memory while reading (query.max-bytes); "+
		"select fewer series or a shorter range", e.Value)
}

// As makes those who know only Prometheus' errors see ErrTooManySamples.
func (e *LimitError) As(target any) bool {
	t, ok := target.(*promengine.ErrTooManySamples)
	if ok {
		*t = promengine.ErrTooManySamples("reading from storage")
	}
	return ok
}

// Crowded reports whether a limit was reached that would not have been, had there not been other queries.
func Crowded(err error) bool {
	limit := new(LimitError)
	return errors.As(err, &limit) && limit.Limit == LimitTotalBytes
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

// storageError wraps the error of a read. The end of the context, and of the budget, is not the storage's
// fault and stays what it is.
func storageError(op string, err error) error {
	if limit := new(LimitError); errors.As(err, &limit) {
		return limit
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%s: %w", op, err)
	}
	return &StorageError{Op: op, Err: err}
}

// leaseBytes is the unit in which a budget leases memory of the pool.
const leaseBytes = 64 << 10

// smallBytes is the memory up to which a query is small. Small queries may use the whole pool, others all but
// 1/smallShare of it: small queries are answered while large ones hold all that those may have.
const (
	smallBytes = 1 << 20
	smallShare = 8
)

// Budget counts the memory of one query, from its start until the last byte of its answer is written. It may be used by
// several goroutines.
type Budget struct {
	seriesMax, bytesMax int64
	series, bytes, peak atomic.Int64

	pool   *pool
	mu     sync.Mutex
	leased atomic.Int64 // changed under mu; math.MaxInt64 after End
}

func newBudget(o *Options, p *pool) *Budget {
	return &Budget{seriesMax: int64(o.SeriesMax), bytesMax: o.BytesMax, pool: p}
}

// Take counts bytes in, or fails with a *LimitError.
func (b *Budget) Take(bytes int64) error {
	now := b.bytes.Add(bytes)
	if now > b.bytesMax {
		b.bytes.Add(-bytes)
		return &LimitError{Limit: LimitBytes, Value: b.bytesMax}
	}
	if now > b.leased.Load() && !b.lease(now) {
		b.bytes.Add(-bytes)
		return &LimitError{Limit: LimitTotalBytes, Value: b.pool.bytesMax}
	}
	for most := b.peak.Load(); now > most && !b.peak.CompareAndSwap(most, now); {
		most = b.peak.Load()
	}
	return nil
}

// lease takes from the pool the memory that is missing for bytes in all.
func (b *Budget) lease(bytes int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	missing := roundUp(bytes) - b.leased.Load()
	if missing <= 0 {
		return true
	}
	if !b.pool.lease(missing, bytes <= smallBytes) {
		return false
	}
	b.leased.Add(missing)
	return true
}

func roundUp(bytes int64) int64 { return (bytes + leaseBytes - 1) / leaseBytes * leaseBytes }

// Release counts bytes out. The pool has them back at Settle, Sending or End: until then the collector may not have found them.
func (b *Budget) Release(bytes int64) { b.bytes.Add(-bytes) }

// Settle counts bytes instead of everything that was counted before, and trims the lease. A query calls it when only its
// result is left. It fails as Take does.
func (b *Budget) Settle(bytes int64) error {
	b.Release(b.bytes.Load())
	if err := b.Take(bytes); err != nil {
		return err
	}
	b.trim()
	return nil
}

// trim gives the pool back the part of the lease that nothing counts against.
func (b *Budget) trim() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if leased := b.leased.Load(); leased < math.MaxInt64 {
		kept := min(roundUp(max(b.bytes.Load(), 0)), leased)
		b.leased.Store(kept)
		b.pool.release(leased - kept)
	}
}

// End gives the pool back its memory and forgets the answer. Nothing that was counted may be used afterwards, but released.
func (b *Budget) End() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if leased := b.leased.Swap(math.MaxInt64); leased < math.MaxInt64 {
		b.pool.release(leased)
		b.pool.sent(b)
	}
}

// Metered counts what look-ups in the catalogue take with the context it returns; done counts it out.
func (b *Budget) Metered(ctx context.Context) (metered context.Context, done func()) {
	var taken atomic.Int64
	metered = index.WithMeter(ctx, func(bytes int64) error {
		if err := b.Take(bytes); err != nil {
			return err
		}
		taken.Add(bytes)
		return nil
	})
	return metered, func() { b.Release(taken.Load()) }
}

// takeSeries counts selected series in, or fails with a *LimitError.
func (b *Budget) takeSeries(n int) error {
	if b.series.Add(int64(n)) > b.seriesMax {
		b.series.Add(-int64(n))
		return &LimitError{Limit: LimitSeries, Value: b.seriesMax}
	}
	err := b.Take(int64(n) * seriesBytes)
	if err != nil {
		b.series.Add(-int64(n))
	}
	return err
}

func (b *Budget) releaseSeries(n int) {
	b.series.Add(-int64(n))
	b.Release(int64(n) * seriesBytes)
}
