package index

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"halite/keyschema"
	"halite/storage"
	"halite/storage/index/lookup"
	"halite/storage/index/memory"
	"halite/storage/index/presence"
	"halite/storage/index/segment"
)

// HourSpan is a range of unix hours, both inclusive.
type HourSpan = presence.Span

// Ref is the dense number of an active series, counted from 1. It is never given to another series within a process.
type Ref = memory.Ref

// Loader adds many series in turn in less time than Index.Add takes. It is for one goroutine.
type Loader = memory.Loader

// ErrBadLabels reports a label set that cannot be indexed; it must be rejected.
var ErrBadLabels = memory.ErrBadLabels

// cacheBytesDefault is what Options.CacheBytesMax means by 0: 30 closed days of a million series nearly fit.
const cacheBytesDefault = 128 << 20

// Options configure an Index.
type Options struct {
	// Store holds the index's tables and the data rows. Required. The index does not close it.
	Store storage.Store
	// Schema gives the row keys. Required.
	Schema *keyschema.Schema
	// Retention is how long samples are kept; days that ended before it are not answered. 0 keeps all.
	Retention time.Duration
	// RetentionByMetric overrides Retention for metrics with a shorter one; nil means no overrides.
	RetentionByMetric *keyschema.TierRetention
	// Writer, if not empty, is the name of this process among several that share the tables, as NewWriter makes them; no two
	// may have the same one. The caller then calls Refresh every few seconds, and Compact on one process at a time; Maintain
	// compacts nothing. It must be empty in a process that has the tables for itself.
	Writer string
	// CacheBytesMax bounds the decoded segments and dictionaries of closed days and months; 0 means 128 MiB.
	CacheBytesMax int64
	// MonthSeriesMax bounds the series that a month takes in, because a compaction holds their label values in memory. Look-ups
	// read the days beyond it one by one. 0 means no limit.
	MonthSeriesMax int
	// Now is the clock; nil means time.Now.
	Now func() time.Time
	// Logger takes what an operator should know; nil discards it.
	Logger *slog.Logger
	// Registerer takes the metrics; nil means they are not registered.
	Registerer prometheus.Registerer
}

// Validate reports what is missing or out of range.
func (o *Options) Validate() error {
	var errs []error
	if o.Store == nil {
		errs = append(errs, errors.New("index: Options.Store is missing"))
	}
	if o.Schema == nil {
		errs = append(errs, errors.New("index: Options.Schema is missing"))
	}
	if o.Writer != "" {
		errs = append(errs, segment.CheckWriter(o.Writer))
	}
	if o.Retention < 0 {
		errs = append(errs, fmt.Errorf("index: Options.Retention is %v, it must not be negative", o.Retention))
	}
	if o.CacheBytesMax < 0 {
		errs = append(errs, fmt.Errorf("index: Options.CacheBytesMax is %d, it must not be negative", o.CacheBytesMax))
	}
	if o.MonthSeriesMax < 0 {
		errs = append(errs, fmt.Errorf("index: Options.MonthSeriesMax is %d, it must not be negative", o.MonthSeriesMax))
	}
	return errors.Join(errs...)
}

func (o *Options) setDefaults() {
	if o.CacheBytesMax == 0 {
		o.CacheBytesMax = cacheBytesDefault
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
}

// Index is the series index. All methods may be called by any number of goroutines.
type Index struct {
	opts    Options
	meta    storage.Table
	metrics *indexMetrics

	active *memory.Index
	open   *memory.OpenDays
	store  *segment.Store
	lookup *lookup.Reader

	// maint serialises everything that writes to the store or moves the active index's tables; it also guards the
	// next four fields and the journals' state. Add, MarkActive, Retire and the readers never take it.
	maint       sync.Mutex
	compactedAt map[presence.Partition]time.Time // when this process compacted a period last
	unclean     map[presence.Partition]bool      // periods with leftovers of an interrupted compaction
	damaged     map[presence.Partition]damagedDay
	reserved    map[presence.Partition]uint32 // generations that this process has reserved and not used yet
	seen        seenParts
	written     map[int64]uint32 // parts with a writer that this process has written, by day
	// collecting notes the keys of the parts read, for who compacts them.
	collecting bool

	begun map[presence.Partition]uint32 // generations that a process has reserved and perhaps not cleaned up after
	// behind are periods whose generation in use could not be followed to the end; guarded by refreshMu.
	behind map[presence.Partition]struct{}

	refreshMu         sync.Mutex                       // admits one Refresh; taken before maint
	compactMu         sync.Mutex                       // admits one Compact
	compactedAtShared map[presence.Partition]time.Time // compactedAt of Compact
}

// Open ensures the index's tables and restores the days that are not compacted yet from their journals. A damaged
// journal is made anew from the data rows. Nothing runs in the background: the caller calls Persist and Maintain.
func Open(ctx context.Context, opts Options) (*Index, error) {
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	opts.setDefaults()
	x := newIndex(opts, nil)
	x.collecting = !x.shared()
	for _, t := range []struct {
		to     *storage.Table
		schema storage.TableSchema
	}{
		{&x.store.SeriesTable, storage.IndexSchema(storage.TableSeries, opts.Retention)},
		{&x.store.LabelsTable, storage.IndexSchema(storage.TableLabels, opts.Retention)},
		{&x.meta, storage.MetaSchema()},
	} {
		table, err := opts.Store.EnsureTable(ctx, t.schema)
		if err != nil {
			return nil, fmt.Errorf("index: table %s: %w", t.schema.Name, err)
		}
		*t.to = table
	}
	if err := x.restore(ctx); err != nil {
		return nil, fmt.Errorf("index: restore the index: %w", err)
	}
	if err := x.metrics.register(opts.Registerer); err != nil {
		return nil, fmt.Errorf("index: register metrics: %w", err)
	}
	return x, nil
}

// newIndex makes an Index that knows nothing yet and has no tables. It counts in metrics, or in new ones if that is nil.
func newIndex(opts Options, metrics *indexMetrics) *Index {
	x := &Index{
		opts: opts, active: memory.New(), open: memory.NewOpenDays(),
		store:       &segment.Store{Layout: segment.DefaultLayout(), Closed: segment.NewSet()},
		compactedAt: map[presence.Partition]time.Time{}, unclean: map[presence.Partition]bool{},
		damaged:  map[presence.Partition]damagedDay{},
		reserved: map[presence.Partition]uint32{}, begun: map[presence.Partition]uint32{},
		behind: map[presence.Partition]struct{}{}, compactedAtShared: map[presence.Partition]time.Time{},
		seen: seenParts{days: map[int64]*seenDay{}}, written: map[int64]uint32{},
	}
	if x.metrics = metrics; metrics == nil {
		x.metrics = newMetrics(x)
	}
	x.store.Repairs, x.store.Logger = x.metrics.repairs, opts.Logger
	if x.shared() {
		x.store.Replaced = x.replaced
	}
	x.store.Cache = segment.NewCache(opts.CacheBytesMax, x.metrics.cacheHits, x.metrics.cacheMisses, x.metrics.cacheEvicted)
	x.lookup = lookup.New(x.active, x.open, x.store, lookup.Options{
		Retention: opts.Retention, RetentionByMetric: opts.RetentionByMetric, Now: opts.Now,
		DayReads: x.metrics.dayReads, MonthReads: x.metrics.monthReads,
	})
	return x
}
