package direct

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/prometheus/prometheus/model/labels"

	"halite/ingest"
	"halite/ingest/deletion"
	"halite/ingest/direct/compactor"
	"halite/ingest/flush"
	"halite/ingest/head"
	"halite/keyschema"
	"halite/keyschema/exemplar"
	"halite/keyschema/histchunk"
	"halite/storage"
	"halite/storage/histmetrics"
	"halite/storage/index"
	"halite/storage/keyviz"
	"halite/storage/lease"
	"halite/storage/periodic"
	"halite/storage/tombstone"
)

// Options configure a Direct.
type Options struct {
	// Store holds the tables. It must acknowledge only durable writes and read its own writes. Required. The caller closes
	// it after the Direct.
	Store storage.Store
	// Index is the series index, opened with index.Options.Writer. Required.
	Index *index.Index
	// Writer is the name in index.Options.Writer. Required.
	Writer string
	// Schema is the schema that Index was opened with. Required.
	Schema *keyschema.Schema
	// Retention refuses samples older than it; nil accepts every timestamp from 1970 on.
	Retention *keyschema.TierRetention
	// Tombstones is the shared set of deletions. Store must be its Store, or wrap it. If Tombstones is nil, deletions are
	// refused, and no other server may delete samples.
	Tombstones *tombstone.Set
	// States are the rollup states of the samples; nil if there are none.
	States deletion.States
	// Fresh, if not nil, is called before each index look-up of a query. When it returns, rollups reflect all earlier
	// changes of samples.
	Fresh func(ctx context.Context) error
	// Heat counts accepted samples by row key; nil turns the count off.
	Heat *keyviz.Collector
	// Limits bound requests.
	Limits ingest.Limits
	// WriteTimeout bounds the write of one request, including retries; 0 means 20 s.
	WriteTimeout time.Duration
	// Refresh is the time between two refreshes, which read what other servers have written; 0 means 2 s. A negative value turns
	// all background jobs off.
	Refresh time.Duration
	// StaleMax is the largest age of the last refresh. Queries fail beyond it. 0 means 30 s.
	StaleMax time.Duration
	// PackDelay and MarkAfter are Delay and MarkAfter of compactor.Options.
	PackDelay, MarkAfter time.Duration
	// PackConcurrency is compactor.Options.Concurrency.
	PackConcurrency int
	// PackInterval is the time between two runs of the compactor on the server with the lease; 0 means 1 minute.
	PackInterval time.Duration
	// LeaseTTL is the time after which another server takes over the lease of a dead server; 0 means 90 s.
	LeaseTTL time.Duration
	// MaintainInterval is the time between two maintenance runs, which compact days and remove idle series; 0 means 10 minutes.
	MaintainInterval time.Duration
	// IdleAfter is the time without samples after which the memory of a series is freed; 0 means 48 h.
	IdleAfter time.Duration
	// Guard, if not nil, checks at each refresh whether the tables may still be used. After an error that does not wrap
	// storage.ErrUnavailable, the server refuses all writes until Guard returns nil.
	Guard func(ctx context.Context) error
	// Now is the clock; nil means time.Now.
	Now func() time.Time
	// Logger logs for operators; nil discards all lines.
	Logger *slog.Logger
	// Registerer registers the metrics; nil means no registration.
	Registerer prometheus.Registerer
}

// Validate lists all faults of the options.
func (o Options) Validate() error {
	var errs []error
	if o.Store == nil || o.Index == nil || o.Schema == nil || o.Writer == "" {
		errs = append(errs, errors.New("options Store, Index, Schema and Writer are required"))
	}
	if o.WriteTimeout < 0 || o.StaleMax < 0 || o.PackInterval < 0 || o.MaintainInterval < 0 || o.IdleAfter < 0 ||
		o.LeaseTTL < 0 {
		errs = append(errs, errors.New("one of WriteTimeout, StaleMax, PackInterval, LeaseTTL, MaintainInterval and "+
			"IdleAfter is negative"))
	}
	if err := o.Limits.Validate(); err != nil {
		errs = append(errs, err)
	}
	if len(errs) > 0 {
		return fmt.Errorf("ingest options: %w", errors.Join(errs...))
	}
	return nil
}

