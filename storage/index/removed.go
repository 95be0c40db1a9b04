package index

import (
	"encoding/binary"
	"maps"
	"slices"

	"halite/storage/index/envelope"
	"halite/storage/index/presence"
	"halite/storage/index/valueid"
)

// removals are the hours that were taken out of a segment after it was written. They stand in its root until the next
// fold of the period leaves them out for good, so that taking out a few hours costs a few bytes and not a segment.
type removals struct {
	// version grows with each removal from the same generation: what was kept of blocks is told apart by it.
	version uint32
	// blocks are the hours by the number of the block: ascending runs of rows that do not overlap.
	blocks map[uint32][]hourRun
}

// of are the hours removed from a block.
func (r *removals) of(block int) []hourRun {
	if r == nil {
		return nil
	}
	return r.blocks[uint32(block)]
}

// runs is the number of runs of all blocks: it bounds what a root holds.
func (r *removals) runs() int {
	n := 0
	for _, runs := range r.blocks {
		n += len(runs)
	}
	return n
}

// without is the root with more hours removed.
func (r *root) without(lost map[uint32][]hourRun) *root {
	out := *r
	out.removed = &removals{version: 1, blocks: map[uint32][]hourRun{}}
	if r.removed != nil {
		out.removed.version += r.removed.version
		maps.Copy(out.removed.blocks, r.removed.blocks)
	}
	joinBlocks(out.removed.blocks, lost)
	return &out
}

// end is the row behind the run.
func (r hourRun) end() uint32 { return r.row + r.count }

// addRun appends a run that does not begin before the end of the last one.
func addRun(runs []hourRun, r hourRun) []hourRun {
	if k := len(runs) - 1; k >= 0 && runs[k].hours == r.hours && runs[k].end() == r.row {
		runs[k].count += r.count
		return runs
	}
	return append(runs, r)
}

// joinRuns joins two lists of ascending runs that do not overlap; a row in both has the hours of both.
func joinRuns(a, b []hourRun) []hourRun {
	out := make([]hourRun, 0, len(a)+len(b))
	var x, y hourRun // what is left of the first runs
	for {
		if x.count == 0 && len(a) > 0 {
			x, a = a[0], a[1:]
		}
		if y.count == 0 && len(b) > 0 {
			y, b = b[0], b[1:]
		}
		if y.count == 0 || x.count > 0 && x.row > y.row {
			x, y, a, b = y, x, b, a
		}
		switch {
		case y.count == 0:
			return out
		case x.count == 0:
			out, y = addRun(out, y), hourRun{}
		case x.row < y.row:
			n := min(x.count, y.row-x.row)
			out = addRun(out, hourRun{row: x.row, count: n, hours: x.hours})
			x.row, x.count = x.row+n, x.count-n
		default:
			n := min(x.count, y.count)
			out = addRun(out, hourRun{row: x.row, count: n, hours: x.hours | y.hours})
			x.row, x.count, y.row, y.count = x.row+n, x.count-n, y.row+n, y.count-n
		}
	}
}

// joinBlocks joins the runs of more, by block, to those of to.
func joinBlocks(to, more map[uint32][]hourRun) {
	for block, runs := range more {
		to[block] = joinRuns(to[block], runs)
	}
}

// sortRuns puts runs of single rows in order and joins those of one row.
func sortRuns(runs []hourRun) []hourRun {
	slices.SortFunc(runs, func(a, b hourRun) int { return int(int64(a.row) - int64(b.row)) })
	var out []hourRun
	for i := 0; i < len(runs); {
		one := runs[i]
		for i++; i < len(runs) && runs[i].row == one.row; i++ {
			one.hours |= runs[i].hours
		}
		out = addRun(out, one)
	}
	return out
}

// appendRuns writes ascending runs that do not overlap.
func appendRuns(dst []byte, runs []hourRun) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(runs)))
	next := uint32(0)
	for _, r := range runs {
		dst = binary.AppendUvarint(dst, uint64(r.row-next))
		dst = binary.AppendUvarint(dst, uint64(r.count))
		dst = binary.AppendUvarint(dst, uint64(r.hours))
		next = r.end()
	}
	return dst
}

// readRuns reads runs of rows below end.
func readRuns(c *envelope.Decoder, end uint64) (out []hourRun) {
	runs, next := c.Count(3), uint64(0)
	for i := 0; i < runs && c.Err == nil; i++ {
		row := next + c.Uvarint()
		r := hourRun{row: uint32(row), count: c.Number(end), hours: c.Number(presence.HoursMask)}
		next = row + uint64(r.count)
		if row > end || next > end || r.count == 0 || r.hours == 0 {
			c.Fail(envelope.ErrRange)
			return out
		}
		out = append(out, r)
	}
	return out
}

// append writes what a root says of removed hours.
func (r *removals) append(dst []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(r.version))
	dst = binary.AppendUvarint(dst, uint64(len(r.blocks)))
	next := uint32(0)
	for _, block := range slices.Sorted(maps.Keys(r.blocks)) {
		dst = appendRuns(binary.AppendUvarint(dst, uint64(block-next)), r.blocks[block])
		next = block + 1
	}
	return dst
}

// readRemovals reads what append has written of a segment with these blocks.
func readRemovals(c *envelope.Decoder, blocks []blockRef) *removals {
	r := &removals{version: c.Number(1<<32 - 1), blocks: map[uint32][]hourRun{}}
	n, next := c.Count(5), uint64(0)
	for i := 0; i < n && c.Err == nil; i++ {
		at := next + c.Uvarint()
		if at < next || at >= uint64(len(blocks)) {
			c.Fail(envelope.ErrRange)
			return r
		}
		runs := readRuns(c, uint64(blocks[at].rows))
		if len(runs) == 0 {
			c.Fail(envelope.ErrRange)
		}
		r.blocks[uint32(at)] = runs
		next = at + 1
	}
	return r
}

// without is a block of a day with hours removed; it shares the columns.
func (b *block) without(runs []hourRun) (*block, error) {
	out := *b
	out.runs, out.ends = nil, nil
	index := map[uint32]uint32{}
	ids := make([]uint32, b.rows)
	for row := range b.rows {
		for len(runs) > 0 && runs[0].end() <= row {
			runs = runs[1:]
		}
		n, err := b.patternNumber(row)
		if err != nil {
			return nil, err
		}
		hours := b.pattern(n)[0].Hours
		if len(runs) > 0 && runs[0].row <= row {
			hours &^= runs[0].hours
		}
		i, ok := index[hours]
		if !ok {
			i = uint32(len(out.ends))
			index[hours] = i
			out.addPattern(presence.Pattern{{Days: 1, Hours: hours}})
		}
		ids[row] = i
	}
	out.presence = valueid.Pack(ids)
	return &out, nil
}
