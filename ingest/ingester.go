package ingest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"halite/ingest/deletion"
	"halite/ingest/flush"
	"halite/ingest/head"
	"halite/ingest/identity"
	"halite/ingest/wal"
	"halite/keyschema"
	"halite/keyschema/exemplar"
	"halite/keyschema/histchunk"
	"halite/storage"
	"halite/storage/histmetrics"
	"halite/storage/index"
	"halite/storage/periodic"
)

// Stats describes the state of the ingester.
type Stats struct {
	// Series counts active series. Rows and Samples count unflushed rows and samples in the head.
	Series, Rows, Samples int
	// HeadBytes is the memory of unflushed samples. SeriesBytes is the memory of active series, without samples.
	HeadBytes, SeriesBytes int64
	// MinTimeMs and MaxTimeMs bound the unflushed samples to whole hours; both 0 if there are none.
	MinTimeMs, MaxTimeMs int64
	// WAL describes the log.
	WAL wal.Stats
}

// Ingester stores samples. See the package comment.
//
// Locks, outermost first: the flusher's lock, seriesGCLock, regMu or metadata.mu, a stripe of the head, locks of index and log.
type Ingester struct {
	Writer
	opts     Options
	data     storage.Table
	sequence *flush.Sequence
	flusher  *flush.Flusher
	deleter  *deletion.Deleter
	// histograms are the metrics with histograms.
	histograms *histmetrics.Set

	identity *identity.Keeper // guarded by the flusher's lock
	drained  bool             // no more samples will arrive; guarded by the flusher's lock

	collectedDay int64 // day of the last garbage collection; only the maintenance goroutine uses it

	jobs periodic.Jobs
}

// Open replays the log into the head and starts the background jobs. For a damaged log it returns a *wal.DamageError unless
// Options.AcceptWALLoss is set. For a log and tables that do not belong together it returns an *identity.Error unless that
// loss is accepted.
func Open(ctx context.Context, opts Options) (_ *Ingester, err error) {
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	opts = opts.withDefaults()
	i := &Ingester{opts: opts}
	if err := i.openTables(ctx); err != nil {
		return nil, err
	}
	if i.log, err = wal.Open(wal.Options{
		Dir: opts.Dir, FS: opts.FS, SegmentBytesMax: opts.WALSegmentBytesMax, CommitDelay: opts.WALCommitDelay,
		AcceptLoss: opts.AcceptWALLoss, BufferBytesMax: opts.WALBufferBytesMax,
		Now: opts.Now, Logger: opts.Logger, Registerer: opts.Registerer,
	}); err != nil {
		return nil, fmt.Errorf("open the write-ahead log: %w", err)
	}
	i.flusher = i.newFlusher()
	i.deleter = i.newDeleter()
	if err := i.openLog(ctx); err != nil {
		return nil, errors.Join(err, i.log.Close())
	}
	i.checkSpace()
	i.watch(opts.Registerer)
	i.seriesLimits.watch(opts.Registerer)
	i.startJobs()
	return i, nil
}

// openLog checks that log and tables belong together, and replays the log.
func (i *Ingester) openLog(ctx context.Context) (err error) {
	i.identity, err = identity.Open(ctx, identity.Options{
		Store: i.opts.Store, FS: i.opts.FS, Dir: i.opts.Dir, AcceptWALLoss: i.opts.AcceptWALLoss,
		AcceptTableLoss: i.opts.AcceptTableLoss, TakeOver: i.opts.TakeOver,
	}, i.meta, i.log, i.now)
	if err != nil {
		return err
	}
	if err := i.replayLog(ctx); err != nil {
		return err
	}
	return i.identity.Bind(ctx)
}

