package ingest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"halite/ingest/head"
	"halite/ingest/wal"
	"halite/storage/index"
)

const (
	logRefShift     = 12
	logRefChunkSize = 1 << logRefShift
	// retiredRef marks numbers whose samples replay passes over.
	retiredRef = ^uint32(0)
)

// errOrphan: the log has samples of a series that it does not describe.
var errOrphan = errors.New("samples without a series record in the write-ahead log")

// replay reads the log back into registry, catalogue and head.
type replay struct {
	i       *Ingester
	ctx     context.Context
	refs    []*[logRefChunkSize]uint32 // by number in the log
	request request                    // its scatter by stripe
	packer  *wal.SeriesPacker
	segment uint64
	lost    int
	samples int
	deleted []index.Ref // of a deletion whose last record is still to come
}

func (p *replay) ref(log uint32) uint32 {
	at := int(log >> logRefShift)
	if at >= len(p.refs) || p.refs[at] == nil {
		return 0
	}
	return p.refs[at][log&(logRefChunkSize-1)]
}

func (p *replay) setRef(log, ref uint32) {
	at := int(log >> logRefShift)
	for at >= len(p.refs) {
		p.refs = append(p.refs, nil)
	}
	if p.refs[at] == nil {
		p.refs[at] = new([logRefChunkSize]uint32)
	}
	p.refs[at][log&(logRefChunkSize-1)] = ref
}

// replayLog runs once, before anything is written.
func (i *Ingester) replayLog(ctx context.Context) error {
	start := time.Now()
	packer, err := wal.NewSeriesPacker()
	if err != nil {
		return err
	}
	defer packer.Close()
	p := &replay{i: i, ctx: ctx, packer: packer}
	p.request.i = &i.intake
	stats, err := i.log.Replay(p.record)
	if err != nil {
		return fmt.Errorf("replay the write-ahead log: %w", err)
	}
	until, err := i.log.Cut()
	if err != nil {
		return fmt.Errorf("cut the log: %w", err)
	}
	for n := range i.formers {
		i.formers[n].until = until
	}
	if err := p.settle(); err != nil {
		return err
	}
	i.metrics.replayed.Add(float64(p.samples))
	i.metrics.orphans.Add(float64(p.lost))
	i.opts.Logger.Info("write-ahead log read back", "segments", stats.Segments, "series", i.series.Load(),
		"samples", p.samples, "clean", stats.Clean, "duration", time.Since(start).Round(time.Millisecond))
	for _, loss := range stats.Losses {
		i.opts.Logger.Warn("part of the write-ahead log is lost, as accepted", "damage", loss.Damage.Error())
	}
	if p.lost > 0 {
		i.opts.Logger.Warn("samples lost with the log's series records, as accepted", "samples", p.lost)
	}
	return nil
}

func (p *replay) record(kind byte, payload []byte, pos wal.Position) error {
	if err := p.ctx.Err(); err != nil {
		return err
	}
	p.segment = pos.Segment
	switch kind {
	case wal.KindSeries:
		return wal.ParseSeries(payload, p.series)
	case wal.KindPackedSeries, wal.KindSeriesColumns:
		series, err := p.packer.Unpack(payload)
		if err != nil {
			return fmt.Errorf("%w at %s", err, pos)
		}
		if kind == wal.KindSeriesColumns {
			return wal.ParseSeriesColumns(series, p.series)
		}
		return wal.ParseSeries(series, p.series)
	case wal.KindSamples:
		return p.store(payload, pos)
	case wal.KindMetadata:
		return wal.ParseMetadata(payload, func(m wal.Metadata) error {
			p.i.metadata.put(m.Metric, Metadata{Type: m.Type, Help: m.Help, Unit: m.Unit})
			return nil
		})
	case wal.KindDeletion:
		return p.deletion(payload, pos)
	default:
		return fmt.Errorf("record of unknown kind %d at %s: the log was written by a newer version", kind, pos)
	}
}

func (p *replay) series(log uint32, ls labels.Labels) error {
	p.i.nextLog = max(p.i.nextLog, log+1)
	if ls.IsEmpty() {
		p.i.formers = append(p.i.formers, formerNumber{log: log})
		p.setRef(log, retiredRef)
		return nil
	}
	ref, err := p.i.restore(log, ls)
	if err != nil {
		return err
	}
	p.setRef(log, uint32(ref))
	return nil
}

func (p *replay) store(payload []byte, pos wal.Position) error {
	samples := p.request.samples[:0]
	it := wal.ReadSamples(payload)
	for it.Next() {
		if it.TsMs < 0 || it.TsMs > timestampMaxMs {
			return fmt.Errorf("%w: timestamp %d ms at %s", wal.ErrBadRecord, it.TsMs, pos)
		}
		switch ref := p.ref(it.Ref); ref {
		case retiredRef:
		case 0:
			if !p.i.opts.AcceptWALLoss {
				return fmt.Errorf("%w: number %d at %s", errOrphan, it.Ref, pos)
			}
			p.lost++
		default:
			samples = append(samples, head.Sample{Ref: ref, TsMs: it.TsMs, Value: it.Value})
		}
	}
	p.request.samples = samples
	if err := it.Err(); err != nil {
		return fmt.Errorf("samples at %s: %w", pos, err)
	}
	p.samples += len(samples)
	h := p.i.head
	p.request.stripe(h)
	for stripe := range h.Stripes() {
		some := p.request.striped[p.request.starts[stripe]:p.request.starts[stripe+1]]
		if len(some) == 0 {
			continue
		}
		if err := h.Append(stripe, some, p); err != nil {
			return err
		}
	}
	// The log may hold far more than the head: rows flushed before the crash are in it until it is truncated.
	_, err := p.i.relieve(p.ctx)
	return err
}

// Log implements head.Sink: the samples are in the log already.
func (p *replay) Log() (segment uint64, err error) { return p.segment, nil }

// Touch implements head.Sink.
func (p *replay) Touch(ref uint32, hour int64) { p.i.opts.Index.Touch(index.Ref(ref), hour) }
