package run

import (
	"encoding/binary"
	"slices"

	"halite/keyschema"
)

// Decoder unpacks runs and keeps its scratch space between them. It is not for concurrent use; the zero value is ready.
type Decoder struct {
	blocks    blockReader
	numbers   [blockLen]uint64
	ints      [blockLen]int64
	stretches []stretch
	times     []int64
}

// Decode appends the samples of a run to the two columns. hourStartMs is the start of the hour that the run belongs to.
// Bytes that Append did not make give an error that wraps [ErrCorrupt] and leave the columns' lengths as they were, or
// samples that some run could hold: storage has checksums, runs have none. What is allocated is bounded by the length of
// src, except that stretches of equal values at equal intervals may be as long as an hour allows: 3.6 million samples.
func (d *Decoder) Decode(src []byte, hourStartMs int64, tsMs []int64, values []float64) ([]int64, []float64, error) {
	h, src, err := parseHead(src)
	if err != nil {
		return tsMs, values, err
	}
	if h.first&flagIrregular != 0 {
		times, src, err := d.decodeIrregular(src, h, hourStartMs, tsMs)
		if err != nil {
			return tsMs, values, err
		}
		all, err := d.decodeValues(src, h, values)
		if err != nil {
			return tsMs, values, err
		}
		return times, all, nil
	}
	base, interval, src, err := parseRegular(src, h.count)
	if err != nil {
		return tsMs, values, err
	}
	// The values come first: only they show whether the count is true.
	all, err := d.decodeValues(src, h, values)
	if err != nil {
		return tsMs, values, err
	}
	start, ts := len(tsMs), hourStartMs+base
	tsMs = grow(tsMs, h.count)
	for i := range tsMs[start:] {
		tsMs[start+i] = ts
		ts += interval
	}
	return tsMs, all, nil
}

// Stat reads the number of samples and their first and last timestamp. It checks the timestamps but not the values.
func (d *Decoder) Stat(src []byte, hourStartMs int64) (Info, error) {
	h, src, err := parseHead(src)
	if err != nil {
		return Info{}, err
	}
	if h.first&flagIrregular == 0 {
		base, interval, _, err := parseRegular(src, h.count)
		if err != nil {
			return Info{}, err
		}
		return Info{h.count, hourStartMs + base, hourStartMs + base + int64(h.count-1)*interval}, nil
	}
	times, _, err := d.decodeIrregular(src, h, hourStartMs, d.times[:0])
	if err != nil {
		return Info{}, err
	}
	d.times = times
	return Info{h.count, times[0], times[h.count-1]}, nil
}

// head is the start of every run.
type head struct {
	first byte
	count int
}

func parseHead(src []byte) (head, []byte, error) {
	if len(src) == 0 {
		return head{}, nil, corrupt("no bytes")
	}
	h := head{first: src[0]}
	if h.first&versionMask != version {
		return head{}, nil, corrupt("version %d is unknown", h.first>>6)
	}
	count, rest, ok := cutUvarint(src[1:])
	if !ok || count == 0 || count > countMax {
		return head{}, nil, corrupt("count %d", count)
	}
	h.count = int(count)
	return h, rest, nil
}

// parseRegular reads the timestamps of a run at equal intervals.
func parseRegular(src []byte, count int) (base, interval int64, rest []byte, err error) {
	b, src, ok := cutUvarint(src)
	if !ok || b >= keyschema.HourMs {
		return 0, 0, nil, corrupt("first timestamp")
	}
	if count == 1 {
		return int64(b), 0, src, nil
	}
	i, src, ok := cutUvarint(src)
	if !ok || i == 0 || i >= keyschema.HourMs || b+i*uint64(count-1) >= keyschema.HourMs {
		return 0, 0, nil, corrupt("%d samples every %d ms from %d ms on leave the hour", count, i, b)
	}
	return int64(b), int64(i), src, nil
}

// grow appends n elements that the caller overwrites.
func grow[T any](s []T, n int) []T { return slices.Grow(s, n)[:len(s)+n] }

