package chunk

import "encoding/binary"

// reader unpacks a column of n numbers from d.blocks.
type reader struct {
	d     *Decoder
	mode  mode
	n     int
	step  int64
	lead  int64 // the minimum of modeFrame, the first number of all others
	slope int64 // smallest difference of modeDelta, first difference of modeZigzag2
}

// openColumn reads what precedes a column's blocks, after the byte with mode and step flag, and checks that the
// blocks can hold n numbers.
func (d *Decoder) openColumn(src []byte, kind byte, raw bool, n int) (reader, error) {
	m, stepped := mode(kind&modeMask), kind&flagStep != 0
	r := reader{d: d, mode: m, n: n, step: 1}
	if m > modeXor || m == modeXor && !raw || m != modeConst && n < 2 || m == modeConst && stepped {
		return r, corrupt("mode %d for %d values", m, n)
	}
	divided, ok := false, true
	if stepped {
		if divided, src, ok = r.cutStep(src); !ok || divided && raw {
			return r, corrupt("step")
		}
	}
	if raw {
		if len(src) < 8 {
			return r, corrupt("first value is cut off")
		}
		r.lead, src = int64(binary.LittleEndian.Uint64(src)), src[8:]
	} else if r.lead, src, ok = cutVarint(src); !ok {
		return r, corrupt("first value is cut off")
	}
	if divided {
		r.lead *= r.step
	}
	if m == modeConst {
		d.blocks.src = src
		return r, nil
	}
	if m == modeDelta || m == modeZigzag2 {
		if r.slope, src, ok = cutSlope(src); !ok {
			return r, corrupt("slope is cut off")
		}
	}
	if n-1 > len(src)*blockLen {
		return r, corrupt("%d values in %d bytes", n, len(src))
	}
	d.blocks.src = src
	return r, nil
}

// cutStep cuts the step off src; divided tells that the lead is stored in steps.
func (r *reader) cutStep(src []byte) (divided bool, rest []byte, ok bool) {
	if len(src) == 0 {
		return false, nil, false
	}
	kind, src := src[0], src[1:]
	odd := uint64(1)
	if kind&stepOdd != 0 {
		if odd, src, ok = cutUvarint(src); !ok || odd < 3 || odd&1 == 0 {
			return false, nil, false
		}
	}
	twos := uint(kind & stepTwos)
	r.step = int64(odd << twos)
	return kind&stepDivides != 0, src, r.step != 1 && odd<<twos>>twos == odd
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
	case exponentRaw:
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
	if scale == exponentRaw {
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
