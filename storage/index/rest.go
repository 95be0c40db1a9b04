package index

import (
	"context"

	"github.com/prometheus/common/model"

	"halite/storage/index/envelope"
	"halite/storage/index/valueid"
)

// restSource reads a segment of a day from which hours were removed: without the series, values and metrics of which
// nothing is left.
type restSource struct {
	closedSource
	used    []*valueid.Set // of each label name, the values that are left
	present *valueid.Set   // the metrics
}

// daySource is the source of what a day's segment holds.
func daySource(ctx context.Context, s *segment) (source, error) {
	c := closedSource{s: s}
	if s.root.removed == nil {
		return c, nil
	}
	r := restSource{closedSource: c, present: valueid.NewSet(s.root.metrics)}
	for _, values := range s.root.values {
		r.used = append(r.used, valueid.NewSet(values))
	}
	for n := range s.root.blocks {
		blocks, err := s.load(ctx, []int{n})
		if err != nil {
			return nil, err
		}
		if err := r.note(blocks[0]); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// note takes in what is left in a block.
func (r restSource) note(b *block) error {
	for i, m := range b.metrics {
		rows, err := b.present(m.from, b.rowsEnd(i))
		if err != nil {
			return r.s.badHours(b, err)
		}
		if len(rows) == 0 {
			continue
		}
		r.present.Add(m.metric)
		for k := range b.columns {
			c := &b.columns[k]
			used := r.used[c.name]
			for _, row := range rows {
				id := c.ids.At(row)
				if !used.Holds(id) {
					return r.s.badHours(b, envelope.ErrRange)
				}
				if id != 0 {
					used.Add(id)
				}
			}
		}
	}
	return nil
}

// present lists the rows in [from, to) of a block of a day that have hours.
func (b *block) present(from, to uint32) ([]uint32, error) {
	rows := make([]uint32, 0, to-from)
	for row := from; row < to; row++ {
		n, err := b.patternNumber(row)
		if err != nil {
			return nil, err
		}
		if b.pattern(n)[0].Hours != 0 {
			rows = append(rows, row)
		}
	}
	return rows, nil
}

func (r restSource) metrics(ctx context.Context) ([]string, error) {
	names, err := r.s.dict(ctx, model.MetricNameLabel)
	if err != nil {
		return nil, err
	}
	out := make([]string, 0, r.present.Count)
	r.present.Each(func(id uint32) bool {
		var v string
		v, err = names.value(ctx, id)
		out = append(out, v)
		return err == nil
	})
	return out, err
}

func (r restSource) values(ctx context.Context, name int, fn func(id uint32, value string)) error {
	return r.closedSource.values(ctx, name, func(id uint32, value string) {
		if r.used[name].Has(id) {
			fn(id, value)
		}
	})
}
