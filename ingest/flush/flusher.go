package flush

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"halite/ingest/head"
	"halite/ingest/wal"
	"halite/storage"
	"halite/storage/histmetrics"
	"halite/storage/index"
)

// Options configure a Flusher. All fields but Registerer are required.
type Options struct {
	Head     *head.Head
	Log      *wal.Log
	Index    *index.Index
	Store    storage.Store
	Data     storage.Table
	Sequence *Sequence
	// Histograms are the metrics with histograms.
	Histograms *histmetrics.Set

	// HeadBytesMax returns the memory of the head above which rows are flushed early.
	HeadBytesMax func() int64
	// LowSpace reports whether disk space is low, so that the log must be short.
	LowSpace func() bool
	// Persist durably writes series and metadata that the tables lack.
	Persist func(ctx context.Context) error
	// NoteLog records in the tables that the log has reached segment newest, and that the tables hold all samples before the
	// segment point. The record takes effect with the next sync of the tables.
	NoteLog func(ctx context.Context, point, newest uint64) error
	// EmitMetadata adds the metadata that the tables lack to a checkpoint of the log.
	EmitMetadata func(emit func(kind byte, payload []byte) error) error
	// Register serialises registrations of series in the head.
	Register sync.Locker

	// FlushBytes is the memory of the rows that a flush writes in one batch.
	FlushBytes int64
	// Grace is the time after the end of an hour for which its rows wait for late samples. Spread is the time over which the
	// rows of one hour are flushed.
	Grace, Spread time.Duration
	// Tick is the time between two runs of the job.
	Tick time.Duration
	// CheckpointInterval is the minimum time between two checkpoints of the job.
	CheckpointInterval time.Duration
	// LogBytesMax is the size of the log above which rows are flushed early. SegmentBytes is the size of one
	// segment.
	LogBytesMax, SegmentBytes int64

	Now        func() time.Time
	Registerer prometheus.Registerer
}

// Flusher writes rows of the head to the data table and truncates the log.
//
// Its lock admits one flush, checkpoint, deletion or series garbage collection at a time. Each method says if the caller
// must hold it.
type Flusher struct {
	opts    Options
	head    *head.Head
	log     *wal.Log
	metrics metrics
	started time.Time
	wake    chan struct{}

	mu           sync.Mutex // guards the fields below
	partitions   partitions
	stale        []staleRef
	truncated    uint64 // first segment of the log
	unsynced     bool   // rows were written since the last sync
	checkpointed time.Time
}

// New returns a flusher. It does nothing on its own: the caller runs Step.
func New(opts Options) *Flusher {
	now := opts.Now()
	return &Flusher{
		opts: opts, head: opts.Head, log: opts.Log, metrics: newMetrics(opts.Registerer), started: now, checkpointed: now,
		wake:       make(chan struct{}, 1),
		partitions: partitions{head: opts.Head, index: opts.Index, sizeBytes: opts.FlushBytes},
	}
}

// Lock waits until no flush, checkpoint, deletion or series garbage collection runs, and prevents new ones.
func (f *Flusher) Lock() { f.mu.Lock() }

// Unlock lets the next operation start.
func (f *Flusher) Unlock() { f.mu.Unlock() }

// Wake makes the job run at once. It never blocks.
func (f *Flusher) Wake() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// Woken receives a value after Wake.
func (f *Flusher) Woken() <-chan struct{} { return f.wake }

// Step is one run of the job. It flushes rows that are due, and more if memory or the log has reached its limit. It writes a
// checkpoint from time to time.
func (f *Flusher) Step(ctx context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.opts.Now()
	// Ticks follow the clock, so a wake-up does not make rows look idle sooner.
	tick := uint32(max(0, now.Sub(f.started)/f.opts.Tick))
	f.head.SetTick(tick)
	err := f.flushDue(ctx, now.UnixMilli(), tick)
	_, memoryErr := f.freeMemory(ctx)
	if err = errors.Join(err, memoryErr, f.shortenLog(ctx)); err != nil {
		return err
	}
	if !f.unsynced || now.Sub(f.checkpointed) < f.opts.CheckpointInterval {
		return nil
	}
	if err := f.maybeCheckpoint(ctx); err != nil {
		return err
	}
	f.checkpointed = now
	return nil
}

