package ingest

import (
	"context"
	"fmt"
	"slices"

	"github.com/prometheus/prometheus/model/labels"

	"halite/ingest/wal"
	"halite/storage/index"
)

// checkpointRecordBytes of series are written as one record; the more, the better it packs.
const checkpointRecordBytes = 8 << 20

// formerNumber is a number in the log that no new samples are written under, but that samples there may still have.
type formerNumber struct {
	log uint32
	// ref is the series' present ref; 0 if it is forgotten: replay passes over its samples then, the tables have them.
	ref index.Ref
	// until is the first segment without such samples.
	until uint64
}

// checkpoint makes the tables durable and drops the part of the log that nothing needs any more. The caller holds
// flushMu. force asks for it even if no segment could go.
func (i *Ingester) checkpoint(ctx context.Context, force bool) error {
	if oldest, ok := i.head.OldestSegment(); ok && oldest <= i.truncated && !force {
		return nil
	}
	if err := i.persist(ctx); err != nil {
		i.metrics.checkFails.Inc()
		return err
	}
	// Samples logged before the cut are in rows by the time that OldestSegment has looked at their stripe.
	cut, err := i.log.Cut()
	if err != nil {
		i.metrics.checkFails.Inc()
		return fmt.Errorf("cut the log: %w", err)
	}
	point := cut
	if oldest, ok := i.head.OldestSegment(); ok {
		point = min(point, oldest)
	}
	if err := i.foretell(ctx, point, cut); err != nil {
		i.metrics.checkFails.Inc()
		return err
	}
	if err := i.opts.Store.Sync(ctx); err != nil {
		i.metrics.checkFails.Inc()
		return fmt.Errorf("sync the tables: %w", err)
	}
	i.unsynced = false
	if point <= i.truncated {
		return nil
	}
	err = i.log.Truncate(point, func(emit func(kind byte, payload []byte) error) error {
		return i.emitCheckpoint(point, emit)
	})
	if err != nil {
		i.metrics.checkFails.Inc()
		return fmt.Errorf("truncate the log before segment %d: %w", point, err)
	}
	i.truncated = point
	i.metrics.checkpoints.Inc()
	return nil
}

// persist writes what the tables lack besides rows.
func (i *Ingester) persist(ctx context.Context) error {
	if err := i.opts.Index.Persist(ctx); err != nil {
		return fmt.Errorf("persist the catalogue: %w", err)
	}
	if i.opts.Tombstones != nil {
		if err := i.opts.Tombstones.Save(ctx); err != nil {
			return err
		}
	}
	return i.persistMetadata(ctx)
}

// emitCheckpoint writes what replay must know before the segments from point on: the numbers of all series, former ones
// first. A series without labels is a forgotten one. A series whose record comes after the cut of the log may be among
// them; a number given twice to the same series does no harm.
func (i *Ingester) emitCheckpoint(point uint64, emit func(kind byte, payload []byte) error) error {
	type number struct{ ref, log uint32 }
	i.regMu.Lock()
	numbers := make([]number, 0, i.series.Load())
	i.head.EachSeries(func(ref, log uint32) { numbers = append(numbers, number{ref, log}) })
	i.regMu.Unlock()
	w, err := newSeriesWriter(emit)
	if err != nil {
		return err
	}
	defer w.packer.Close()
	i.formers = slices.DeleteFunc(i.formers, func(f formerNumber) bool { return f.until <= point })
	for _, f := range i.formers {
		ls := labels.EmptyLabels()
		if f.ref != 0 {
			ls = i.opts.Index.Labels(f.ref) // empty if it was forgotten meanwhile
		}
		if err := w.add(f.log, ls); err != nil {
			return err
		}
	}
	var ls labels.Labels
	builder := labels.NewScratchBuilder(16)
	for _, n := range numbers {
		if !i.opts.Index.ReadLabels(index.Ref(n.ref), &builder, &ls) {
			ls = labels.EmptyLabels()
		}
		if err := w.add(n.log, ls); err != nil {
			return err
		}
	}
	if err := w.flush(); err != nil {
		return err
	}
	return i.emitMetadata(emit)
}

// seriesWriter writes the series of a checkpoint, record by record.
type seriesWriter struct {
	packer  *wal.SeriesPacker
	columns *wal.SeriesColumns
	payload []byte
	emit    func(kind byte, payload []byte) error
}

func newSeriesWriter(emit func(kind byte, payload []byte) error) (*seriesWriter, error) {
	packer, err := wal.NewSeriesPacker()
	if err != nil {
		return nil, err
	}
	return &seriesWriter{packer: packer, columns: wal.NewSeriesColumns(), emit: emit}, nil
}

func (w *seriesWriter) add(log uint32, ls labels.Labels) error {
	w.columns.Add(log, ls)
	if w.columns.SizeBytes() < checkpointRecordBytes {
		return nil
	}
	return w.flush()
}

func (w *seriesWriter) flush() error {
	if w.columns.SizeBytes() == 0 {
		return nil
	}
	w.payload = w.columns.Append(w.payload[:0])
	w.columns = wal.NewSeriesColumns()
	return w.emit(wal.KindSeriesColumns, w.packer.Pack(w.payload))
}

// Flush writes the whole head to the tables, syncs them and truncates the log. An error with storage.ErrUnavailable is
// worth a repetition.
func (i *Ingester) Flush(ctx context.Context) (err error) {
	defer func() { err = retryable(err) }()
	i.flushMu.Lock()
	defer i.flushMu.Unlock()
	if _, err := i.flushRows(ctx, everything); err != nil {
		return err
	}
	return i.checkpoint(ctx, true)
}
