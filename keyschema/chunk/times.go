package chunk

import (
	"encoding/binary"
	"math"
	"slices"

	"halite/keyschema"
	"halite/keyschema/column"
)

// jump is a shift of the grid that begins at a sample.
type jump struct {
	index   int
	shiftMs int64
}

// appendTimes appends irregular timestamps in the smaller of two forms. One is a column of offsets in the hour. The other is
// a grid and a column of distances from the grid. The grid jumps where scrapes were missed or their phase changed.
//
//	byte: bits 0–2 mode, bit 3 = grid, bit 7 = step
//	grid only: uvarint interval, uvarint number of jumps, for each: uvarint samples since the previous jump, varint shift
//	column of offsets or distances
func (e *Encoder) appendTimes(dst []byte, hourStartMs int64, tsMs []int64) []byte {
	e.offsets = slices.Grow(e.offsets[:0], len(tsMs))
	for _, ts := range tsMs {
		e.offsets = append(e.offsets, ts-hourStartMs)
	}
	e.plain.Plan(e.offsets)
	interval := medianInterval(e.offsets)
	ok := e.findGrid(interval)
	if ok {
		// Jitter makes the median slightly wrong, and a long chunk accumulates the error. The slope of the
		// distances shows it.
		if drift := e.drift(); drift != 0 && interval+drift > 0 {
			interval += drift
			ok = e.findGrid(interval)
		}
	}
	if ok {
		e.gridded.Plan(e.grid)
		e.other = e.appendJumps(binary.AppendUvarint(e.other[:0], uint64(interval)))
		if len(e.other)+e.gridded.SizeBytes() < e.plain.SizeBytes() {
			c := &e.gridded
			dst = append(dst, c.Kind()|flagGrid)
			return c.Append(append(dst, e.other...))
		}
	}
	c := &e.plain
	return c.Append(append(dst, c.Kind()))
}

// medianInterval returns the median of a few intervals from all over the chunk.
func medianInterval(offsets []int64) int64 {
	var sample [31]int64
	n := len(offsets) - 1
	k := min(n, len(sample))
	for i := range k {
		at := i * n / k
		sample[i] = offsets[at+1] - offsets[at]
	}
	slices.Sort(sample[:k])
	return sample[k/2]
}

// drift returns the slope of the distances from the grid, rounded to whole milliseconds a sample (least squares).
func (e *Encoder) drift() int64 {
	n := float64(len(e.grid))
	middle, sum, first := (n-1)/2, 0.0, e.grid[0]
	for i, distance := range e.grid {
		sum += (float64(i) - middle) * float64(distance-first)
	}
	return int64(math.Round(sum / (n * (n*n - 1) / 12)))
}

// findGrid fills e.grid and e.jumps for an interval. It returns false if the timestamps do not look like a grid.
func (e *Encoder) findGrid(interval int64) bool {
	e.jumps = e.jumps[:0]
	e.grid = append(slices.Grow(e.grid[:0], len(e.offsets)), e.offsets[0])
	jumpsMax := len(e.offsets)/4 + 1
	at := int64(0)
	for i := 1; i < len(e.offsets); i++ {
		gap := e.offsets[i] - e.offsets[i-1]
		at += interval
		if off := gap - interval; 2*max(off, -off) > interval {
			// A whole number of missed scrapes keeps the phase, so distances stay small. Other gaps move the phase.
			missed := (gap+interval/2)/interval - 1
			shift := missed * interval
			if rest := off - shift; 8*max(rest, -rest) > interval {
				shift = off
			}
			at += shift
			e.jumps = append(e.jumps, jump{i, shift})
			if len(e.jumps) > jumpsMax {
				return false
			}
		}
		e.grid = append(e.grid, e.offsets[i]-at)
	}
	return true
}

func (e *Encoder) appendJumps(dst []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(e.jumps)))
	before := 0
	for _, j := range e.jumps {
		dst = binary.AppendUvarint(dst, uint64(j.index-before))
		dst = binary.AppendVarint(dst, j.shiftMs)
		before = j.index
	}
	return dst
}

// decodeIrregular reads timestamps that are a column.
func (d *Decoder) decodeIrregular(src []byte, h *header, hourStartMs int64, tsMs []int64) ([]int64, []byte, error) {
	if len(src) == 0 || src[0]&^(column.ModeMask|column.FlagStep|flagGrid) != 0 {
		return nil, nil, column.Corrupt("bad kind of the timestamp column")
	}
	kind := src[0]
	src = src[1:]
	var interval uint64
	var jumps []byte
	if kind&flagGrid != 0 {
		var err error
		if interval, jumps, src, err = parseGrid(src, h.count); err != nil {
			return nil, nil, err
		}
	}
	c, err := d.columns.Open(src, kind, h.count)
	if err != nil {
		return nil, nil, err
	}
	start := len(tsMs)
	tsMs = grow(tsMs, h.count)
	offsets := tsMs[start:]
	if err := c.Ints(offsets); err != nil {
		return nil, nil, err
	}
	if kind&flagGrid != 0 {
		addGrid(offsets, int64(interval), jumps)
	}
	before := int64(-1)
	for i, offset := range offsets {
		if offset <= before || offset >= keyschema.HourMs {
			return nil, nil, column.Corrupt("timestamp %d is not above its predecessor or is outside the hour", i)
		}
		before = offset
		offsets[i] = hourStartMs + offset
	}
	return tsMs, d.columns.Rest(), nil
}

// parseGrid reads a grid's interval. It checks the encoded jumps and returns them.
func parseGrid(src []byte, count int) (interval uint64, jumps, rest []byte, err error) {
	interval, src, ok := column.CutUvarint(src)
	if !ok || interval == 0 || interval >= keyschema.HourMs {
		return 0, nil, nil, column.Corrupt("bad interval %d", interval)
	}
	number, src, ok := column.CutUvarint(src)
	if !ok || number > uint64(len(src))/2 {
		return 0, nil, nil, column.Corrupt("%d jumps in %d bytes", number, len(src))
	}
	jumps, index := src, uint64(0)
	for range number {
		gap, next, ok1 := column.CutUvarint(src)
		_, next, ok2 := column.CutVarint(next)
		if index += gap; !ok1 || !ok2 || gap == 0 || gap >= uint64(count) || index >= uint64(count) {
			return 0, nil, nil, column.Corrupt("bad jump of the timestamps")
		}
		src = next
	}
	return interval, jumps[:len(jumps)-len(src)], src, nil
}

// addGrid adds the grid to the distances from it.
func addGrid(offsets []int64, interval int64, jumps []byte) {
	at, from := int64(0), 0
	for {
		to, shift := len(offsets), int64(0)
		if len(jumps) > 0 {
			var gap uint64
			gap, jumps, _ = column.CutUvarint(jumps)
			shift, jumps, _ = column.CutVarint(jumps)
			to = from + int(gap)
		}
		for i := from; i < to; i++ {
			offsets[i] += at
			at += interval
		}
		if to == len(offsets) {
			return
		}
		at += shift
		from = to
	}
}
