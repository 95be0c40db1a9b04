package segment

import (
	"context"
	"slices"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"

	"halite/storage/index/envelope"
)

// RowReader reads the labels of a block's rows one by one.
type RowReader struct {
	ctx     context.Context
	b       *Block
	metrics *Dict
	dicts   []*Dict // of b.columns
	names   []string
	current []labels.Label // of the last row, the metric's name first
}

func (s *Segment) RowReader(ctx context.Context, b *Block) (*RowReader, error) {
	metrics, err := s.Dict(ctx, model.MetricNameLabel)
	if err != nil {
		return nil, err
	}
	r := &RowReader{ctx: ctx, b: b, metrics: metrics}
	for i := range b.Columns {
		name := s.Manifest.Names[b.Columns[i].Name]
		d, err := s.Dict(ctx, name)
		if err != nil {
			return nil, err
		}
		r.dicts, r.names = append(r.dicts, d), append(r.names, name)
	}
	return r, nil
}

// Key reads a row and appends a key that identifies its label set.
func (r *RowReader) Key(dst []byte, row uint32) ([]byte, error) {
	i, _ := slices.BinarySearchFunc(r.b.Metrics, row+1, func(m metricRows, row uint32) int {
		return int(int64(m.From) - int64(row))
	})
	metric, err := r.metrics.Value(r.ctx, r.b.Metrics[i-1].Metric)
	if err != nil {
		return dst, err
	}
	r.current = append(r.current[:0], labels.Label{Name: model.MetricNameLabel, Value: metric})
	dst = envelope.AppendText(dst, metric)
	for i := range r.dicts {
		id := r.b.Columns[i].IDs.At(row)
		if id == 0 {
			continue
		}
		value, err := r.dicts[i].Value(r.ctx, id)
		if err != nil {
			return dst, err
		}
		r.current = append(r.current, labels.Label{Name: r.names[i], Value: value})
		dst = envelope.AppendText(envelope.AppendText(dst, r.names[i]), value)
	}
	return dst, nil
}

// Labels builds the label set of the last row.
func (r *RowReader) Labels(b *labels.ScratchBuilder) labels.Labels {
	b.Reset()
	rest := r.current[1:]
	for len(rest) > 0 && rest[0].Name < model.MetricNameLabel {
		b.Add(rest[0].Name, rest[0].Value)
		rest = rest[1:]
	}
	b.Add(model.MetricNameLabel, r.current[0].Value)
	for _, l := range rest {
		b.Add(l.Name, l.Value)
	}
	return b.Labels()
}
