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
	"halite/storage/index/compaction"
	"halite/storage/index/journal"
	"halite/storage/index/lookup"
	"halite/storage/index/memory"
	"halite/storage/index/presence"
	"halite/storage/index/recovery"
	"halite/storage/index/rowscan"
	"halite/storage/index/segment"
)

// HourSpan is a range of unix hours, both inclusive.
type HourSpan = presence.Span

// Ref is the dense number of an active series, counted from 1. A process never reuses a Ref for another series.
type Ref = memory.Ref

// Loader adds many series one by one, faster than Index.Add. Only one goroutine may use it.
type Loader = memory.Loader

// ErrBadLabels means that the index cannot hold a label set. The caller must reject the label set.
var ErrBadLabels = memory.ErrBadLabels

// cacheBytesDefault is enough for almost 30 closed days of a million series.
const cacheBytesDefault = 128 << 20

// Options configure an Index.
type Options struct {
	// Store holds the index's tables and the data rows. Required. The index does not close it.
	Store storage.Store
	// Schema gives the row keys. Required.
	Schema *keyschema.Schema
	// Retention is the retention of series; look-ups ignore days that ended before it. nil keeps all days.
	Retention *keyschema.TierRetention
	// Writer is empty if only one process uses the tables. If several processes share them, it is the unique name of this
	// process; NewWriter returns one. Then the caller calls Refresh every few seconds, and Compact in one process at a time.
	// Maintain compacts nothing.
	Writer string
	// CacheBytesMax bounds the decoded segments and dictionaries of closed days and months; 0 means 128 MiB.
	CacheBytesMax int64
	// MonthSeriesMax bounds the series of a month's segment, because a compaction holds their label values in memory.
	// Look-ups read each day that the month omits from its own segment. 0 means no limit.
	MonthSeriesMax int
	// Now is the clock; nil means time.Now.
	Now func() time.Time
	// RetentionNow is the clock by which days end before the retention; nil means Now.
	RetentionNow func() time.Time
	// Logger logs for operators; nil discards all lines.
	Logger *slog.Logger
	// Registerer registers the metrics; nil means no registration.
	Registerer prometheus.Registerer
}

// Validate lists the options that are missing or out of range.
func (o *Options) Validate() error {
	var errs []error
	if o.Store == nil {
		errs = append(errs, errors.New("index: Options.Store is required"))
	}
	if o.Schema == nil {
		errs = append(errs, errors.New("index: Options.Schema is required"))
	}
	if o.Writer != "" {
		errs = append(errs, segment.CheckWriter(o.Writer))
	}
	if o.CacheBytesMax < 0 {
		errs = append(errs, fmt.Errorf("index: Options.CacheBytesMax is %d; it must not be negative", o.CacheBytesMax))
	}
	if o.MonthSeriesMax < 0 {
		errs = append(errs, fmt.Errorf("index: Options.MonthSeriesMax is %d; it must not be negative", o.MonthSeriesMax))
	}
	return errors.Join(errs...)
}

// shared reports whether several processes share the tables.
func (o *Options) shared() bool { return o.Writer != "" }

