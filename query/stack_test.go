package query_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	promstorage "github.com/prometheus/prometheus/storage"
	"github.com/stretchr/testify/require"

	"halite/ingest"
	"halite/ingest/deletion"
	"halite/keyschema"
	"halite/query"
	"halite/query/promadapter"
	"halite/query/read"
	"halite/query/read/rollups"
	"halite/query/rowcache"
	"halite/rollup/job"
	rollupstore "halite/rollup/store"
	"halite/storage"
	"halite/storage/index"
	"halite/storage/pebble"
	"halite/storage/tombstone"
)

// stack is a database without HTTP, on a file system in memory.
type stack struct {
	*source
	tb       testing.TB
	options  sourceOptions
	store    storage.Store
	ingester *ingest.Ingester
	deleted  *tombstone.Set
	watch    *rowcache.Watch
	tiers    *job.Rollups
	clock    *atomic.Int64 // ms
}

// source is a Queryable together with rollups.
type source struct {
	*promadapter.Queryable
	rollups *rollups.Reader
}

// Rollups returns the rollups for the engine, nil without rollups.
func (s *source) Rollups() *rollups.Reader { return s.rollups }

// sourceOptions are the options of a reader, its row cache and rollups.
type sourceOptions struct {
	read.Options
	Watch         *rowcache.Watch // no row cache if nil
	RowCacheBytes int64
	Tiers         rollups.Store
}

func newSource(o sourceOptions) (*source, error) {
	cache, err := rowcache.New(rowcache.Options{Watch: o.Watch, BytesMax: o.RowCacheBytes, Registerer: o.Registerer})
	if err != nil {
		return nil, err
	}
	o.Cache = cache
	reader, err := read.New(o.Options)
	if err != nil {
		return nil, err
	}
	s := &source{Queryable: promadapter.New(reader)}
	if o.Tiers != nil {
		s.rollups, err = rollups.New(rollups.Options{Store: o.Tiers, Cache: cache, Now: o.Now})
	}
	return s, err
}

// newEngine returns an engine that uses the rollups of its Queryable.
func newEngine(o query.Options) (*query.Engine, error) {
	if q, ok := o.Queryable.(interface{ Rollups() *rollups.Reader }); ok {
		o.Rollups = q.Rollups()
	}
	return query.New(o)
}

func newStack(tb testing.TB, rules ...keyschema.Rule) *stack {
	tb.Helper()
	return openStack(tb, vfs.NewMem(), rules...)
}

// openStack opens a stack on a file system, which may have data.
func openStack(tb testing.TB, fs vfs.FS, rules ...keyschema.Rule) *stack {
	tb.Helper()
	return openStackWith(tb, fs, stackOptions{rules: rules})
}

// stackOptions configures a stack.
type stackOptions struct {
	rules []keyschema.Rule
	// tables is the engine; nil is an embedded one on the file system.
	tables storage.Store
	// clock has the time in milliseconds since 1970; nil is the real time.
	clock *atomic.Int64
	// tiers turns rollups on. hours and days are the retention of states. Only rollUp runs the job.
	tiers            bool
	raw, hours, days time.Duration
	// deleting runs between the two new versions of the rows that a deletion changes; nil just calls change.
	deleting func(change func() error) error
}

func openStackWith(tb testing.TB, fs vfs.FS, o stackOptions) *stack {
	tb.Helper()
	ctx := context.Background()
	now := time.Now
	if o.clock != nil {
		now = func() time.Time { return time.UnixMilli(o.clock.Load()) }
	}
	s := &stack{tb: tb, watch: rowcache.NewWatch(), clock: o.clock}
	tables, err := o.tables, error(nil)
	if tables == nil {
		tables, err = pebble.Open(pebble.Options{Dir: "store", FS: fs, Now: now})
		require.NoError(tb, err)
	}
	s.deleted, err = tombstone.Open(ctx, tombstone.Options{Store: tables})
	require.NoError(tb, err)
	tables = s.deleted.Store()
	ages := keyschema.NewRetention(keyschema.Uniform(keyschema.NewRetentionByTier(o.raw, o.hours, o.days)))
	indexTier := keyschema.Raw
	if o.tiers {
		s.tiers, err = job.Open(ctx, rollupstore.Options{
			Tables: tables, Retention: ages, Now: now, Deletions: s.deleted,
		}, job.Options{Settle: -1, Share: 1})
		require.NoError(tb, err)
		tables, indexTier = s.tiers.Invalidating(tables), keyschema.Days
	}
	s.store = s.watch.Store(tables)
	data, err := s.store.EnsureTable(ctx, storage.DataSchema(o.raw))
	require.NoError(tb, err)
	if o.tables == nil {
		require.NoError(tb, s.watch.FindNewestRow(ctx, data, now()))
	}
	schema, err := keyschema.NewSchema(o.rules)
	require.NoError(tb, err)
	x, err := index.Open(ctx, index.Options{Store: s.store, Schema: schema, Retention: ages.Tier(indexTier), Now: now})
	require.NoError(tb, err)
	var states deletion.States
	deleting := s.watch.During
	if s.tiers != nil {
		states = s.tiers
		deleting = func(fromMs, toMs int64, change func() error) error {
			return s.watch.During(fromMs, toMs, func() error { return s.tiers.During(fromMs, toMs, change) })
		}
	}
	if announce := deleting; o.deleting != nil {
		deleting = func(fromMs, toMs int64, change func() error) error {
			return announce(fromMs, toMs, func() error { return o.deleting(change) })
		}
	}
	// Only tests flush hours.
	s.ingester, err = ingest.Open(ctx, ingest.Options{
		Dir: "wal", FS: fs, Store: s.store, Index: x, Schema: schema, FreeBytesMin: -1, Retention: ages.Tier(keyschema.Raw), Now: now,
		Head: ingest.HeadOptions{FlushInterval: -1}, Tombstones: s.deleted, Deleting: deleting, States: states,
	})
	require.NoError(tb, err)
	s.deleted.SetLabelSets(x.LabelSet)
	s.options = sourceOptions{Options: read.Options{
		Index: x, Head: s.ingester, Data: data, Schema: schema, Retention: ages.Tier(keyschema.Raw), Now: now, Tombstones: s.deleted,
		Histograms: s.ingester.Histograms(), StartTimes: true, NewestRow: s.watch.NewestRow,
	}}
	if s.tiers != nil {
		s.options.Tiers = s.tiers
		s.options.HourlyHistograms = s.tiers.ReadHistograms
	}
	s.source, err = newSource(s.options)
	require.NoError(tb, err)
	return s
}

