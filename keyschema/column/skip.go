package column

import "math/bits"

// skipBlock returns the bytes after a block of n numbers. src starts after the block's width.
func skipBlock(src []byte, w Width, exceptions bool, n int) (rest []byte, ok bool) {
	size := 0
	if w.Base == 1 {
		size = PackedBytes(n, int(w.Low))
	} else {
		size = radixBytes(n, uint(w.Low), w.Base)
	}
	if !exceptions {
		if size > len(src) {
			return nil, false
		}
		return src[size:], true
	}
	bitmapBytes := PackedBytes(n, 1)
	if len(src) < 1+size+1 {
		return nil, false
	}
	width, bitmap := int(src[0]&widthMask), src[0]&flagBitmap != 0
	src = src[1+size:]
	count := 0
	if bitmap {
		if len(src) < bitmapBytes {
			return nil, false
		}
		for _, b := range src[:bitmapBytes] {
			count += bits.OnesCount8(b)
		}
		src = src[bitmapBytes:]
	} else {
		count = int(src[0])
		if len(src) < 1+count {
			return nil, false
		}
		src = src[1+count:]
	}
	size = PackedBytes(count, width)
	if width > 64 || size > len(src) {
		return nil, false
	}
	return src[size:], true
}

// SkipBlocks returns the bytes after the blocks of n numbers. src starts after the width of the first block. ok is false if
// src does not begin with such blocks.
func SkipBlocks(src []byte, w Width, exceptions bool, n int) (rest []byte, ok bool) {
	for {
		k := min(n, blockLen)
		if src, ok = skipBlock(src, w, exceptions, k); !ok {
			return nil, false
		}
		if n -= k; n == 0 {
			return src, true
		}
		if w, exceptions, src, ok = CutWidth(src); !ok {
			return nil, false
		}
	}
}

// Skip returns the bytes after a column of n numbers. src starts after the kind byte. ok is false if src does not begin with
// such a column.
func (d *Decoder) Skip(src []byte, kind byte, n int) (rest []byte, ok bool) {
	c, err := d.Open(src, kind, n)
	if err != nil {
		return nil, false
	}
	src = d.blocks.src
	if c.Mode == ModeConst {
		return src, true
	}
	if c.Mode != ModeFrame {
		n--
	}
	w, exceptions, src, ok := CutWidth(src)
	if !ok {
		return nil, false
	}
	return SkipBlocks(src, w, exceptions, n)
}