// flushDue flushes the rows that are due. When an hour has closed, it divides the table's keys for the rows of that hour.
func (f *Flusher) flushDue(ctx context.Context, nowMs int64, tick uint32) error {
	open := openHour(nowMs, f.opts.Grace)
	closed := func(row head.RowInfo) bool { return row.Hour < open }
	if f.partitions.hour != open && f.partitions.rebuildFor(closed) {
		f.partitions.hour = open
	}
	_, err := f.FlushRows(ctx, dueRule(dueInput{
		nowMs: nowMs, tick: tick, grace: f.opts.Grace, spread: f.opts.Spread,
		partitions: f.partitions.count(), partitionOf: f.partitions.lookup, backlog: f.hasBacklog(open),
	}))
	return err
}

// hasBacklog applies the policy's hasBacklog. It skips the check of rows while the head is small.
func (f *Flusher) hasBacklog(open int64) bool {
	limitBytes := f.opts.HeadBytesMax()
	if !hasBacklog(f.head.Bytes(), limitBytes) {
		return false
	}
	_, lateBytes := countRows(f.head, func(row head.RowInfo) bool { return isLate(row, open) })
	return hasBacklog(lateBytes, limitBytes)
}

// FreeMemory flushes rows early if the head uses too much memory. It returns the number of rows written.
func (f *Flusher) FreeMemory(ctx context.Context) (rows int, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.freeMemory(ctx)
}

// freeMemory first flushes the rows of closed hours, then the largest rows.
func (f *Flusher) freeMemory(ctx context.Context) (rows int, err error) {
	needed, targetBytes := needsMemory(f.head.Bytes(), f.opts.HeadBytesMax())
	if !needed {
		return 0, nil
	}
	rows, err = f.FlushRows(ctx, closedRule(f.opts.Now().UnixMilli()))
	excessBytes := f.head.Bytes() - targetBytes
	if err != nil || excessBytes <= 0 {
		return rows, err
	}
	sizes := f.head.BytesByRowSize()
	more, err := f.FlushRows(ctx, largestRule(excessBytes, sizes[:]))
	return rows + more, err
}

// shortenLog flushes the rows that keep the log above its limit, and truncates the log to half of the limit. It first flushes
// the rows of closed hours. If that is not enough, it flushes open rows that need the oldest segments. These rows are
// written once more at the end of their hour.
func (f *Flusher) shortenLog(ctx context.Context) error {
	limitBytes := logLimit(f.opts.LogBytesMax, f.opts.SegmentBytes, f.opts.LowSpace())
	if f.log.Stats().SizeBytes <= limitBytes {
		return nil
	}
	first := f.log.FirstSegmentWithin(limitBytes / 2)
	_, err := f.FlushRows(ctx, closedRule(f.opts.Now().UnixMilli()))
	if oldest, ok := f.head.OldestSegment(); err == nil && ok && oldest < first {
		_, err = f.FlushRows(ctx, segmentRule(first))
	}
	// The rows flushed before a failure may free some segments.
	return errors.Join(err, f.maybeCheckpoint(ctx))
}

// All writes the whole head to the tables, syncs them and truncates the log. The caller holds the lock.
func (f *Flusher) All(ctx context.Context) error {
	if _, err := f.FlushRows(ctx, everything); err != nil {
		return err
	}
	return f.Checkpoint(ctx)
}

// MarkUnsynced records that the caller has written rows, so that the job syncs the tables. The caller holds the lock.
func (f *Flusher) MarkUnsynced() { f.unsynced = true }

// FlushRows writes the rows that pick takes, and counts failures. The caller holds the lock.
func (f *Flusher) FlushRows(ctx context.Context, pick func(row head.RowInfo) bool) (int, error) {
	job := job{
		opts: &f.opts, partitions: &f.partitions, metrics: &f.metrics,
		encoder: chunkEncoder{histogramBytesMax: storage.CellBytesMax / 2},
	}
	rows, err := job.flush(ctx, pick)
	if rows > 0 {
		f.unsynced = true
	}
	if err != nil {
		if ctx.Err() == nil {
			f.metrics.flushFails.Inc()
		}
		return rows, fmt.Errorf("flush: %w", err)
	}
	return rows, nil
}
