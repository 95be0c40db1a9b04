package head

import (
	"encoding/binary"
	"math"
	"slices"

	"halite/keyschema"
)

// tail is the block of a row's newest samples: first the values, then the offsets of the samples in the hour. Most series
// have a fixed interval. For them the tail stores only the first offset and the interval. The length of a tail determines
// its layout.
type tail []byte

const (
	tailSmallBytes         = tailSmallSamples * (valueBytes + offsetBytes)
	tailBytes              = tailSamples * (valueBytes + offsetBytes)
	tailFixedIntervalBytes = tailSamples*valueBytes + 2*wideBytes
	wideBytes              = 4 // of the first offset, and of the interval
)

// places is the capacity of the tail in samples.
func (t tail) places() int {
	switch len(t) {
	case 0:
		return 0
	case tailSmallBytes:
		return tailSmallSamples
	}
	return tailSamples
}

func (t tail) fixedInterval() bool { return len(t) == tailFixedIntervalBytes }

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

// offset returns the n-th offset. In a tail with a fixed interval, n may also be the position after the last sample, unless
// n is 0.
func (t tail) offset(n int) uint32 {
	if t.fixedInterval() {
		first, interval := t.firstAndInterval()
		return first + uint32(n)*interval
	}
	return readOffset(t.offsets()[offsetBytes*n:])
}

// firstAndInterval returns the first offset and the interval of a tail with a fixed interval.
func (t tail) firstAndInterval() (first, interval uint32) {
	steps := binary.LittleEndian.Uint64(t[tailSamples*valueBytes:])
	return uint32(steps), uint32(steps >> 32)
}

func (t tail) putFirstAndInterval(first, interval uint32) {
	binary.LittleEndian.PutUint64(t[tailSamples*valueBytes:], uint64(interval)<<32|uint64(first))
}

// putOffset sets the n-th offset. In a tail with a fixed interval it sets only the first offset, because the others follow
// from it.
func (t tail) putOffset(n int, offset uint32) {
	switch {
	case !t.fixedInterval():
		writeOffset(t.offsets()[offsetBytes*n:], offset)
	case n == 0:
		_, interval := t.firstAndInterval()
		t.putFirstAndInterval(offset, interval)
	}
}

// readOffset reads an offset of three bytes: an hour has fewer than 2^24 milliseconds.
func readOffset(b []byte) uint32 { return uint32(binary.LittleEndian.Uint16(b)) | uint32(b[2])<<16 }

func writeOffset(b []byte, offset uint32) {
	b[2] = byte(offset >> 16)
	binary.LittleEndian.PutUint16(b, uint16(offset))
}

// tailClass is the size class of the row's tail.
func (r *row) tailClass() int {
	switch {
	case !r.is(flagTailLarge):
		return classTailSmall
	case r.is(flagTailFixedInterval):
		return classTailFixedInterval
	}
	return classTail
}

// tail returns the row's tail, nil if it has none.
func (s *stripe) tail(r *row) tail {
	if r.tail == 0 {
		return nil
	}
	return s.slabs[r.tailClass()].block(r.tail)
}

// growTail gives the row a tail, or a larger one.
func (s *stripe) growTail(r *row) tail {
	if r.tail == 0 {
		r.tail = s.slabs[classTailSmall].alloc()
		s.bytes += tailSmallBytes
		return s.tail(r)
	}
	return s.changeTail(r, flagTailLarge|s.intervalFlag(r))
}

// intervalFlag returns flagTailFixedInterval if the samples of the full small tail have a fixed interval.
func (s *stripe) intervalFlag(r *row) uint32 {
	t := s.tail(r)
	interval := t.offset(1) - t.offset(0)
	for n := 1; n < tailSmallSamples; n++ {
		if t.offset(n) <= t.offset(n-1) || t.offset(n)-t.offset(n-1) != interval {
			return 0
		}
	}
	return flagTailFixedInterval
}

// expandTail gives the row a tail with an offset for each sample.
func (s *stripe) expandTail(r *row) tail { return s.changeTail(r, flagTailLarge) }

// changeTail moves the tail to a large block. flags name its layout.
func (s *stripe) changeTail(r *row, flags uint32) tail {
	from, block, class := s.tail(r), r.tail, r.tailClass()
	r.hourFlags = r.hourFlags&^(flagTailLarge|flagTailFixedInterval) | flags
	r.tail = s.slabs[r.tailClass()].alloc()
	to := s.tail(r)
	s.bytes += int64(len(to) - len(from))
	copy(to, from[:valueBytes*from.places()])
	if to.fixedInterval() {
		to.putFirstAndInterval(from.offset(0), from.offset(1)-from.offset(0))
	} else {
		for n := range r.tailLen() {
			to.putOffset(n, from.offset(n))
		}
	}
	s.slabs[class].release(block)
	return to
}

// upTo returns the number of the tail's samples up to an offset. There are n samples, whose offsets ascend.
func (t tail) upTo(offset uint32, n int) int {
	if !t.fixedInterval() {
		for n > 0 && t.offset(n-1) > offset {
			n--
		}
		return n
	}
	first, interval := t.firstAndInterval()
	if offset < first {
		return 0
	}
	return min(n, int((offset-first)/max(1, interval))+1)
}

// appendTail appends the tail, without its first samples, to two columns of equal length, in the order of arrival.
func (s *stripe) appendTail(r *row, skip int, tsMs []int64, values []float64) ([]int64, []float64) {
	t, startMs, from, n := s.tail(r), keyschema.HourStartMs(r.hour()), len(tsMs), r.tailLen()-skip
	tsMs, values = slices.Grow(tsMs, n)[:from+n], slices.Grow(values, n)[:from+n]
	if t.fixedInterval() {
		first, interval := t.firstAndInterval()
		atMs := startMs + int64(first) + int64(skip)*int64(interval)
		for i := range tsMs[from:] {
			tsMs[from+i] = atMs
			atMs += int64(interval)
		}
	} else {
		for i := range tsMs[from:] {
			tsMs[from+i] = startMs + int64(t.offset(skip+i))
		}
	}
	for i := range values[from:] {
		values[from+i] = t.value(skip + i)
	}
	return tsMs, values
}

// releaseTail frees the tail without regard to its content.
func (s *stripe) releaseTail(r *row) {
	if r.tail == 0 {
		return
	}
	s.slabs[r.tailClass()].release(r.tail)
	r.tail = 0
	r.hourFlags &^= flagTailLarge | flagTailFixedInterval
}
