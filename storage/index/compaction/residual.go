package compaction

import (
	"context"

	"github.com/prometheus/common/model"

	"halite/storage/index/envelope"
	"halite/storage/index/segment"
	"halite/storage/index/valueid"
)

// residualSource reads the segment of a day without its removed hours. It omits series, values and metrics without remaining
// hours.
type residualSource struct {
	SegmentSource
	used    []*valueid.Set // by label name: the values that remain
	present *valueid.Set   // the metrics
}

// NewDaySource returns the segment of a day as a source, without removed hours and dropped metrics.
func NewDaySource(ctx context.Context, s *segment.Segment) (Source, error) {
	c := SegmentSource{Segment: s}
	if len(s.Manifest.Dropped) == 0 && len(s.Lost) == 0 {
		return c, nil
	}
	r := residualSource{SegmentSource: c, present: valueid.NewSet(s.Manifest.Metrics)}
	for _, values := range s.Manifest.Values {
		r.used = append(r.used, valueid.NewSet(values))
	}
	for n := range s.Manifest.Blocks {
		blocks, err := s.Blocks(ctx, []int{n})
		if err != nil {
			return nil, err
		}
		if err := r.noteRemaining(blocks[0]); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// noteRemaining marks the metrics and values that remain in a block.
func (r residualSource) noteRemaining(b *segment.Block) error {
	for i, m := range b.Metrics {
		rows, err := b.Present(m.From, b.RowsEnd(i))
		if err != nil {
			return r.Segment.CorruptHours(b, err)
		}
		if len(rows) == 0 {
			continue
		}
		r.present.Add(m.Metric)
		for k := range b.Columns {
			c := &b.Columns[k]
			used := r.used[c.Name]
			for _, row := range rows {
				id := c.IDs.At(row)
				if !used.Holds(id) {
					return r.Segment.CorruptHours(b, envelope.ErrRange)
				}
				if id != 0 {
					used.Add(id)
				}
			}
		}
	}
	return nil
}

func (r residualSource) metrics(ctx context.Context) ([]string, error) {
	names, err := r.Segment.Dict(ctx, model.MetricNameLabel)
	if err != nil {
		return nil, err
	}
	out := make([]string, 0, r.present.Count)
	r.present.ForEach(func(id uint32) bool {
		var v string
		v, err = names.Value(ctx, id)
		out = append(out, v)
		return err == nil
	})
	return out, err
}

func (r residualSource) values(ctx context.Context, name int, fn func(id uint32, value string)) error {
	return r.SegmentSource.values(ctx, name, func(id uint32, value string) {
		if r.used[name].Has(id) {
			fn(id, value)
		}
	})
}