// openTables opens the tables and makes the head and the writer.
func (i *Ingester) openTables(ctx context.Context) (err error) {
	store := i.opts.Store
	if i.data, err = store.EnsureTable(ctx, storage.DataSchema(time.Duration(i.opts.Retention.Longest()))); err != nil {
		return fmt.Errorf("open table %s: %w", storage.TableData, err)
	}
	meta, err := store.EnsureTable(ctx, storage.MetaSchema())
	if err != nil {
		return fmt.Errorf("open table %s: %w", storage.TableMeta, err)
	}
	if i.sequence, err = flush.OpenSequence(ctx, store, meta); err != nil {
		return err
	}
	if i.histograms, err = histmetrics.Open(ctx, meta); err != nil {
		return err
	}
	tuning := i.opts.Head
	h, err := head.New(head.Options{Stripes: tuning.Stripes, RowBytesMax: tuning.RowBytesMax, ExemplarsMax: tuning.ExemplarsMax})
	if err != nil {
		return err
	}
	return i.Init(ctx, WriterOptions{
		Limits: i.opts.Limits, Memory: tuning, Retention: i.opts.Retention, Index: i.opts.Index,
		Schema: i.opts.Schema, Meta: meta, Sync: store.Sync, Head: h, Heat: i.opts.Heat, Now: i.opts.Now,
		Logger: i.opts.Logger, Registerer: i.opts.Registerer,
	})
}

// newFlusher returns the flusher, which moves rows from the head to the tables and truncates the log.
func (i *Ingester) newFlusher() *flush.Flusher {
	tuning := i.opts.Head
	tick := tuning.FlushInterval
	if tick < 0 {
		tick = time.Second
	}
	return flush.New(flush.Options{
		Head: i.head, Log: i.log, Index: i.index, Store: i.opts.Store, Data: i.data, Sequence: i.sequence,
		Histograms:   i.histograms,
		HeadBytesMax: i.admission.memory.rowBytesMax, LowSpace: i.admission.lacksSpace, Persist: i.persist, NoteLog: i.noteLog,
		EmitMetadata: i.metadata.emit, Register: &i.regMu, FlushBytes: tuning.FlushBytes, Grace: tuning.Grace,
		Spread: tuning.Spread, Tick: tick, CheckpointInterval: tuning.CheckpointInterval, LogBytesMax: i.opts.WALBytesMax,
		SegmentBytes: cmp.Or(i.opts.WALSegmentBytesMax, wal.SegmentBytesDefault), Now: i.now, Registerer: i.opts.Registerer,
	})
}

// noteLog records in table meta the progress of the log and of the tables. The caller holds the flusher's lock.
func (i *Ingester) noteLog(ctx context.Context, point, newest uint64) error {
	return i.identity.Advance(ctx, point, newest, i.drained)
}

// persist writes the index, metadata and the set of metrics with histograms to the tables.
func (i *Ingester) persist(ctx context.Context) error {
	if err := i.index.Persist(ctx); err != nil {
		return fmt.Errorf("persist the index: %w", err)
	}
	if i.opts.Tombstones != nil {
		if err := i.opts.Tombstones.Save(ctx); err != nil {
			return err
		}
	}
	if err := i.histograms.Persist(ctx); err != nil {
		return err
	}
	return i.metadata.persist(ctx)
}

// Flush writes the whole head to the tables, syncs them and truncates the log. The caller may repeat a Flush that failed with
// storage.ErrUnavailable.
func (i *Ingester) Flush(ctx context.Context) error {
	i.flusher.Lock()
	defer i.flusher.Unlock()
	return retryable(i.flusher.All(ctx))
}

// Snapshot copies log and tables so that the copies open together and hold every sample acknowledged before the call: see
// flush.Flusher.Snapshot. The caller may repeat a snapshot that failed with storage.ErrUnavailable.
func (i *Ingester) Snapshot(ctx context.Context, logDir string, tables func(ctx context.Context) error) error {
	if err := i.Enter(); err != nil {
		return err
	}
	defer i.Exit()
	return retryable(i.flusher.Snapshot(ctx, logDir, tables))
}

// AppendSamples appends the unflushed samples of a series in [mintMs, maxtMs] to the two columns: ascending, each
// timestamp once.
func (i *Ingester) AppendSamples(
	ref index.Ref, mintMs, maxtMs int64, tsMs []int64, values []float64,
) ([]int64, []float64, error) {
	return i.head.AppendSamples(uint32(ref), mintMs, maxtMs, tsMs, values)
}

// AppendBatch is AppendSamples for several series, one after the other. It appends the end of each series in the columns to
// ends.
func (i *Ingester) AppendBatch(
	refs []uint32, w keyschema.SampleWindow, tsMs []int64, values []float64, ends []int,
) ([]int64, []float64, []int, error) {
	return i.head.AppendBatch(refs, w, tsMs, values, ends)
}

