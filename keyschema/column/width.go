package column

import "math/bits"

// Width is the packed width of a block's numbers, expressed as a limit: all numbers except the exceptions are below Base <<
// Low. With base 1, the block packs Low whole bits. A larger base is odd and gives a fraction of a bit; see radix.
type Width struct{ Low, Base uint8 }

// Limit returns the smallest number that does not fit. all reports whether every number fits.
func (w Width) Limit() (limit uint64, all bool) { return uint64(w.Base) << w.Low, w.Low == 64 }

// bytes is the size in bytes of n numbers and the width itself.
func (w Width) bytes(n int) int {
	if w.Base == 1 {
		return 1 + PackedBytes(n, int(w.Low))
	}
	return 2 + radixBytes(n, uint(w.Low), w.Base)
}

// smallestWidth returns the width that packs n numbers in the fewest bytes, and their size. top is the largest number.
func smallestWidth(n int, top uint64) (Width, int) {
	length := bits.Len64(top)
	whole := Width{uint8(length), 1}
	size := whole.bytes(n)
	low := max(length-radixBits, 0)
	base := uint8(top>>low) + 1
	zeros := bits.TrailingZeros8(base)
	if base >>= zeros; base == 1 {
		return whole, size
	}
	low += zeros
	if fraction := (Width{uint8(low), base}); fraction.bytes(n) < size {
		return fraction, fraction.bytes(n)
	}
	return whole, size
}

// AppendWidth appends the width of a block and whether the block has exceptions.
func AppendWidth(dst []byte, w Width, exceptions bool) []byte {
	flags := byte(0)
	if exceptions {
		flags = flagExceptions
	}
	if w.Base == 1 {
		return append(dst, w.Low|flags)
	}
	return append(dst, radixWidth+w.Low|flags, w.Base)
}

// CutWidth is the inverse of AppendWidth. It cuts the width off src. ok is false if src does not begin with a width.
func CutWidth(src []byte) (w Width, exceptions bool, rest []byte, ok bool) {
	if len(src) == 0 {
		return w, false, nil, false
	}
	w, exceptions = Width{src[0] & widthMask, 1}, src[0]&flagExceptions != 0
	src = src[1:]
	if w.Low < radixWidth {
		return w, exceptions, src, !exceptions || w.Low < 64
	}
	w.Low -= radixWidth
	if len(src) == 0 {
		return w, exceptions, nil, false
	}
	w.Base = src[0]
	ok = w.Base >= radixMin && w.Base <= radixMax && w.Base&1 == 1 && int(w.Low)+bits.Len8(w.Base) <= 64
	return w, exceptions, src[1:], ok
}

// The numbers of widths follow the order of the limits: 16 for each power of two.
const (
	widthSteps = 16
	baseBits   = 5
)

// Number returns the number of a width. Similar widths have close numbers, which pack well in a column.
func (w Width) Number() int64 {
	length := bits.Len8(w.Base)
	top := int(w.Base) << (baseBits - length)
	return int64((int(w.Low)+length-1)*widthSteps + top - widthSteps)
}

// WidthOfNumber is the inverse of Number. ok is false if no width has the number.
func WidthOfNumber(number int64) (w Width, ok bool) {
	if number < 0 || number > 64*widthSteps {
		return w, false
	}
	top := uint8(number%widthSteps) + widthSteps
	zeros := bits.TrailingZeros8(top)
	low := int(number/widthSteps) - (baseBits - 1) + zeros
	w = Width{uint8(low), top >> zeros}
	return w, low >= 0 && (w.Base == 1 && low <= 64 || w.Base > 1 && low+bits.Len8(w.Base) <= 64)
}