// decodeIrregular reads timestamps that are a column.
func (d *Decoder) decodeIrregular(src []byte, h head, hourStartMs int64, tsMs []int64) ([]int64, []byte, error) {
	if len(src) == 0 || src[0]&^(modeMask|flagStep|flagGrid) != 0 {
		return nil, nil, corrupt("byte of the timestamp column")
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
	c, err := d.openColumn(src, mode(kind&modeMask), kind&flagStep != 0, false, h.count)
	if err != nil {
		return nil, nil, err
	}
	start := len(tsMs)
	tsMs = grow(tsMs, h.count)
	offsets := tsMs[start:]
	if err := c.ints(offsets); err != nil {
		return nil, nil, err
	}
	if kind&flagGrid != 0 {
		addGrid(offsets, int64(interval), jumps)
	}
	before := int64(-1)
	for i, offset := range offsets {
		if offset <= before || offset >= keyschema.HourMs {
			return nil, nil, corrupt("timestamp %d does not ascend inside the hour", i)
		}
		before = offset
		offsets[i] = hourStartMs + offset
	}
	return tsMs, d.blocks.src, nil
}

// parseGrid reads a grid's interval and checks its jumps, which it returns as they are.
func parseGrid(src []byte, count int) (interval uint64, jumps, rest []byte, err error) {
	interval, src, ok := cutUvarint(src)
	if !ok || interval == 0 || interval >= keyschema.HourMs {
		return 0, nil, nil, corrupt("interval %d", interval)
	}
	number, src, ok := cutUvarint(src)
	if !ok || number > uint64(len(src))/2 {
		return 0, nil, nil, corrupt("%d jumps in %d bytes", number, len(src))
	}
	jumps, index := src, uint64(0)
	for range number {
		gap, next, ok1 := cutUvarint(src)
		_, next, ok2 := cutVarint(next)
		if index += gap; !ok1 || !ok2 || gap == 0 || gap >= uint64(count) || index >= uint64(count) {
			return 0, nil, nil, corrupt("jump of the timestamps")
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
			gap, jumps, _ = cutUvarint(jumps)
			shift, jumps, _ = cutVarint(jumps)
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

// decodeValues reads the rest of a run, which has to end with src.
func (d *Decoder) decodeValues(src []byte, h head, values []float64) ([]float64, error) {
	listed := 0
	if h.first&flagSpecials != 0 {
		var err error
		if src, listed, err = d.specials(src, h.count); err != nil {
			return nil, err
		}
	}
	n := h.count - listed
	if n == 0 {
		if len(src) != 0 || h.first&modeMask != 0 {
			return nil, corrupt("%d bytes after special values only", len(src))
		}
		start := len(values)
		values = grow(values, h.count)
		d.spread(values[start:], listed)
		return values, nil
	}
	if len(src) == 0 {
		return nil, corrupt("no values")
	}
	scale := int(src[0] & scaleMask)
	near := src[0]&flagUlps != 0
	if src[0]&^(scaleMask|flagStep|flagUlps) != 0 || scale > exponentMax && (scale != scaleRaw || near) {
		return nil, corrupt("scale byte 0x%02x", src[0])
	}
	c, err := d.openColumn(src[1:], mode(h.first&modeMask), src[0]&flagStep != 0, scale == scaleRaw, n)
	if err != nil {
		return nil, err
	}
	start := len(values)
	values = grow(values, h.count)
	if err := c.floats(values[start:start+n], scale); err != nil {
		return nil, err
	}
	if near {
		if err := d.decodeUlps(values[start : start+n]); err != nil {
			return nil, err
		}
	}
	if len(d.blocks.src) != 0 {
		return nil, corrupt("%d bytes too many", len(d.blocks.src))
	}
	if listed > 0 {
		d.spread(values[start:], listed)
	}
	return values, nil
}

// decodeUlps reads the column of distances that follows the values of near decimals and applies it.
func (d *Decoder) decodeUlps(values []float64) error {
	src := d.blocks.src
	if len(src) == 0 || src[0]&^(modeMask|flagStep) != 0 {
		return corrupt("byte of the column of distances")
	}
	c, err := d.openColumn(src[1:], mode(src[0]&modeMask), src[0]&flagStep != 0, false, len(values))
	if err != nil {
		return err
	}
	return c.addUlps(values)
}

// reader unpacks a column of n numbers from d.blocks.
type reader struct {
	d     *Decoder
	mode  mode
	n     int
	step  int64
	lead  int64 // the minimum of modeFrame, the first number of all others
	slope int64 // smallest difference of modeDelta, first difference of modeZigzag2
}

// openColumn reads what precedes a column's blocks and checks that the blocks can hold n numbers.
func (d *Decoder) openColumn(src []byte, m mode, stepped, raw bool, n int) (reader, error) {
	r := reader{d: d, mode: m, n: n, step: 1}
	ok := true
	if raw {
		if len(src) < 8 {
			return r, corrupt("first value is cut off")
		}
		r.lead, src = int64(binary.LittleEndian.Uint64(src)), src[8:]
	} else if r.lead, src, ok = cutVarint(src); !ok {
		return r, corrupt("first value is cut off")
	}
	if m == modeConst {
		d.blocks.src = src
		if stepped {
			return r, corrupt("equal values with a step")
		}
		return r, nil
	}
	if m > modeXor || m == modeXor && !raw || n < 2 {
		return r, corrupt("mode %d for %d values", m, n)
	}
	if stepped {
		step, rest, ok := cutUvarint(src)
		if !ok || step < 2 {
			return r, corrupt("step %d", step)
		}
		r.step, src = int64(step), rest
	}
	if m == modeDelta || m == modeZigzag2 {
		if r.slope, src, ok = cutVarint(src); !ok {
			return r, corrupt("slope is cut off")
		}
	}
	if n-1 > len(src)*blockLen {
		return r, corrupt("%d values in %d bytes", n, len(src))
	}
	d.blocks.src = src
	return r, nil
}

// ints unpacks the column into out.
func (r *reader) ints(out []int64) error {
	return r.each(len(out), func(from int, x []int64) { copy(out[from:], x) })
}

// floats unpacks the column into out as values of a scale.
func (r *reader) floats(out []float64, scale int) error {
	if r.mode == modeConst {
		v := unscale(r.lead, scale)
		for i := range out {
			out[i] = v
		}
		return nil
	}
	return r.each(len(out), func(from int, x []int64) { unscaleAll(out[from:from+len(x)], x, scale) })
}

// each unpacks the column of n numbers and hands it on in pieces of at most blockLen.
func (r *reader) each(n int, piece func(from int, x []int64)) error {
	d, at, slope, from := r.d, r.lead, r.slope, 0
	if r.mode != modeFrame {
		d.ints[0] = at
		piece(0, d.ints[:1])
		from = 1
	}
	for from < n {
		k := min(n-from, blockLen)
		if r.mode == modeConst {
			for i := range d.ints[:k] {
				d.ints[i] = at
			}
		} else {
			u := d.numbers[:k]
			if !d.blocks.block(u) {
				return corrupt("block of %d numbers", k)
			}
			at, slope = r.undo(d.ints[:k], u, at, slope)
		}
		piece(from, d.ints[:k])
		from += k
	}
	return nil
}

// unscaleAll turns the numbers of a column into values.
func unscaleAll(out []float64, x []int64, scale int) {
	out = out[:len(x)]
	switch scale {
	case scaleRaw:
		for i, n := range x {
			out[i] = unordered(n)
		}
	case 0:
		for i, n := range x {
			out[i] = float64(n)
		}
	default:
		power := powers[scale]
		for i, n := range x {
			out[i] = float64(n) / power
		}
	}
}

func unscale(x int64, scale int) float64 {
	if scale == scaleRaw {
		return unordered(x)
	}
	return float64(x) / powers[scale]
}

// undo turns the numbers of a block back into those of the column, into out; at and slope carry over between blocks.
func (r *reader) undo(out []int64, u []uint64, at, slope int64) (int64, int64) {
	step := r.step
	out = out[:len(u)]
	switch r.mode {
	case modeFrame:
		for i, x := range u {
			out[i] = at + int64(x)*step
		}
	case modeDelta:
		base := slope * step
		for i, x := range u {
			at += int64(x)*step + base
			out[i] = at
		}
	case modeZigzag:
		for i, x := range u {
			at += unzigzag(x) * step
			out[i] = at
		}
	case modeZigzag2:
		for i, x := range u {
			slope += unzigzag(x)
			at += slope * step
			out[i] = at
		}
	case modeXor:
		for i, x := range u {
			at ^= int64(x) * step
			out[i] = at
		}
	}
	return at, slope
}
