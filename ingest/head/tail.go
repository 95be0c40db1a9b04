package head

import (
	"encoding/binary"
	"math"

	"halite/keyschema"
)

// tail is the block of a row's newest samples: values, then the offsets of samples in the hour. Most series are sampled at
// equal distances: then there are only the first offset and the distance in place of the offsets.
type tail struct {
	block  []byte
	places int // number of samples that there is room for
	even   bool
}

func (t tail) putValue(n int, value float64) {
	binary.LittleEndian.PutUint64(t.block[valueBytes*n:], math.Float64bits(value))
}

func (t tail) value(n int) float64 {
	return math.Float64frombits(binary.LittleEndian.Uint64(t.block[valueBytes*n:]))
}

// offset returns the n-th offset; in an even tail also of a sample to come, unless it is the first.
func (t tail) offset(n int) uint32 {
	at := t.block[valueBytes*t.places:]
	if t.even {
		return readOffset(at) + uint32(n)*readOffset(at[offsetBytes:])
	}
	return readOffset(at[offsetBytes*n:])
}

// putOffset sets the n-th offset, of an even tail the first: the others follow from it.
func (t tail) putOffset(n int, offset uint32) {
	if n == 0 || !t.even {
		writeOffset(t.block[valueBytes*t.places+offsetBytes*n:], offset)
	}
}

// Offsets take three bytes: an hour has fewer milliseconds.
func readOffset(b []byte) uint32 { return uint32(binary.LittleEndian.Uint16(b)) | uint32(b[2])<<16 }

func writeOffset(b []byte, offset uint32) {
	b[2] = byte(offset >> 16)
	binary.LittleEndian.PutUint16(b, uint16(offset))
}

// tailClass is the size class of the row's tail, if it has one.
func (r *row) tailClass() int {
	switch {
	case !r.is(flagTailLarge):
		return classTailSmall
	case r.is(flagTailEven):
		return classTailEven
	}
	return classTail
}

// tail returns the row's tail, without places if it has none.
func (s *stripe) tail(r *row) tail {
	switch {
	case r.tail == 0:
		return tail{}
	case !r.is(flagTailLarge):
		return tail{block: s.slabs[classTailSmall].block(r.tail), places: tailSmallSamples}
	case r.is(flagTailEven):
		return tail{block: s.slabs[classTailEven].block(r.tail), places: tailSamples, even: true}
	}
	return tail{block: s.slabs[classTail].block(r.tail), places: tailSamples}
}

// tailBytes is the memory of the row's tail.
func (s *stripe) tailBytes(r *row) int64 {
	if r.tail == 0 {
		return 0
	}
	return int64(s.slabs[r.tailClass()].blockBytes)
}

// growTail gives a row a tail, or a larger one.
func (s *stripe) growTail(r *row) tail {
	if r.tail == 0 {
		r.tail = s.slabs[classTailSmall].alloc()
		s.bytes += s.tailBytes(r)
		return s.tail(r)
	}
	return s.changeTail(r, flagTailLarge|s.evenTail(r))
}

// evenTail returns flagTailEven if the small tail's samples, all there, came at equal distances.
func (s *stripe) evenTail(r *row) uint32 {
	t := s.tail(r)
	distance := t.offset(1) - t.offset(0)
	for n := 1; n < tailSmallSamples; n++ {
		if t.offset(n) <= t.offset(n-1) || t.offset(n)-t.offset(n-1) != distance {
			return 0
		}
	}
	return flagTailEven
}

// spreadTail gives a row a tail with the offset of each sample.
func (s *stripe) spreadTail(r *row) tail { return s.changeTail(r, flagTailLarge) }

// changeTail moves the tail to a large block of the kind that the flags tell.
func (s *stripe) changeTail(r *row, flags uint32) tail {
	from, block, class := s.tail(r), r.tail, r.tailClass()
	s.bytes -= s.tailBytes(r)
	r.hourFlags = r.hourFlags&^(flagTailLarge|flagTailEven) | flags
	r.tail = s.slabs[r.tailClass()].alloc()
	s.bytes += s.tailBytes(r)
	to := s.tail(r)
	copy(to.block[:valueBytes*to.places], from.block[:valueBytes*from.places])
	for n := range r.tailLen() {
		to.putOffset(n, from.offset(n))
	}
	if to.even {
		writeOffset(to.block[valueBytes*to.places+offsetBytes:], from.offset(1)-from.offset(0))
	}
	s.slabs[class].release(block)
	return to
}

// appendTail appends the tail to columns, in the order of arrival.
func (s *stripe) appendTail(r *row, tsMs []int64, values []float64) ([]int64, []float64) {
	t, startMs := s.tail(r), keyschema.HourStartMs(r.hour())
	for n := range r.tailLen() {
		tsMs, values = append(tsMs, startMs+int64(t.offset(n))), append(values, t.value(n))
	}
	return tsMs, values
}

// releaseTail gives the tail back, whatever is in it.
func (s *stripe) releaseTail(r *row) {
	if r.tail == 0 {
		return
	}
	s.slabs[r.tailClass()].release(r.tail)
	r.tail = 0
	r.hourFlags &^= flagTailLarge | flagTailEven
}