// rollUp computes the states of all closed days.
func (s *stack) rollUp() {
	s.tb.Helper()
	for worked := true; worked; {
		var err error
		worked, err = s.tiers.Step(context.Background())
		require.NoError(s.tb, err)
	}
}

func (s *stack) delete(fromMs, toMs int64, ms ...*labels.Matcher) (series int) {
	s.tb.Helper()
	series, err := s.ingester.DeleteSeries(context.Background(), deletion.Request{
		Selectors: [][]*labels.Matcher{ms}, FromMs: fromMs, ToMs: toMs,
	})
	require.NoError(s.tb, err)
	return series
}

func (s *stack) Close() error {
	if err := s.ingester.Close(context.Background()); err != nil {
		return err
	}
	return s.store.Close()
}

func (s *stack) write(samples []ingest.Sample) {
	s.tb.Helper()
	if len(samples) == 0 {
		return
	}
	res, err := s.ingester.Write(context.Background(), ingest.SamplesInput(samples))
	require.NoError(s.tb, err)
	require.Zero(s.tb, res.Rejected, res.First)
	require.Equal(s.tb, len(samples), res.Accepted+res.Histograms)
}

func (s *stack) flush() {
	s.tb.Helper()
	require.NoError(s.tb, s.ingester.Flush(context.Background()))
	require.Zero(s.tb, s.ingester.Stats().Samples, "samples in the head after a flush")
}

// flushMode says where the queried samples are.
type flushMode string

const (
	inHead     flushMode = "head"   // all in the head
	inTables   flushMode = "tables" // all in the tables
	inBoth     flushMode = "both"   // every other sample in the tables, the others, out of order, in the head
	intoTables flushMode = "late"   // like inBoth, then all in the tables, so that rows are written twice
)

var flushModes = []flushMode{inHead, inTables, inBoth, intoTables}

// adapter makes a stack the storage of Prometheus's test files.
type adapter struct {
	*stack
	mode    flushMode
	columns bool // offers columns to operators
	starts  bool // holds start timestamps
}

// NoStartTimes reports whether no sample has a start timestamp.
func (a *adapter) NoStartTimes() bool { return !a.starts }

var _ promstorage.Storage = (*adapter)(nil)

// Reader returns the column reader, nil unless columns is set.
func (a *adapter) Reader() *read.Reader {
	if !a.columns {
		return nil
	}
	return a.stack.Reader()
}

func (a *adapter) Appender(context.Context) promstorage.Appender     { panic("test files use AppenderV2") }
func (a *adapter) StartTime() (int64, error)                         { return 0, nil }
func (a *adapter) AppenderV2(context.Context) promstorage.AppenderV2 { return &appender{adapter: a} }

type appender struct {
	*adapter
	samples []ingest.Sample
}

func (a *appender) Append(
	_ promstorage.SeriesRef, ls labels.Labels, st, t int64, v float64, h *histogram.Histogram,
	fh *histogram.FloatHistogram, _ promstorage.AppendV2Options,
) (promstorage.SeriesRef, error) {
	a.starts = a.starts || st != 0
	a.samples = append(a.samples, ingest.Sample{Labels: ls, TsMs: t, Value: v, StartMs: st, H: h, FH: fh})
	return 0, nil
}

func (a *appender) Commit() error {
	switch a.mode {
	case inBoth, intoTables:
		a.write(everyOther(a.samples, 1))
		a.flush()
		a.write(everyOther(a.samples, 0))
		if a.mode == intoTables {
			a.flush()
		}
	case inTables:
		a.write(a.samples)
		a.flush()
	default:
		a.write(a.samples)
	}
	return nil
}

func everyOther(samples []ingest.Sample, first int) []ingest.Sample {
	var out []ingest.Sample
	for i := first; i < len(samples); i += 2 {
		out = append(out, samples[i])
	}
	return out
}

func (a *appender) Rollback() error {
	a.samples = nil
	return nil
}
