package column

import (
	"encoding/binary"

	"google.golang.org/protobuf/encoding/protowire"
)

// Decoder decodes columns. It keeps its scratch space between calls. It is not for concurrent use; the zero value is ready.
type Decoder struct {
	blocks  blockReader
	numbers [blockLen]uint64
	ints    [blockLen]int64
}

// Rest returns the bytes after the last decoded part.
func (d *Decoder) Rest() []byte { return d.blocks.src }

// CutPacked unpacks len(out) numbers of w bits from the start of src.
func (d *Decoder) CutPacked(out []uint64, src []byte, w int) (rest []byte, ok bool) {
	size := PackedBytes(len(out), w)
	if size > len(src) {
		return nil, false
	}
	for from := 0; from < len(out); from += blockLen { // a whole block ends at a byte boundary
		d.blocks.src = src[from*w/8:]
		if !d.blocks.packed(out[from:min(from+blockLen, len(out))], uint(w)) {
			return nil, false
		}
	}
	return src[size:], true
}

// Reader unpacks one column of n numbers.
type Reader struct {
	Mode      Mode
	d         *Decoder
	step      int64
	reference int64 // the minimum in ModeFrame, the first number in all other modes
	slope     int64 // smallest difference in ModeDelta, first difference in ModeZigzag2
}

// Open opens a column of n numbers; src starts after its kind byte. It reads up to the first block and checks that src is long
// enough for n numbers. The Reader is valid until the next Open. An error wraps [ErrCorrupt].
func (d *Decoder) Open(src []byte, kind byte, n int) (Reader, error) {
	return d.open(src, kind, n, false)
}

// OpenBits is Open for bit patterns of floats.
func (d *Decoder) OpenBits(src []byte, kind byte, n int) (Reader, error) {
	return d.open(src, kind, n, true)
}

func (d *Decoder) open(src []byte, kind byte, n int, raw bool) (Reader, error) {
	m, stepped := Mode(kind&ModeMask), kind&FlagStep != 0
	r := Reader{d: d, Mode: m, step: 1}
	if m > ModeXor || m == ModeXor && !raw || m != ModeConst && n < 2 || m == ModeConst && stepped {
		return r, Corrupt("mode %d for %d values", m, n)
	}
	divided, ok := false, true
	if stepped {
		if r.step, divided, src, ok = CutStep(src); !ok || divided && raw {
			return r, Corrupt("step")
		}
	}
	if raw {
		if len(src) < 8 {
			return r, Corrupt("first value is truncated")
		}
		r.reference, src = int64(binary.LittleEndian.Uint64(src)), src[8:]
	} else if r.reference, src, ok = CutVarint(src); !ok {
		return r, Corrupt("first value is truncated")
	}
	if divided {
		r.reference *= r.step
	}
	if m == ModeConst {
		d.blocks.src = src
		return r, nil
	}
	if m == ModeDelta || m == ModeZigzag2 {
		if r.slope, src, ok = CutSlope(src); !ok {
			return r, Corrupt("slope is truncated")
		}
	}
	if n-1 > len(src)*blockLen {
		return r, Corrupt("%d values in %d bytes", n, len(src))
	}
	d.blocks.src = src
	return r, nil
}

// CutStep cuts the step off src. divided reports whether the stored reference is divided by the step.
func CutStep(src []byte) (step int64, divided bool, rest []byte, ok bool) {
	if len(src) == 0 {
		return 0, false, nil, false
	}
	kind, src := src[0], src[1:]
	odd := uint64(1)
	if kind&stepOdd != 0 {
		if odd, src, ok = CutUvarint(src); !ok || odd < 3 || odd&1 == 0 {
			return 0, false, nil, false
		}
	}
	twos := uint(kind & stepTwos)
	step = int64(odd << twos)
	return step, kind&stepDivides != 0, src, step != 1 && odd<<twos>>twos == odd
}

// Const returns the number of a column whose numbers are all equal. ok is false for any other column.
func (r *Reader) Const() (x int64, ok bool) { return r.reference, r.Mode == ModeConst }

// Ints unpacks the column into out, which has n elements.
func (r *Reader) Ints(out []int64) error {
	if r.Mode == ModeConst {
		for i := range out {
			out[i] = r.reference
		}
		return nil
	}
	d, at, slope, from := r.d, r.reference, r.slope, 0
	if r.Mode != ModeFrame {
		out[0], from = at, 1
	}
	for from < len(out) {
		k := min(len(out)-from, blockLen)
		u := d.numbers[:k]
		if !d.blocks.block(u) {
			return Corrupt("block of %d numbers", k)
		}
		at, slope = r.undo(out[from:from+k], u, at, slope)
		from += k
	}
	return nil
}

// ForEach unpacks the column of n numbers and calls piece for each block of at most 256 numbers. piece must not keep x.
func (r *Reader) ForEach(n int, piece func(from int, x []int64)) error {
	d, at, slope, from := r.d, r.reference, r.slope, 0
	if r.Mode != ModeFrame {
		d.ints[0] = at
		piece(0, d.ints[:1])
		from = 1
	}
	for from < n {
		k := min(n-from, blockLen)
		if r.Mode == ModeConst {
			for i := range d.ints[:k] {
				d.ints[i] = at
			}
		} else {
			u := d.numbers[:k]
			if !d.blocks.block(u) {
				return Corrupt("block of %d numbers", k)
			}
			at, slope = r.undo(d.ints[:k], u, at, slope)
		}
		piece(from, d.ints[:k])
		from += k
	}
	return nil
}

// undo turns the numbers u of a block into numbers of the column. It returns at and slope for the next block.
func (r *Reader) undo(out []int64, u []uint64, at, slope int64) (int64, int64) {
	step := r.step
	out = out[:len(u)]
	switch r.Mode {
	case ModeFrame:
		for i, x := range u {
			out[i] = at + int64(x)*step
		}
	case ModeDelta:
		base := slope * step
		for i, x := range u {
			at += int64(x)*step + base
			out[i] = at
		}
	case ModeZigzag:
		for i, x := range u {
			at += protowire.DecodeZigZag(x) * step
			out[i] = at
		}
	case ModeZigzag2:
		for i, x := range u {
			slope += protowire.DecodeZigZag(x)
			at += slope * step
			out[i] = at
		}
	case ModeXor:
		for i, x := range u {
			at ^= int64(x) * step
			out[i] = at
		}
	}
	return at, slope
}
