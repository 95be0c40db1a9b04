package replay

import (
	"bytes"
	"context"
	"fmt"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"

	"halite/ingest/head"
	"halite/ingest/remotewrite"
	"halite/ingest/wal"
	"halite/ingest/wal/record"
	"halite/keyschema"
)

const (
	// batchSeries and batchSamples bound a batch. A batch may exceed batchSamples, because the samples of one record stay in
	// one batch.
	batchSeries  = 4096
	batchSamples = 16384
	// batchBytes bounds the encoded histograms and exemplars of a batch.
	batchBytes = 1 << 20
	// batchesAhead is the number of decoded batches that may wait.
	batchesAhead = 4
)

// Batch is a decoded part of the log: series, samples of one segment, or one record of another kind.
type Batch struct {
	Kind    byte // record.KindSeries for all encodings of series
	Segment uint64
	Series  []Series
	Samples []record.Sample        // floats or start times
	Encoded []record.EncodedSample // histograms or exemplars
	Payload []byte                 // content of a record of another kind

	entries []entry
	labels  []labels.Label // labels of all series
	data    []byte         // memory of Encoded
}

// entry is the position of a record in the log, and the end of its samples in the batch.
type entry struct {
	pos wal.Position
	end int
}

// Series is a series of a batch. Log is its number in the log, Key the hash of its labels.
type Series struct {
	Log       uint32
	Key       head.Key
	labelsEnd int
}

func (b *Batch) reset() {
	clear(b.labels)
	b.entries, b.Series, b.labels, b.Samples = b.entries[:0], b.Series[:0], b.labels[:0], b.Samples[:0]
	clear(b.Encoded)
	b.Kind, b.Payload, b.Encoded, b.data = 0, nil, b.Encoded[:0], b.data[:0]
}

// Labels returns the labels of the n-th series.
func (b *Batch) Labels(n int) []labels.Label {
	from := 0
	if n > 0 {
		from = b.Series[n-1].labelsEnd
	}
	return b.labels[from:b.Series[n].labelsEnd]
}

// full reports whether the batch must be sent before the next record.
func (b *Batch) full() bool {
	return len(b.Series) >= batchSeries || len(b.Samples) >= batchSamples || len(b.data) >= batchBytes
}

// First returns the position of the first record.
func (b *Batch) First() wal.Position { return b.entries[0].pos }

// Position returns the position of the record with the n-th sample.
func (b *Batch) Position(n int) wal.Position {
	at := 0
	for n >= b.entries[at].end {
		at++
	}
	return b.entries[at].pos
}

// Reader decodes records of the log into batches, while another goroutine applies earlier ones.
type Reader struct {
	ctx      context.Context
	registry *head.Registry // for its hash function
	packer   *record.SeriesPacker
	batch    *Batch
	fields   []byte
	finished bool

	batches chan *Batch
	used    chan *Batch   // applied batches, for reuse
	stopped chan struct{} // closed when the consumer stops
	err     error         // the consumer's error; valid after stopped is closed
}

// NewReader returns a reader that hashes labels like registry. The caller closes it.
func NewReader(ctx context.Context, registry *head.Registry) (*Reader, error) {
	packer, err := record.NewSeriesPacker()
	if err != nil {
		return nil, err
	}
	return &Reader{
		ctx: ctx, registry: registry, packer: packer, batch: &Batch{},
		batches: make(chan *Batch, batchesAhead), used: make(chan *Batch, batchesAhead+2),
		stopped: make(chan struct{}),
	}, nil
}

// Close frees the reader.
func (r *Reader) Close() { r.packer.Close() }

// Batches are the decoded batches, in the order of the log.
func (r *Reader) Batches() <-chan *Batch { return r.batches }

// Reuse returns an applied batch to the reader.
func (r *Reader) Reuse(b *Batch) {
	select {
	case r.used <- b:
	default:
	}
}

// Stop ends the reader. The consumer applies no further batch. err becomes the reader's error.
func (r *Reader) Stop(err error) {
	r.err = err
	close(r.stopped)
}

