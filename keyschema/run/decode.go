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
	stretches []stretch
	times     []int64
}

// Decode appends the samples of a run to the two columns. hourStartMs is the start of the hour that the run belongs to.
// Bytes that Append did not make give an error that wraps [ErrCorrupt] and leave the columns' lengths as they were; what
// is allocated is bounded by the run's length except for values that are all equal at equal intervals, of which an hour
// holds at most 3.6 million.
func (d *Decoder) Decode(src []byte, hourStartMs int64, tsMs []int64, values []float64) ([]int64, []float64, error) {
	h, src, err := parseHead(src)
	if err != nil {
		return tsMs, values, err
	}
	times, src, err := d.decodeTimes(src, h, hourStartMs, tsMs)
	if err != nil {
		return tsMs, values, err
	}
	all, err := d.decodeValues(src, h, values)
	if err != nil {
		return tsMs, values, err
	}
	return times, all, nil
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
	times, _, err := d.decodeTimes(src, h, hourStartMs, d.times[:0])
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

func (d *Decoder) decodeTimes(src []byte, h head, hourStartMs int64, tsMs []int64) ([]int64, []byte, error) {
	if h.first&flagIrregular != 0 {
		return d.decodeIrregular(src, h, hourStartMs, tsMs)
	}
	base, interval, src, err := parseRegular(src, h.count)
	if err != nil {
		return nil, nil, err
	}
	start := len(tsMs)
	tsMs = grow(tsMs, h.count)
	ts := hourStartMs + base
	for i := range tsMs[start:] {
		tsMs[start+i] = ts
		ts += interval
	}
	return tsMs, src, nil
}

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
	if src[0]&^(scaleMask|flagStep) != 0 || scale > exponentMax && scale != scaleRaw {
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
	if len(d.blocks.src) != 0 {
		return nil, corrupt("%d bytes too many", len(d.blocks.src))
	}
	if listed > 0 {
		d.spread(values[start:], listed)
	}
	return values, nil
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
	at, slope := r.lead, r.slope
	if r.mode != modeFrame {
		out[0] = at
		out = out[1:]
	}
	if r.mode == modeConst {
		for i := range out {
			out[i] = at
		}
		return nil
	}
	for len(out) > 0 {
		u := r.d.numbers[:min(len(out), blockLen)]
		if !r.d.blocks.block(u) {
			return corrupt("block of %d numbers", len(u))
		}
		at, slope = r.undo(u, at, slope)
		for i, x := range u {
			out[i] = int64(x)
		}
		out = out[len(u):]
	}
	return nil
}

// floats unpacks the column into out as values of a scale.
func (r *reader) floats(out []float64, scale int) error {
	at, slope := r.lead, r.slope
	if r.mode != modeFrame {
		out[0] = unscale(at, scale)
		out = out[1:]
	}
	if r.mode == modeConst {
		v := unscale(at, scale)
		for i := range out {
			out[i] = v
		}
		return nil
	}
	for len(out) > 0 {
		u := r.d.numbers[:min(len(out), blockLen)]
		if !r.d.blocks.block(u) {
			return corrupt("block of %d numbers", len(u))
		}
		at, slope = r.undo(u, at, slope)
		into := out[:len(u)]
		switch scale {
		case scaleRaw:
			for i, x := range u {
				into[i] = unordered(int64(x))
			}
		case 0:
			for i, x := range u {
				into[i] = float64(int64(x))
			}
		default:
			power := powers[scale]
			for i, x := range u {
				into[i] = float64(int64(x)) / power
			}
		}
		out = out[len(u):]
	}
	return nil
}

func unscale(x int64, scale int) float64 {
	if scale == scaleRaw {
		return unordered(x)
	}
	return float64(x) / powers[scale]
}

// undo turns the numbers of a block back into those of the column, in place; at and slope carry over between blocks.
func (r *reader) undo(u []uint64, at, slope int64) (int64, int64) {
	step := r.step
	switch r.mode {
	case modeFrame:
		for i, x := range u {
			u[i] = uint64(at + int64(x)*step)
		}
	case modeDelta:
		base := slope * step
		for i, x := range u {
			at += int64(x)*step + base
			u[i] = uint64(at)
		}
	case modeZigzag:
		for i, x := range u {
			at += unzigzag(x) * step
			u[i] = uint64(at)
		}
	case modeZigzag2:
		for i, x := range u {
			slope += unzigzag(x)
			at += slope * step
			u[i] = uint64(at)
		}
	case modeXor:
		for i, x := range u {
			at ^= int64(x) * step
			u[i] = uint64(at)
		}
	}
	return at, slope
}
