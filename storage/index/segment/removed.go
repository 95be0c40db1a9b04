package segment

import (
	"encoding/binary"
	"maps"
	"slices"

	"halite/storage/index/envelope"
	"halite/storage/index/presence"
	"halite/storage/index/valueid"
)

// HourRun gives the rows [row, row+count) these hours.
type HourRun struct {
	Row, Count, Hours uint32
}

// Removals are the hours that were taken out of a segment after it was written. They stand in its root until the next
// fold of the period leaves them out for good, so that taking out a few hours costs a few bytes and not a segment.
type Removals struct {
	// version grows with each removal from the same generation: what was kept of blocks is told apart by it.
	version uint32
	// blocks are the hours by the number of the block: ascending runs of rows that do not overlap.
	blocks map[uint32][]HourRun
}

// of are the hours removed from a block.
func (r *Removals) of(block int) []HourRun {
	if r == nil {
		return nil
	}
	return r.blocks[uint32(block)]
}

// Runs is the number of runs of all blocks: it bounds what a root holds.
func (r *Removals) Runs() int {
	n := 0
	for _, runs := range r.blocks {
		n += len(runs)
	}
	return n
}

// Without is the root with more hours removed.
func (r *Manifest) Without(lost map[uint32][]HourRun) *Manifest {
	out := *r
	out.Removed = &Removals{version: 1, blocks: map[uint32][]HourRun{}}
	if r.Removed != nil {
		out.Removed.version += r.Removed.version
		maps.Copy(out.Removed.blocks, r.Removed.blocks)
	}
	JoinBlocks(out.Removed.blocks, lost)
	return &out
}

// End is the row behind the run.
func (r HourRun) End() uint32 { return r.Row + r.Count }

// AddRun appends a run that does not begin before the end of the last one.
func AddRun(runs []HourRun, r HourRun) []HourRun {
	if k := len(runs) - 1; k >= 0 && runs[k].Hours == r.Hours && runs[k].End() == r.Row {
		runs[k].Count += r.Count
		return runs
	}
	return append(runs, r)
}

// joinRuns joins two lists of ascending runs that do not overlap; a row in both has the hours of both.
func joinRuns(a, b []HourRun) []HourRun {
	out := make([]HourRun, 0, len(a)+len(b))
	var x, y HourRun // what is left of the first runs
	for {
		if x.Count == 0 && len(a) > 0 {
			x, a = a[0], a[1:]
		}
		if y.Count == 0 && len(b) > 0 {
			y, b = b[0], b[1:]
		}
		if y.Count == 0 || x.Count > 0 && x.Row > y.Row {
			x, y, a, b = y, x, b, a
		}
		switch {
		case y.Count == 0:
			return out
		case x.Count == 0:
			out, y = AddRun(out, y), HourRun{}
		case x.Row < y.Row:
			n := min(x.Count, y.Row-x.Row)
			out = AddRun(out, HourRun{Row: x.Row, Count: n, Hours: x.Hours})
			x.Row, x.Count = x.Row+n, x.Count-n
		default:
			n := min(x.Count, y.Count)
			out = AddRun(out, HourRun{Row: x.Row, Count: n, Hours: x.Hours | y.Hours})
			x.Row, x.Count, y.Row, y.Count = x.Row+n, x.Count-n, y.Row+n, y.Count-n
		}
	}
}

// JoinBlocks joins the runs of more, by block, to those of to.
func JoinBlocks(to, more map[uint32][]HourRun) {
	for block, runs := range more {
		to[block] = joinRuns(to[block], runs)
	}
}

// SortRuns puts runs of single rows in order and joins those of one row.
func SortRuns(runs []HourRun) []HourRun {
	slices.SortFunc(runs, func(a, b HourRun) int { return int(int64(a.Row) - int64(b.Row)) })
	var out []HourRun
	for i := 0; i < len(runs); {
		one := runs[i]
		for i++; i < len(runs) && runs[i].Row == one.Row; i++ {
			one.Hours |= runs[i].Hours
		}
		out = AddRun(out, one)
	}
	return out
}

// AppendRuns writes ascending runs that do not overlap.
func AppendRuns(dst []byte, runs []HourRun) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(runs)))
	next := uint32(0)
	for _, r := range runs {
		dst = binary.AppendUvarint(dst, uint64(r.Row-next))
		dst = binary.AppendUvarint(dst, uint64(r.Count))
		dst = binary.AppendUvarint(dst, uint64(r.Hours))
		next = r.End()
	}
	return dst
}

// ReadRuns reads runs of rows below end.
func ReadRuns(c *envelope.Decoder, end uint64) (out []HourRun) {
	runs, next := c.Count(3), uint64(0)
	for i := 0; i < runs && c.Err == nil; i++ {
		row := next + c.Uvarint()
		r := HourRun{Row: uint32(row), Count: c.Number(end), Hours: c.Number(presence.HoursMask)}
		next = row + uint64(r.Count)
		if row > end || next > end || r.Count == 0 || r.Hours == 0 {
			c.Fail(envelope.ErrRange)
			return out
		}
		out = append(out, r)
	}
	return out
}

// append writes what a root says of removed hours.
func (r *Removals) append(dst []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(r.version))
	dst = binary.AppendUvarint(dst, uint64(len(r.blocks)))
	next := uint32(0)
	for _, block := range slices.Sorted(maps.Keys(r.blocks)) {
		dst = AppendRuns(binary.AppendUvarint(dst, uint64(block-next)), r.blocks[block])
		next = block + 1
	}
	return dst
}

// readRemovals reads what append has written of a segment with these blocks.
func readRemovals(c *envelope.Decoder, blocks []BlockRef) *Removals {
	r := &Removals{version: c.Number(1<<32 - 1), blocks: map[uint32][]HourRun{}}
	n, next := c.Count(5), uint64(0)
	for i := 0; i < n && c.Err == nil; i++ {
		at := next + c.Uvarint()
		if at < next || at >= uint64(len(blocks)) {
			c.Fail(envelope.ErrRange)
			return r
		}
		runs := ReadRuns(c, uint64(blocks[at].Rows))
		if len(runs) == 0 {
			c.Fail(envelope.ErrRange)
		}
		r.blocks[uint32(at)] = runs
		next = at + 1
	}
	return r
}

// without is a block of a day with hours removed; it shares the columns.
func (b *Block) without(runs []HourRun) (*Block, error) {
	out := *b
	out.runs, out.Ends = nil, nil
	index := map[uint32]uint32{}
	ids := make([]uint32, b.Rows)
	for row := range b.Rows {
		for len(runs) > 0 && runs[0].End() <= row {
			runs = runs[1:]
		}
		n, err := b.PatternNumber(row)
		if err != nil {
			return nil, err
		}
		hours := b.Pattern(n)[0].Hours
		if len(runs) > 0 && runs[0].Row <= row {
			hours &^= runs[0].Hours
		}
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
