package segment

import (
	"context"
	"encoding/binary"
	"slices"

	"halite/storage/index/envelope"
	"halite/storage/index/presence"
	"halite/storage/index/valueid"
)

// WithDropped returns the manifest with one more dropped metric.
func (r *Manifest) WithDropped(metric uint32) *Manifest {
	out := *r
	out.Dropped = append(slices.Clone(r.Dropped), metric)
	slices.Sort(out.Dropped)
	return &out
}

// HasOnly reports whether a metric has no hours besides the given hours.
func (s *Segment) HasOnly(ctx context.Context, metric uint32, hours uint32) (bool, error) {
	if hours == presence.HoursMask {
		return true, nil
	}
	from, to := s.Manifest.BlocksOf(metric)
	for n := from; n < to; n++ {
		blocks, err := s.Blocks(ctx, []int{n})
		if err != nil {
			return false, err
		}
		b := blocks[0]
		i, _ := slices.BinarySearchFunc(b.Metrics, metric, func(m metricRows, id uint32) int { return int(m.Metric) - int(id) })
		for row := b.Metrics[i].From; row < b.RowsEnd(i); row++ {
			p, err := b.PatternNumber(row)
			if err != nil {
				return false, s.CorruptHours(b, err)
			}
			if b.Pattern(p)[0].Hours&^hours != 0 {
				return false, nil
			}
		}
	}
	return true, nil
}

// IsDropped reports whether the metric was dropped after the segment was written.
func (r *Manifest) IsDropped(metric uint32) bool {
	_, found := slices.BinarySearch(r.Dropped, metric)
	return found
}

// droppedFrom returns a function that returns the hours to omit from each row of a block. It returns nil if no metric of the
// block was dropped.
func (r *Manifest) droppedFrom(number int) func(b *Block, row uint32) uint32 {
	from, to := r.metricRange(number)
	if i, _ := slices.BinarySearch(r.Dropped, from); i == len(r.Dropped) || r.Dropped[i] >= to {
		return nil
	}
	return func(b *Block, row uint32) uint32 {
		i, _ := slices.BinarySearchFunc(b.Metrics, row+1, func(m metricRows, row uint32) int { return int(int64(m.From) - int64(row)) })
		if r.IsDropped(b.Metrics[i-1].Metric) {
			return presence.HoursMask
		}
		return 0
	}
}

// appendDropped writes the numbers of dropped metrics.
func appendDropped(dst []byte, dropped []uint32) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(dropped)))
	last := uint32(0)
	for _, id := range dropped {
		dst = binary.AppendUvarint(dst, uint64(id-last))
		last = id
	}
	return dst
}

// readDropped is the inverse of appendDropped. metrics is the number of metrics in the segment.
func readDropped(c *envelope.Decoder, metrics uint32) (dropped []uint32) {
	last := uint64(0)
	for n := c.Count(1); n > 0 && c.Err == nil; n-- {
		step := c.Uvarint()
		if last += step; step == 0 || step > uint64(metrics) || last > uint64(metrics) {
			c.Fail(envelope.ErrRange)
			return nil
		}
		dropped = append(dropped, uint32(last))
	}
	if len(dropped) == 0 {
		c.Fail(envelope.ErrRange)
	}
	return dropped
}

// without returns a copy of a day's block without the hours that lost returns for each row. The copy shares the columns.
func (b *Block) without(lost func(b *Block, row uint32) uint32) (*Block, error) {
	out := *b
	out.runs, out.Ends = nil, nil
	index := map[uint32]uint32{}
	ids := make([]uint32, b.Rows)
	for row := range b.Rows {
		n, err := b.PatternNumber(row)
		if err != nil {
			return b, err
		}
		hours := b.Pattern(n)[0].Hours &^ lost(b, row)
		i, ok := index[hours]
		if !ok {
			i = uint32(len(out.Ends))
			index[hours] = i
			out.addPattern(presence.Pattern{{Days: 1, Hours: hours}})
		}
		ids[row] = i
	}
	out.presence = valueid.Pack(ids)
	return &out, nil
}
