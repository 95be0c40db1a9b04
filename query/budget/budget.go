package budget

import (
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"

	promengine "github.com/prometheus/prometheus/promql"
)

// LimitError is the error of a query that exceeds a limit. errors.As also finds Prometheus's ErrTooManySamples in it.
type LimitError struct {
	// Resource is the exceeded resource, Max its limit.
	Resource Resource
	Max      int64
}

// Resource is a resource with a limit for queries.
type Resource uint8

const (
	// Series is the number of series that a query has selected at once.
	Series Resource = iota
	// Bytes is the memory of one query.
	Bytes
	// PoolBytes is the memory of all queries and responses together. A later attempt may succeed.
	PoolBytes
)

func (e *LimitError) Error() string {
	switch e.Resource {
	case Series:
		return fmt.Sprintf("query selects more than %d series (query.max-series); select fewer or a shorter range", e.Max)
	case PoolBytes:
		return fmt.Sprintf("all queries and responses together would hold more than %d bytes in memory "+
			"(query.max-total-bytes); try again later, or select fewer series or a shorter range", e.Max)
	}
	return fmt.Sprintf("query would hold more than %d bytes in memory while reading (query.max-bytes or limits.query_bytes); "+
		"select fewer series or a shorter range", e.Max)
}

// As lets errors.As find an ErrTooManySamples, for callers that only know Prometheus's errors.
func (e *LimitError) As(target any) bool {
	t, ok := target.(*promengine.ErrTooManySamples)
	if ok {
		*t = promengine.ErrTooManySamples("reading from storage")
	}
	return ok
}

// IsPoolExhausted reports whether the query failed because other queries hold the memory.
func IsPoolExhausted(err error) bool {
	limit := new(LimitError)
	return errors.As(err, &limit) && limit.Resource == PoolBytes
}

// leaseBytes is the unit in which a budget leases memory from the pool.
const leaseBytes = 64 << 10

// A query is small up to smallQueryBytes. Small queries may use the whole pool. Larger queries leave 1/smallQueryShare of it, so
// that small queries still run when large ones have reached their limit.
const (
	smallQueryBytes = 1 << 20
	smallQueryShare = 8
)

// Budget accounts for the memory of one query, from its start until the last byte of its response is written. It is safe for
// concurrent use.
type Budget struct {
	limits              Limits
	series, bytes, peak atomic.Int64

	pool   *Pool
	mu     sync.Mutex
	leased atomic.Int64 // changed under mu; math.MaxInt64 after Close
}

// Limits bound one query.
type Limits struct {
	SeriesMax int64 // series that its selectors have selected at once
	BytesMax  int64 // memory in bytes
}

// New returns the budget of a query that begins. It reserves nothing yet.
func New(l Limits, p *Pool) *Budget { return &Budget{limits: l, pool: p} }

// Reserve adds bytes, or fails with a *LimitError.
func (b *Budget) Reserve(bytes int64) error {
	now := b.bytes.Add(bytes)
	if now > b.limits.BytesMax {
		b.bytes.Add(-bytes)
		return &LimitError{Resource: Bytes, Max: b.limits.BytesMax}
	}
	if now > b.leased.Load() && !b.lease(now) {
		b.bytes.Add(-bytes)
		return &LimitError{Resource: PoolBytes, Max: b.pool.bytesMax}
	}
	for most := b.peak.Load(); now > most && !b.peak.CompareAndSwap(most, now); {
		most = b.peak.Load()
	}
	return nil
}

// lease extends the lease to a total of bytes.
func (b *Budget) lease(bytes int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	missing := roundUp(bytes) - b.leased.Load()
	if missing <= 0 {
		return true
	}
	if !b.pool.lease(missing, bytes <= smallQueryBytes) {
		return false
	}
	b.leased.Add(missing)
	return true
}

func roundUp(bytes int64) int64 { return (bytes + leaseBytes - 1) / leaseBytes * leaseBytes }

// Release subtracts bytes. The pool gets them back at Reset, StartSending or Close, because garbage may still occupy them.
func (b *Budget) Release(bytes int64) { b.bytes.Add(-bytes) }

// Reset sets the reservation to bytes, and trims the lease. A query calls it when it holds only its result. Reset fails as
// Reserve does.
func (b *Budget) Reset(bytes int64) error {
	b.Release(b.bytes.Load())
	if err := b.Reserve(bytes); err != nil {
		return err
	}
	b.trim()
	return nil
}

// trim returns the unused part of the lease to the pool.
func (b *Budget) trim() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if leased := b.leased.Load(); leased < math.MaxInt64 {
		kept := min(roundUp(max(b.bytes.Load(), 0)), leased)
		b.leased.Store(kept)
		b.pool.release(leased - kept)
	}
}

// Close returns the lease to the pool and removes the response. Reserved memory must not be used afterwards, but Release is still
// allowed.
func (b *Budget) Close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if leased := b.leased.Swap(math.MaxInt64); leased < math.MaxInt64 {
		b.pool.release(leased)
		b.pool.removeResponse(b)
	}
}

// ForLookup returns a function that reserves the memory of a look-up in the index. done releases that memory.
func (b *Budget) ForLookup() (reserve func(bytes int64) error, done func()) {
	var taken atomic.Int64
	reserve = func(bytes int64) error {
		if err := b.Reserve(bytes); err != nil {
			return err
		}
		taken.Add(bytes)
		return nil
	}
	return reserve, func() { b.Release(taken.Load()) }
}

// SeriesBytes is the approximate memory of a selected series. It counts the struct, one span of hours, labels that the index
// made only for this query, and the series object for Prometheus's engine.
const SeriesBytes = 256

// ReserveSeries adds n selected series, or fails with a *LimitError.
func (b *Budget) ReserveSeries(n int) error {
	if b.series.Add(int64(n)) > b.limits.SeriesMax {
		b.series.Add(-int64(n))
		return &LimitError{Resource: Series, Max: b.limits.SeriesMax}
	}
	err := b.Reserve(int64(n) * SeriesBytes)
	if err != nil {
		b.series.Add(-int64(n))
	}
	return err
}

// Reserved returns the bytes that are currently reserved.
func (b *Budget) Reserved() int64 { return b.bytes.Load() }

// Peak returns the largest number of bytes reserved at once.
func (b *Budget) Peak() int64 { return b.peak.Load() }

// ReleaseSeries subtracts n selected series.
func (b *Budget) ReleaseSeries(n int) {
	b.series.Add(-int64(n))
	b.Release(int64(n) * SeriesBytes)
}
