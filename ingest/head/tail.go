package head

import (
	"encoding/binary"
	"math"
	"slices"

	"halite/keyschema"
)

// tail is the block of a row's newest samples: values, then the offsets of samples in the hour. Most series are sampled at
// equal distances: then there are only the first offset and the distance in place of the offsets. Its length tells which.
type tail []byte

const (
	tailSmallBytes = tailSmallSamples * (valueBytes + offsetBytes)
	tailBytes      = tailSamples * (valueBytes + offsetBytes)
	tailEvenBytes  = tailSamples*valueBytes + 2*wideBytes
	wideBytes      = 4 // of the first offset and the distance in an even tail
)

// places is the number of samples that there is room for.
func (t tail) places() int {
	switch len(t) {
	case 0:
		return 0
	case tailSmallBytes:
		return tailSmallSamples
	}
	return tailSamples
}

func (t tail) even() bool { return len(t) == tailEvenBytes }

func (t tail) offsets() []byte {
	if len(t) == tailSmallBytes {
		return t[tailSmallSamples*valueBytes:]
	}
	return t[tailSamples*valueBytes:]
}

func (t tail) putValue(n int, value float64) {
	binary.LittleEndian.PutUint64(t[valueBytes*n:], math.Float64bits(value))
}

func (t tail) value(n int) float64 {
	return math.Float64frombits(binary.LittleEndian.Uint64(t[valueBytes*n:]))
}

// offset returns the n-th offset; in an even tail also of a sample to come, unless it is the first.
func (t tail) offset(n int) uint32 {
	if t.even() {
		first, distance := t.steps()
		return first + uint32(n)*distance
	}
	return readOffset(t.offsets()[offsetBytes*n:])
}

// steps returns the first offset and the distance in an even tail.
func (t tail) steps() (first, distance uint32) {
	steps := binary.LittleEndian.Uint64(t[tailSamples*valueBytes:])
	return uint32(steps), uint32(steps >> 32)
}

func (t tail) putSteps(first, distance uint32) {
	binary.LittleEndian.PutUint64(t[tailSamples*valueBytes:], uint64(distance)<<32|uint64(first))
}

// putOffset sets the n-th offset, of an even tail the first: the others follow from it.
func (t tail) putOffset(n int, offset uint32) {
	switch {
	case !t.even():
		writeOffset(t.offsets()[offsetBytes*n:], offset)
	case n == 0:
		_, distance := t.steps()
		t.putSteps(offset, distance)
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
	if r.tail == 0 {
		return nil
	}
	return s.slabs[r.tailClass()].block(r.tail)
}

// growTail gives a row a tail, or a larger one.
func (s *stripe) growTail(r *row) tail {
	if r.tail == 0 {
		r.tail = s.slabs[classTailSmall].alloc()
		s.bytes += tailSmallBytes
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
	r.hourFlags = r.hourFlags&^(flagTailLarge|flagTailEven) | flags
	r.tail = s.slabs[r.tailClass()].alloc()
	to := s.tail(r)
	s.bytes += int64(len(to) - len(from))
	copy(to, from[:valueBytes*from.places()])
	if to.even() {
		to.putSteps(from.offset(0), from.offset(1)-from.offset(0))
	} else {
		for n := range r.tailLen() {
			to.putOffset(n, from.offset(n))
		}
	}
	s.slabs[class].release(block)
	return to
}

// appendTail appends the tail to columns of one length, in the order of arrival.
func (s *stripe) appendTail(r *row, tsMs []int64, values []float64) ([]int64, []float64) {
	t, startMs, from, n := s.tail(r), keyschema.HourStartMs(r.hour()), len(tsMs), r.tailLen()
	tsMs, values = slices.Grow(tsMs, n)[:from+n], slices.Grow(values, n)[:from+n]
	if t.even() {
		first, distance := t.steps()
		atMs := startMs + int64(first)
		for i := range tsMs[from:] {
			tsMs[from+i] = atMs
			atMs += int64(distance)
		}
	} else {
		for i := range tsMs[from:] {
			tsMs[from+i] = startMs + int64(t.offset(i))
		}
	}
	for i := range values[from:] {
		values[from+i] = t.value(i)
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
