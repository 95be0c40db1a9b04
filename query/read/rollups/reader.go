package rollups

import (
	"cmp"
	"context"
	"errors"
	"runtime"
	"sync"
	"time"

	"halite/keyschema"
	"halite/query/read"
	"halite/query/rowcache"
	"halite/rollup"
	rollupstore "halite/rollup/store"
)

// Store returns the states of hours and days. *rollupstore.Store implements it.
type Store interface {
	Read(ctx context.Context, req rollupstore.Request, visit func(i int, c *rollup.Columns) error) error
	// Has reports whether there may be valid states of a bucket.
	Has(unit rollupstore.Unit, bucket int64) bool
	// AppendVersions appends the versions of the hours of days, or of the days of months.
	AppendVersions(dst []uint64, unit rollupstore.Unit, first, last int64) []uint64
}

// Options configures a Reader. A zero field means its documented default. The index must keep series as long as their daily
// states.
type Options struct {
	// Store holds the states; required.
	Store Store
	// Cache holds decoded states; nil if there is none.
	Cache *rowcache.Cache
	// Concurrency is the number of concurrent reads of a batch; the number of CPUs, at most 4.
	Concurrency int
	Now         func() time.Time // time.Now
}

// Reader evaluates selectors with long windows from states. It is safe for concurrent use.
type Reader struct {
	opts  Options
	spans sync.Pool // of *[]Span
}

// New returns a Reader.
func New(o Options) (*Reader, error) {
	if o.Store == nil {
		return nil, errors.New("rollups: Store is required")
	}
	o.Concurrency = cmp.Or(o.Concurrency, min(4, runtime.GOMAXPROCS(0)))
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Reader{opts: o}, nil
}

// Session reads states for one query. It is safe for concurrent use.
type Session struct {
	reader *Reader
	read   *read.Session
	ages   *keyschema.RetentionByMetric
	uses   uses
}

// Session begins a query. It returns nil if the Reader is nil.
func (r *Reader) Session(s *read.Session) *Session {
	if r == nil {
		return nil
	}
	return &Session{reader: r, read: s, ages: s.Retention()}
}

// labelMetric is the label that holds the metric.
const labelMetric = "__name__"