// Record decodes the next record of the log.
func (r *Reader) Record(kind byte, payload []byte, pos wal.Position) error {
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
	case record.KindSamples, record.KindStartTimes:
		return r.samples(kind, payload, pos)
	case record.KindHistograms, record.KindExemplars:
		return r.encoded(kind, payload, pos)
	case record.KindMetadata, record.KindDeletion:
		if err := r.begin(kind, pos); err != nil {
			return err
		}
		r.batch.Payload = bytes.Clone(payload)
		return r.send()
	default:
		return fmt.Errorf("record of unknown kind %d at %s: the log was written by a newer version", kind, pos)
	}
}

// begin makes the batch ready for a record of a kind.
func (r *Reader) begin(kind byte, pos wal.Position) error {
	if b := r.batch; b.Kind != kind || b.Segment != pos.Segment || b.full() {
		if err := r.send(); err != nil {
			return err
		}
	}
	r.batch.Kind, r.batch.Segment = kind, pos.Segment
	r.batch.entries = append(r.batch.entries, entry{pos: pos})
	return nil
}

func (r *Reader) parse(
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
		b.Series = append(b.Series, Series{Log: log, labelsEnd: len(b.labels), Key: r.key(ls)})
		return nil
	})
}

// key returns the key under which writers find a series: the hash of the labels in the form that the tenant sends.
func (r *Reader) key(ls []labels.Label) head.Key {
	tenant := ""
	r.fields = r.fields[:0]
	for n := range ls {
		value := ls[n].Value
		if ls[n].Name == model.MetricNameLabel {
			tenant, value = keyschema.SplitTenant(value)
		}
		r.fields = remotewrite.AppendField(r.fields, ls[n].Name, value)
	}
	return head.InSpace(r.registry.Hash(r.fields), r.registry.Space(tenant))
}

func checkTime(tsMs int64, pos wal.Position) error {
	if tsMs < 0 || tsMs > keyschema.TimeMaxMs {
		return fmt.Errorf("%w: timestamp %d ms at %s", record.ErrMalformed, tsMs, pos)
	}
	return nil
}

func (r *Reader) samples(kind byte, payload []byte, pos wal.Position) error {
	if err := r.begin(kind, pos); err != nil {
		return err
	}
	b := r.batch
	it := record.ReadSamples(payload)
	for it.Next() {
		if err := checkTime(it.TsMs, pos); err != nil {
			return err
		}
		b.Samples = append(b.Samples, it.Sample)
	}
	if err := it.Err(); err != nil {
		return fmt.Errorf("samples at %s: %w", pos, err)
	}
	b.entries[len(b.entries)-1].end = len(b.Samples)
	return nil
}

// encoded adds histograms or exemplars to the batch. It copies their bytes.
func (r *Reader) encoded(kind byte, payload []byte, pos wal.Position) error {
	if err := r.begin(kind, pos); err != nil {
		return err
	}
	b := r.batch
	it := record.ReadEncoded(payload)
	for it.Next() {
		if err := checkTime(it.TsMs, pos); err != nil {
			return err
		}
		from := len(b.data)
		b.data = append(b.data, it.Data...) // older samples keep the memory of the smaller array
		sample := it.EncodedSample
		sample.Data = b.data[from:len(b.data):len(b.data)]
		b.Encoded = append(b.Encoded, sample)
	}
	if err := it.Err(); err != nil {
		return fmt.Errorf("%s at %s: %w", record.KindName(kind), pos, err)
	}
	b.entries[len(b.entries)-1].end = len(b.Encoded)
	return nil
}

// send sends the batch to the consumer, unless it is empty, and begins another one.
func (r *Reader) send() error {
	if len(r.batch.entries) == 0 {
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
		r.batch = &Batch{}
	}
	return nil
}

// Finish waits until all batches are applied. Further calls do nothing.
func (r *Reader) Finish() error {
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
