package transfer

import (
	"context"
	"sync"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"halite/ingest"
	"halite/ingest/batch"
	"halite/ingest/remotewrite"
)

// PartSamplesMax is the largest number of samples at which a part may be complete.
const PartSamplesMax = 1 << 22

// partItemsMax bounds a part. A single series may have more samples than a complete part.
const partItemsMax = 1 << 24

// Part holds some samples of a source.
type Part struct {
	batch.Batch
	// After is the position of the next part.
	After Position
	// Done is the amount of the source that was read, in units of Size.Total.
	Done int64

	sequence int
	// linesBefore is the number of lines of a file before the part, if its parser counts from 1 in each part.
	linesBefore int64
	result      ingest.Result
	fields      []byte
}

// Position is a place in a source between two parts. Each kind of source uses some of the fields.
type Position struct {
	// DayMs is the start of a window of time in milliseconds since 1970; samples before it are done.
	DayMs int64 `json:"day_ms,omitempty"`
	// Series is the number of series that are done in this window.
	Series int64 `json:"series,omitempty"`
	// Bytes is an offset in a file, and Lines the number of lines before it.
	Bytes int64 `json:"bytes,omitempty"`
	Lines int64 `json:"lines,omitempty"`
	// NowMs is the time of samples of a file that have none, in milliseconds since 1970. All runs and the comparison use one time.
	NowMs int64 `json:"now_ms,omitempty"`
}

// Size describes a source.
type Size struct {
	// Total is the size of the work in Unit, for the progress; 0 if it is unknown.
	Total int64
	Unit  string
	// OldestMs is a time in milliseconds since 1970; no sample is older. It is -1 if that time is unknown.
	OldestMs int64
	// Histograms is set if the source has native histograms.
	Histograms bool
	// Metrics are the names of the metrics; nil if they are unknown.
	Metrics []string
}

// Source is where samples come from.
type Source interface {
	// Name identifies the source in the state file.
	Name() string
	// Size describes the source before it is read.
	Size(ctx context.Context) (Size, error)
	// Parts passes the parts from a position on to visit. The same position yields the same parts each time. visit releases each
	// part.
	Parts(ctx context.Context, from Position, visit func(*Part) error) error
	Close() error
}

// Reader reads samples from a database.
type Reader interface {
	// Read passes the series that match, with their samples of [fromMs, toMs], to visit. A series may come in several pieces, in
	// the order of time.
	Read(ctx context.Context, fromMs, toMs int64, matchers []*labels.Matcher,
		visit func(ls labels.Labels, it chunkenc.Iterator) error) error
}

// Sink is the destination of samples.
type Sink interface {
	Reader
	// Name identifies the sink in the state file.
	Name() string
	// Write stores a part and returns when it is durable.
	Write(ctx context.Context, p *Part) (ingest.Result, error)
}

var parts = sync.Pool{New: func() any { return new(Part) }}

// newPart returns an empty part.
func newPart() *Part {
	p := parts.Get().(*Part)
	p.Reset(batch.Bounds{ItemsMax: partItemsMax})
	p.After, p.Done, p.sequence, p.linesBefore = Position{}, 0, 0, 0
	return p
}

// release returns the memory for use by another part.
func (p *Part) release() { parts.Put(p) }

// ForEach passes the series of a part to visit, with their label fields as remote write 1.0 encodes them.
func (p *Part) ForEach(visit func(fields []byte, s batch.Series) error) error {
	p.Rewind(0)
	for p.Next() {
		s := p.Series()
		fields, err := p.AppendFields(p.fields[:0], s.Key)
		if err != nil {
			return err
		}
		p.fields = fields
		if err := visit(fields, s); err != nil {
			return err
		}
	}
	return nil
}

// samples is the number of floats and native histograms.
func (p *Part) samples() (n int) {
	for p.Rewind(0); p.Next(); {
		s := p.Series()
		n += len(s.Samples) + len(s.Histograms)
	}
	return n
}

// copyTo adds the samples of a part to the batch of a request.
func (p *Part) copyTo(b *batch.Batch) error {
	err := p.ForEach(func(fields []byte, s batch.Series) error {
		if err := b.Begin(fields); err != nil {
			return err
		}
		for _, sample := range s.Samples {
			b.Sample(sample)
		}
		for _, h := range s.Histograms {
			b.Histogram(h)
		}
		for _, e := range s.Exemplars {
			b.Exemplar(e)
		}
		return nil
	})
	for _, m := range p.Descriptions() {
		b.Metadata(m)
	}
	return err
}

// addSeries adds the samples of an iterator within [fromMs, toMs] to the part, as one series. It adds nothing without samples.
func (p *Part) addSeries(ls labels.Labels, it chunkenc.Iterator, fromMs, toMs int64) error {
	begun := false
	for kind := it.Next(); kind != chunkenc.ValNone; kind = it.Next() {
		tsMs := it.AtT()
		if tsMs < fromMs || tsMs > toMs {
			continue
		}
		if !begun {
			p.fields = remotewrite.AppendFields(p.fields[:0], ls)
			if err := p.Begin(p.fields); err != nil {
				return err
			}
			begun = true
		}
		switch kind {
		case chunkenc.ValHistogram:
			_, h := it.AtHistogram(nil)
			p.Histogram(remotewrite.Histogram{TsMs: tsMs, StartMs: it.AtST(), H: h})
		case chunkenc.ValFloatHistogram:
			_, h := it.AtFloatHistogram(nil)
			p.Histogram(remotewrite.Histogram{TsMs: tsMs, StartMs: it.AtST(), FH: h})
		default:
			_, v := it.At()
			p.Sample(remotewrite.Sample{TsMs: tsMs, StartMs: it.AtST(), Value: v})
		}
	}
	return it.Err()
}