func (o Options) withDefaults() Options {
	o.WriteTimeout = cmp.Or(o.WriteTimeout, 20*time.Second)
	o.Refresh = cmp.Or(o.Refresh, 2*time.Second)
	o.StaleMax = cmp.Or(o.StaleMax, 30*time.Second)
	o.MarkAfter = cmp.Or(o.MarkAfter, compactor.MarkAfterDefault)
	o.PackInterval = cmp.Or(o.PackInterval, time.Minute)
	o.MaintainInterval = cmp.Or(o.MaintainInterval, 10*time.Minute)
	o.IdleAfter = cmp.Or(o.IdleAfter, 48*time.Hour)
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// Direct stores each sample as a cell of the data table before it acknowledges it, and keeps no samples in memory. Any number
// of processes may share the tables. See the package comment.
type Direct struct {
	ingest.Writer
	opts      Options
	data      storage.Table
	meta      storage.Table
	compactor *compactor.Compactor
	lease     *lease.Keeper
	sequence  *flush.Sequence

	cleaning sync.Mutex // admits one CleanTombstones at a time

	notesMu sync.Mutex
	noted   map[int64]struct{} // hours for which this process has written a note

	retryDelay time.Duration // first pause before a retry of a write

	refreshedMs     atomic.Int64 // Unix milliseconds of the last successful refresh
	jobs            periodic.Jobs
	lateRows        prometheus.Counter
	retries         prometheus.Counter
	refreshFailures prometheus.Counter
}

// Open opens the tables and starts the background jobs.
func Open(ctx context.Context, opts Options) (t *Direct, err error) {
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	opts = opts.withDefaults()
	t = &Direct{opts: opts, noted: map[int64]struct{}{}, retryDelay: retryDelayMin}
	t.refreshedMs.Store(opts.Now().UnixMilli()) // opening the index has just read everything
	if t.data, err = opts.Store.EnsureTable(ctx, storage.DataSchema(time.Duration(opts.Retention.Longest()))); err != nil {
		return nil, fmt.Errorf("open table %s: %w", storage.TableData, err)
	}
	if t.meta, err = opts.Store.EnsureTable(ctx, storage.MetaSchema()); err != nil {
		return nil, fmt.Errorf("open table %s: %w", storage.TableMeta, err)
	}
	if t.sequence, err = flush.OpenSequence(ctx, opts.Store, t.meta); err != nil {
		return nil, err
	}
	slots, err := head.New(head.Options{Stripes: 1, RowBytesMax: 1}) // a slot for each series, without rows
	if err != nil {
		return nil, err
	}
	if err := t.Init(ctx, ingest.WriterOptions{
		Limits: opts.Limits, FloatsOnly: true, Retention: opts.Retention,
		Index: opts.Index, Schema: opts.Schema, Meta: t.meta, Sync: opts.Store.Sync,
		Head: slots, Heat: opts.Heat, Now: opts.Now, Logger: opts.Logger, Registerer: opts.Registerer,
	}); err != nil {
		return nil, err
	}
	if t.lease, err = t.keeper("maintenance"); err != nil {
		return nil, err
	}
	raw := t.data
	if opts.Tombstones != nil {
		opts.Tombstones.SetChanged(t.renew)
		if raw, err = opts.Tombstones.Base().Table(ctx, storage.TableData); err != nil {
			return nil, err
		}
	}
	if t.compactor, err = compactor.New(compactor.Options{
		Data: raw, Tombstones: opts.Tombstones, Meta: t.meta, Index: opts.Index, Schema: opts.Schema,
		Sequence: t.sequence.AllocateAbove,
		Delay:    opts.PackDelay, MarkAfter: opts.MarkAfter, Concurrency: opts.PackConcurrency,
		Now: opts.Now, Logger: opts.Logger, Registerer: opts.Registerer,
	}); err != nil {
		return nil, err
	}
	t.watch()
	t.startJobs()
	return t, nil
}

func (t *Direct) watch() {
	f := promauto.With(t.opts.Registerer)
	counter := func(name, help string) prometheus.Counter {
		return f.NewCounter(prometheus.CounterOpts{Name: "tsdb_ingest_" + name, Help: help})
	}
	gauge := func(name, help string, value func() float64) {
		f.NewGaugeFunc(prometheus.GaugeOpts{Name: "tsdb_ingest_" + name, Help: help}, value)
	}
	t.lateRows = counter("late_rows_total", "Rows with late samples, which were marked for the compactor.")
	t.retries = counter("row_retries_total", "Rows written again because the storage refused them at first.")
	t.refreshFailures = counter("refresh_failures_total", "Failed refreshes, which read what other servers have written.")
	gauge("series", "Series whose samples this server has received.", func() float64 { return float64(t.SeriesCount()) })
	gauge("in_flight_bytes", "Decoded bytes of requests being served.", func() float64 {
		return float64(t.InFlightBytes())
	})
	gauge("refresh_age_seconds", "Time since the last refresh, which reads what other servers have written.", func() float64 {
		return float64(t.opts.Now().UnixMilli()-t.refreshedMs.Load()) / 1e3
	})
	gauge("lease", "1 while this server holds the lease for packing and compaction.", func() float64 {
		if t.lease.Held() {
			return 1
		}
		return 0
	})
}

// AppendSamples appends nothing, because there are no unflushed samples.
func (t *Direct) AppendSamples(
	_ index.Ref, _, _ int64, tsMs []int64, values []float64,
) ([]int64, []float64, error) {
	return tsMs, values, nil
}

// AppendBatch appends nothing, because there are no unflushed samples.
func (t *Direct) AppendBatch(
	refs []uint32, _ keyschema.SampleWindow, tsMs []int64, values []float64, ends []int,
) ([]int64, []float64, []int, error) {
	for range refs {
		ends = append(ends, len(tsMs))
	}
	return tsMs, values, ends, nil
}

// AppendStartTimes appends nothing, because mode direct stores no start timestamps.
func (t *Direct) AppendStartTimes(
	_ index.Ref, _, _ int64, tsMs []int64, values []float64,
) ([]int64, []float64, error) {
	return tsMs, values, nil
}

// AppendHistograms appends nothing, because mode direct stores no histograms.
func (t *Direct) AppendHistograms(_ index.Ref, _, _ int64, dst []histchunk.Sample) ([]histchunk.Sample, error) {
	return dst, nil
}

// AppendExemplars appends nothing, because mode direct stores no exemplars.
func (t *Direct) AppendExemplars(_ index.Ref, _, _ int64, dst []exemplar.Exemplar) ([]exemplar.Exemplar, error) {
	return dst, nil
}

// Histograms returns nil, because no metric has histograms in mode direct.
func (t *Direct) Histograms() *histmetrics.Set { return nil }

// Holds returns false, because there are no unflushed samples.
func (t *Direct) Holds(_, _ int64) bool { return false }

// Flush stores the metadata of metrics. Samples are in the tables already.
func (t *Direct) Flush(ctx context.Context) error { return t.PersistMetadata(ctx) }

// Stats describes the server. There are no unflushed samples, so it only counts series.
func (t *Direct) Stats() ingest.Stats { return ingest.Stats{Series: t.SeriesCount()} }

// Pack packs the hours that are due. The server with the lease packs periodically.
func (t *Direct) Pack(ctx context.Context) error { return t.compactor.Run(ctx) }

// Maintains reports whether this server holds the lease to pack, compact and sweep.
func (t *Direct) Maintains() bool { return t.lease.Held() }

// Close refuses new writes, waits for running ones and releases the lease.
func (t *Direct) Close(ctx context.Context) error {
	if err := t.Shut(); err != nil {
		return err
	}
	t.jobs.Stop()
	err := t.Drain(ctx)
	t.jobs.Wait()
	return errors.Join(err, t.PersistMetadata(ctx), t.lease.Close(ctx))
}

// keeper returns the keeper of a lease for this process.
func (t *Direct) keeper(name string) (*lease.Keeper, error) {
	return lease.NewKeeper(lease.Options{
		Meta: t.meta, Name: name, Holder: t.opts.Writer, TTL: t.opts.LeaseTTL, Now: t.opts.Now,
	}, t.opts.Logger)
}

// Index returns the index for queries. A look-up fails if the last refresh is older than StaleMax, because it could miss
// writes of other servers.
func (t *Direct) Index() FreshIndex { return FreshIndex{t} }

// FreshIndex is the index of a Direct.
type FreshIndex struct{ t *Direct }

// check also makes all deletions so far visible to later queries.
func (c FreshIndex) check(ctx context.Context) error {
	if age := time.Duration(c.t.opts.Now().UnixMilli()-c.t.refreshedMs.Load()) * time.Millisecond; age > c.t.opts.StaleMax {
		return fmt.Errorf("%w: the writes of other servers were last read %s ago", storage.ErrUnavailable,
			age.Round(time.Second))
	}
	if c.t.opts.Tombstones != nil {
		if err := c.t.opts.Tombstones.Refresh(ctx); err != nil {
			return err
		}
	}
	if c.t.opts.Fresh == nil {
		return nil
	}
	return c.t.opts.Fresh(ctx)
}

// Select is index.Index.Select on a fresh index.
func (c FreshIndex) Select(
	ctx context.Context, budget index.Budget, mintMs, maxtMs int64, ms ...*labels.Matcher,
) ([]index.Series, error) {
	if err := c.check(ctx); err != nil {
		return nil, err
	}
	return c.t.opts.Index.Select(ctx, budget, mintMs, maxtMs, ms...)
}

// SelectProjected is index.Index.SelectProjected on a fresh index.
func (c FreshIndex) SelectProjected(
	ctx context.Context, budget index.Budget, names []string, mintMs, maxtMs int64, ms ...*labels.Matcher,
) ([]index.Series, error) {
	if err := c.check(ctx); err != nil {
		return nil, err
	}
	return c.t.opts.Index.SelectProjected(ctx, budget, names, mintMs, maxtMs, ms...)
}

// SelectJoin is index.Index.SelectJoin on a fresh index.
func (c FreshIndex) SelectJoin(
	ctx context.Context, budget index.Budget, keys *index.JoinKeys, mintMs, maxtMs int64, ms ...*labels.Matcher,
) (found []index.Series, omitted int, err error) {
	if err := c.check(ctx); err != nil {
		return nil, 0, err
	}
	return c.t.opts.Index.SelectJoin(ctx, budget, keys, mintMs, maxtMs, ms...)
}

// Explain is index.Index.Explain on a fresh index.
func (c FreshIndex) Explain(
	ctx context.Context, budget index.Budget, kind index.ResultKind, label string, mintMs, maxtMs int64, ms ...*labels.Matcher,
) (index.Work, error) {
	if err := c.check(ctx); err != nil {
		return index.Work{}, err
	}
	return c.t.opts.Index.Explain(ctx, budget, kind, label, mintMs, maxtMs, ms...)
}

// LabelNames is index.Index.LabelNames on a fresh index.
func (c FreshIndex) LabelNames(
	ctx context.Context, mintMs, maxtMs int64, limit int, ms ...*labels.Matcher,
) ([]string, error) {
	if err := c.check(ctx); err != nil {
		return nil, err
	}
	return c.t.opts.Index.LabelNames(ctx, mintMs, maxtMs, limit, ms...)
}

// LabelValues is index.Index.LabelValues on a fresh index.
func (c FreshIndex) LabelValues(
	ctx context.Context, name string, mintMs, maxtMs int64, limit int, ms ...*labels.Matcher,
) ([]string, error) {
	if err := c.check(ctx); err != nil {
		return nil, err
	}
	return c.t.opts.Index.LabelValues(ctx, name, mintMs, maxtMs, limit, ms...)
}
