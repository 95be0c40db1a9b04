package flush

import (
	"context"
	"fmt"
	"slices"

	"github.com/prometheus/prometheus/model/labels"

	"halite/ingest/wal/record"
	"halite/storage/index"
)

// seriesRecordBytes is the size of one record of series in a checkpoint. Larger records compress better.
const seriesRecordBytes = 8 << 20

// staleRef is a number in the log that new samples no longer use, while old samples in the log may have it.
type staleRef struct {
	log uint32
	// ref is the series' current ref. It is 0 if the series was removed. Replay then skips its samples, which are in the
	// tables.
	ref index.Ref
	// until is the first segment without such samples.
	until uint64
}

// AddStaleRef notes that new samples no longer use a number in the log. The fields of staleRef describe the parameters. The
// caller holds the lock or runs alone.
func (f *Flusher) AddStaleRef(log uint32, ref index.Ref, until uint64) {
	f.stale = append(f.stale, staleRef{log: log, ref: ref, until: until})
}

// StaleUntil sets the first segment without samples of any stale ref. The caller runs alone.
func (f *Flusher) StaleUntil(segment uint64) {
	for n := range f.stale {
		f.stale[n].until = segment
	}
}

// StaleRefs returns the number of stale refs in the log. The caller holds the lock.
func (f *Flusher) StaleRefs() int { return len(f.stale) }

// LogHasRemovedSeries reports whether the log may have samples of series that were removed. The caller holds the lock.
func (f *Flusher) LogHasRemovedSeries() bool {
	return slices.ContainsFunc(f.stale, func(s staleRef) bool { return s.ref == 0 })
}

// maybeCheckpoint is Checkpoint if a segment can be removed. Otherwise it does nothing. The caller holds the lock.
func (f *Flusher) maybeCheckpoint(ctx context.Context) error {
	if oldest, ok := f.head.OldestSegment(); ok && oldest <= f.truncated {
		return nil
	}
	return f.Checkpoint(ctx)
}

// Checkpoint syncs the tables and removes the unneeded part of the log. The caller holds the lock.
func (f *Flusher) Checkpoint(ctx context.Context) error {
	truncated, err := f.writeCheckpoint(ctx)
	switch {
	case err != nil:
		f.metrics.checkpointFails.Inc()
	case truncated:
		f.metrics.checkpoints.Inc()
	}
	return err
}

func (f *Flusher) writeCheckpoint(ctx context.Context) (truncated bool, err error) {
	if err := f.opts.Persist(ctx); err != nil {
		return false, err
	}
	// OldestSegment finds the rows of all samples that were logged before the rotation.
	newest, err := f.log.Rotate()
	if err != nil {
		return false, fmt.Errorf("rotate the log: %w", err)
	}
	point := newest
	if oldest, ok := f.head.OldestSegment(); ok {
		point = min(point, oldest)
	}
	if err := f.opts.NoteLog(ctx, point, newest); err != nil {
		return false, err
	}
	if err := f.opts.Store.Sync(ctx); err != nil {
		return false, fmt.Errorf("sync the tables: %w", err)
	}
	f.unsynced = false
	if point <= f.truncated {
		return false, nil
	}
	if err := f.log.Truncate(point, func(emit func(kind byte, payload []byte) error) error {
		return f.emitCheckpoint(point, emit)
	}); err != nil {
		return false, fmt.Errorf("truncate the log before segment %d: %w", point, err)
	}
	f.truncated = point
	return true, nil
}

// emitCheckpoint writes the state that replay needs before it reads segment point: the numbers of all series, stale ones
// first, and metadata. A series without labels is a removed one. The list may include a series whose record comes after
// the rotation of the log. A repeated number for the same series does no harm.
func (f *Flusher) emitCheckpoint(point uint64, emit func(kind byte, payload []byte) error) error {
	type number struct{ ref, log uint32 }
	f.opts.Register.Lock()
	count := 0
	f.head.EachSeries(func(_, _ uint32) { count++ })
	numbers := make([]number, 0, count) // one allocation: there may be millions
	f.head.EachSeries(func(ref, log uint32) { numbers = append(numbers, number{ref, log}) })
	f.opts.Register.Unlock()
	w, err := newSeriesWriter(emit)
	if err != nil {
		return err
	}
	defer w.packer.Close()
	f.stale = slices.DeleteFunc(f.stale, func(s staleRef) bool { return s.until <= point })
	for _, s := range f.stale {
		ls := labels.EmptyLabels()
		if s.ref != 0 {
			ls = f.opts.Index.Labels(s.ref) // empty if the series was removed meanwhile
		}
		if err := w.add(s.log, ls); err != nil {
			return err
		}
	}
	var ls labels.Labels
	builder := labels.NewScratchBuilder(16)
	for _, n := range numbers {
		if !f.opts.Index.ReadLabels(index.Ref(n.ref), &builder, &ls) {
			ls = labels.EmptyLabels()
		}
		if err := w.add(n.log, ls); err != nil {
			return err
		}
	}
	if err := w.flush(); err != nil {
		return err
	}
	return f.opts.EmitMetadata(emit)
}

// seriesWriter writes the series of a checkpoint, record by record.
type seriesWriter struct {
	packer  *record.SeriesPacker
	columns *record.SeriesColumns
	payload []byte
	emit    func(kind byte, payload []byte) error
}

func newSeriesWriter(emit func(kind byte, payload []byte) error) (*seriesWriter, error) {
	packer, err := record.NewSeriesPacker()
	if err != nil {
		return nil, err
	}
	return &seriesWriter{packer: packer, columns: record.NewSeriesColumns(), emit: emit}, nil
}

func (w *seriesWriter) add(log uint32, ls labels.Labels) error {
	w.columns.Add(log, ls)
	if w.columns.SizeBytes() < seriesRecordBytes {
		return nil
	}
	return w.flush()
}

func (w *seriesWriter) flush() error {
	if w.columns.SizeBytes() == 0 {
		return nil
	}
	w.payload = w.columns.Append(w.payload[:0])
	w.columns = record.NewSeriesColumns()
	return w.emit(record.KindSeriesColumns, w.packer.Pack(w.payload))
}
