package ingest

import (
	"bytes"
	"context"
	"fmt"

	"github.com/prometheus/prometheus/model/labels"

	"halite/ingest/head"
	"halite/ingest/remotewrite"
	"halite/ingest/wal"
	"halite/ingest/wal/record"
)

const (
	// replayBatchSeries and replayBatchSamples bound a batch, but that one record of samples is never divided.
	replayBatchSeries  = 4096
	replayBatchSamples = 16384
	// replayBatches are decoded ahead.
	replayBatches = 4
)

// replayBatch is a decoded part of the log: series, or samples of one segment, or a record of another kind.
type replayBatch struct {
	kind    byte // record.KindSeries for series of any encoding
	segment uint64
	records []replayRecord
	series  []replaySeries
	labels  []labels.Label // of all series
	samples []record.Sample
	payload []byte // of another kind
}

// replayRecord is the place of a record in the log, and the end of its samples in the batch.
type replayRecord struct {
	pos wal.Position
	end int
}

// replaySeries is a series with its number in the log. It has labels from the end of the one before.
type replaySeries struct {
	log       uint32
	labelsEnd int
	key       head.Key
}

func (b *replayBatch) reset() {
	clear(b.labels)
	b.records, b.series, b.labels, b.samples = b.records[:0], b.series[:0], b.labels[:0], b.samples[:0]
	b.kind, b.payload = 0, nil
}

// full: the batch should go before it takes more.
func (b *replayBatch) full() bool {
	return len(b.series) >= replayBatchSeries || len(b.samples) >= replayBatchSamples
}

// position is that of the record with the n-th sample.
func (b *replayBatch) position(n int) wal.Position {
	at := 0
	for n >= b.records[at].end {
		at++
	}
	return b.records[at].pos
}

// replayReader decodes records of the log into batches, ahead of the replay that applies them.
type replayReader struct {
	ctx      context.Context
	registry *head.Registry // for its hash
	packer   *record.SeriesPacker
	batch    *replayBatch
	fields   []byte
	finished bool

	batches chan *replayBatch
	used    chan *replayBatch // applied, for reuse
	stopped chan struct{}     // closed when nothing is applied any more
	err     error             // why; valid after stopped
}

func newReplayReader(ctx context.Context, registry *head.Registry) (*replayReader, error) {
	packer, err := record.NewSeriesPacker()
	if err != nil {
		return nil, err
	}
	return &replayReader{
		ctx: ctx, registry: registry, packer: packer, batch: &replayBatch{},
		batches: make(chan *replayBatch, replayBatches), used: make(chan *replayBatch, replayBatches+2),
		stopped: make(chan struct{}),
	}, nil
}

// stop ends the reader: no batch is applied any more.
func (r *replayReader) stop(err error) {
	r.err = err
	close(r.stopped)
}

// record takes the next record of the log.
func (r *replayReader) record(kind byte, payload []byte, pos wal.Position) error {
	if err := r.ctx.Err(); err != nil {
		return err
	}
	switch kind {
	case record.KindSeries:
		return r.parse(payload, pos, record.ParseSeries)
	case record.KindSeriesColumns:
		series, err := r.packer.Unpack(payload)
		if err != nil {
			return fmt.Errorf("%w at %s", err, pos)
		}
		return r.parse(series, pos, record.ParseSeriesColumns)
	case record.KindSamples:
		return r.samples(payload, pos)
	case record.KindMetadata, record.KindDeletion:
		if err := r.begin(kind, pos); err != nil {
			return err
		}
		r.batch.payload = bytes.Clone(payload)
		return r.send()
	default:
		return fmt.Errorf("record of unknown kind %d at %s: the log was written by a newer version", kind, pos)
	}
}

// begin makes the batch ready for a record of a kind.
func (r *replayReader) begin(kind byte, pos wal.Position) error {
	if b := r.batch; b.kind != kind || b.segment != pos.Segment || b.full() {
		if err := r.send(); err != nil {
			return err
		}
	}
	r.batch.kind, r.batch.segment = kind, pos.Segment
	r.batch.records = append(r.batch.records, replayRecord{pos: pos})
	return nil
}

func (r *replayReader) parse(
	payload []byte, pos wal.Position, parse func([]byte, func(log uint32, ls []labels.Label) error) error,
) error {
	if err := r.begin(record.KindSeries, pos); err != nil {
		return err
	}
	return parse(payload, func(log uint32, ls []labels.Label) error {
		if r.batch.full() {
			if err := r.begin(record.KindSeries, pos); err != nil {
				return err
			}
		}
		b := r.batch
		b.labels = append(b.labels, ls...)
		r.fields = remotewrite.AppendPairs(r.fields[:0], ls)
		b.series = append(b.series, replaySeries{log: log, labelsEnd: len(b.labels), key: r.registry.Hash(r.fields)})
		return nil
	})
}

func (r *replayReader) samples(payload []byte, pos wal.Position) error {
	if err := r.begin(record.KindSamples, pos); err != nil {
		return err
	}
	b := r.batch
	it := record.ReadSamples(payload)
	for it.Next() {
		if it.TsMs < 0 || it.TsMs > timestampMaxMs {
			return fmt.Errorf("%w: timestamp %d ms at %s", record.ErrMalformed, it.TsMs, pos)
		}
		b.samples = append(b.samples, it.Sample)
	}
	if err := it.Err(); err != nil {
		return fmt.Errorf("samples at %s: %w", pos, err)
	}
	b.records[len(b.records)-1].end = len(b.samples)
	return nil
}

// send hands the batch over, unless it is empty, and takes another one.
func (r *replayReader) send() error {
	if len(r.batch.records) == 0 {
		return nil
	}
	select {
	case r.batches <- r.batch:
	case <-r.stopped:
		r.finished = true
		return r.err
	}
	select {
	case r.batch = <-r.used:
		r.batch.reset()
	default:
		r.batch = &replayBatch{}
	}
	return nil
}

// finish waits until everything is applied. Further calls do nothing.
func (r *replayReader) finish() error {
	if r.finished {
		return nil
	}
	err := r.send()
	close(r.batches)
	<-r.stopped
	if r.finished {
		return err
	}
	r.finished = true
	return r.err
}