func (o *Options) setDefaults() {
	if o.CacheBytesMax == 0 {
		o.CacheBytesMax = cacheBytesDefault
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.RetentionNow == nil {
		o.RetentionNow = o.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
}

// Index is the series index. It is safe for concurrent use.
type Index struct {
	*lookups

	opts      Options
	tables    tables
	metrics   *indexMetrics
	active    *memory.Index
	open      *memory.OpenDays
	store     *segment.Store
	journal   *journal.Journal
	compactor *compaction.Compactor
	recovery  *recovery.Recovery

	// maint serialises everything that writes to the tables or moves rows of the active index. Add, MarkActive, Retire and reads
	// never take it.
	maint sync.Mutex
	// sharedMu serialises operations with a separate Compactor. compactedAt holds the time of each partition's last compaction
	// by such a Compactor.
	sharedMu    sync.Mutex
	compactedAt map[presence.Partition]time.Time
}

// tables are the index's tables.
type tables struct{ series, labels, meta storage.Table }

// Open ensures the index's tables and restores the days that are not yet compacted from their journals. It rebuilds a
// damaged journal from the data rows. Open starts no goroutine: the caller calls Persist and Maintain.
func Open(ctx context.Context, opts Options) (*Index, error) {
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	opts.setDefaults()
	var t tables
	longest := time.Duration(opts.Retention.Longest())
	for _, want := range []struct {
		to     *storage.Table
		schema storage.TableSchema
	}{
		{&t.series, storage.IndexSchema(storage.TableSeries, longest)},
		{&t.labels, storage.IndexSchema(storage.TableLabels, longest)},
		{&t.meta, storage.MetaSchema()},
	} {
		table, err := opts.Store.EnsureTable(ctx, want.schema)
		if err != nil {
			return nil, fmt.Errorf("index: table %s: %w", want.schema.Name, err)
		}
		*want.to = table
	}
	x := newIndex(opts, t, nil, !opts.shared())
	if err := x.recovery.Restore(ctx); err != nil {
		return nil, fmt.Errorf("index: restore the index: %w", err)
	}
	if err := x.metrics.register(opts.Registerer); err != nil {
		return nil, fmt.Errorf("index: register metrics: %w", err)
	}
	return x, nil
}

// newIndex returns an empty Index over the tables. If metrics is nil, it creates metrics. If collect is set, the Index records
// the keys of the journal records of all writers, so that compactions can delete the records.
func newIndex(opts Options, t tables, metrics *indexMetrics, collect bool) *Index {
	x := &Index{
		opts: opts, tables: t, metrics: metrics, active: memory.New(), open: memory.NewOpenDays(),
		compactedAt: map[presence.Partition]time.Time{},
	}
	if metrics == nil {
		x.metrics = newMetrics(x)
	}
	m := x.metrics
	x.store = &segment.Store{
		SeriesTable: t.series, LabelsTable: t.labels, Layout: segment.DefaultLayout(), Closed: segment.NewSet(),
		Cache:   segment.NewCache(opts.CacheBytesMax, m.cacheHits, m.cacheMisses, m.cacheEvicted),
		Repairs: m.repairs, Logger: opts.Logger,
	}
	if opts.shared() {
		x.store.Replaced = func(h *segment.Handle, gen uint32) bool { return recovery.Replaced(x.store, h, gen) }
	}
	x.lookups = lookup.New(x.active, x.open, x.store, lookup.Options{
		Retention: opts.Retention, Now: opts.RetentionNow,
		DayReads: m.dayReads, MonthReads: m.monthReads,
	})
	x.journal = journal.New(x.active, x.open, x.store, journal.Options{
		Meta: t.meta, Writer: opts.Writer, Collect: collect, Now: opts.Now, Logger: opts.Logger,
		Records: m.records, Bytes: m.recordBytes, Repairs: m.repairs,
	})
	x.compactor = x.newCompactor(map[presence.Partition]time.Time{})
	x.recovery = recovery.New(recovery.Options{
		Active: x.active, Open: x.open, Journal: x.journal, Compactor: x.compactor, Lookup: x.lookups, Segments: x.store,
		Scanner: &rowscan.Scanner{Store: opts.Store, Meta: t.meta, Active: x.active, Logger: opts.Logger},
		Lock:    &x.maint, Now: opts.Now, Logger: opts.Logger, Added: m.added, Repairs: m.repairs,
	})
	return x
}

// newCompactor returns a Compactor of the index that records its compactions in compactedAt.
func (x *Index) newCompactor(compactedAt map[presence.Partition]time.Time) *compaction.Compactor {
	return compaction.New(compaction.Options{
		Active: x.active, Open: x.open, Segments: x.store, Journal: x.journal, Lookup: x.lookups,
		Sync: x.opts.Store.Sync, Lock: &x.maint, Shared: x.opts.shared(), CompactedAt: compactedAt,
		MonthSeriesMax: x.opts.MonthSeriesMax, Now: x.opts.Now, Logger: x.opts.Logger, Metrics: x.metrics.compaction,
	})
}

// collect calls fn with the Compactor of an empty index over the same tables. It reads all input from the tables, so no other
// operation waits for it.
func (x *Index) collect(fn func(c *compaction.Compactor) error) error {
	x.sharedMu.Lock()
	defer x.sharedMu.Unlock()
	f := newIndex(x.opts, x.tables, x.metrics, true)
	f.store.Layout = x.store.Layout
	return fn(f.newCompactor(x.compactedAt))
}