// AppendHistograms appends the unflushed histograms of a series in [mintMs, maxtMs] to dst: ascending, each timestamp once.
func (i *Ingester) AppendHistograms(
	ref index.Ref, mintMs, maxtMs int64, dst []histchunk.Sample,
) ([]histchunk.Sample, error) {
	return i.head.AppendHistograms(uint32(ref), mintMs, maxtMs, dst)
}

// AppendExemplars appends the unflushed exemplars of a series in [mintMs, maxtMs] to dst, by time.
func (i *Ingester) AppendExemplars(
	ref index.Ref, mintMs, maxtMs int64, dst []exemplar.Exemplar,
) ([]exemplar.Exemplar, error) {
	return i.head.AppendExemplars(uint32(ref), mintMs, maxtMs, dst)
}

// AppendStartTimes is AppendSamples for start times. A value is the start timestamp in milliseconds since 1970.
func (i *Ingester) AppendStartTimes(
	ref index.Ref, mintMs, maxtMs int64, tsMs []int64, values []float64,
) ([]int64, []float64, error) {
	return i.head.AppendStartTimes(uint32(ref), mintMs, maxtMs, tsMs, values)
}

// Histograms returns the metrics with histograms, stored or not.
func (i *Ingester) Histograms() *histmetrics.Set { return i.histograms }

// Holds reports whether there may be unflushed samples in [mintMs, maxtMs]. If it returns false, AppendSamples would find none.
func (i *Ingester) Holds(mintMs, maxtMs int64) bool { return i.head.Holds(mintMs, maxtMs) }

// Stats returns the current state of the ingester.
func (i *Ingester) Stats() Stats {
	s := Stats{
		Series: int(i.series.Load()), Rows: i.head.Rows(), Samples: i.head.Samples(), HeadBytes: i.head.Bytes(),
		SeriesBytes: i.admission.memory.seriesBytes(), WAL: i.log.Stats(),
	}
	if first, last, ok := i.head.Bounds(); ok {
		s.MinTimeMs, s.MaxTimeMs = keyschema.HourStartMs(first), keyschema.HourCellMs(last)
	}
	return s
}

// Close refuses new writes, waits for running ones, flushes and syncs everything and closes the log. If the flush fails, the
// log still has the samples and the next Open restores them.
func (i *Ingester) Close(ctx context.Context) error {
	if err := i.Shut(); err != nil {
		return err
	}
	i.jobs.Stop()
	err := i.Drain(ctx)
	i.jobs.Wait()
	if err == nil {
		i.flusher.Lock()
		i.drained = true
		i.flusher.Unlock()
		err = i.Flush(ctx)
	}
	if closeErr := i.log.Close(); closeErr != nil {
		err = errors.Join(err, fmt.Errorf("close the write-ahead log: %w", closeErr))
	}
	i.callers.Wait() // wait for the writers that the closed log refuses
	return err
}

// Refusing returns the error with which the ingester refuses writes now, nil if it accepts them. Reads continue. An error
// that wraps storage.ErrFailed lasts until the server restarts. All other conditions end without a restart.
func (i *Ingester) Refusing() error {
	if err := i.log.Refusing(); err != nil {
		return retryable(err)
	}
	if resource, reason := i.admission.lacks(); resource != "" {
		return fmt.Errorf("%w: %s", storage.ErrUnavailable, reason)
	}
	return nil
}

// watch registers the gauges that read the ingester's state.
func (i *Ingester) watch(reg prometheus.Registerer) {
	f := promauto.With(reg)
	gauge := func(name, help string, value func() float64) {
		f.NewGaugeFunc(prometheus.GaugeOpts{Name: "tsdb_ingest_" + name, Help: help}, value)
	}
	gauge("series", "Active series.", func() float64 { return float64(i.series.Load()) })
	gauge("head_rows", "Unflushed rows.", func() float64 { return float64(i.head.Rows()) })
	gauge("head_samples", "Unflushed samples.", func() float64 { return float64(i.head.Samples()) })
	gauge("head_bytes", "Memory of unflushed rows.", func() float64 { return float64(i.head.Bytes()) })
	gauge("in_flight_bytes", "Decoded bytes of requests being served.", func() float64 {
		return float64(i.admission.inFlight.Load())
	})
	gauge("refusing_for_space", "1 while writes are refused for lack of disk space.", func() float64 {
		if i.admission.lacksSpace() {
			return 1
		}
		return 0
	})
}
