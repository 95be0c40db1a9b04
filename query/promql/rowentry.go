package promql

import (
	"math"
	"slices"
	"sort"
	"unsafe"

	"github.com/prometheus/prometheus/model/value"
)

// traits are what is known of samples beyond their number. It holds for parts of them too.
type traits struct {
	// stepMs is the time between neighbouring samples, 0 if it is not always the same.
	stepMs int64
	// plain is set if no value is a stale marker, rising if none is less than the one before.
	plain, rising bool
}

func traitsOf(c columns) traits {
	t := traits{stepMs: interval(c.tsMs), plain: true, rising: true}
	before := math.Inf(-1)
	for _, v := range c.values {
		t.plain = t.plain && math.Float64bits(v) != value.StaleNaN
		t.rising = t.rising && !(v < before)
		before = v
	}
	return t
}

// joined are the traits of samples of which the first n have those of t and the others, of which there are some, those
// of next.
func (t traits) joined(next traits, n int, all columns) traits {
	between := all.tsMs[n] - all.tsMs[n-1]
	if n > 1 && t.stepMs != between || len(all.tsMs)-n > 1 && next.stepMs != between {
		between = 0
	}
	return traits{
		stepMs: between, plain: t.plain && next.plain,
		rising: t.rising && next.rising && !(all.values[n] < all.values[n-1]),
	}
}

// interval is the time between neighbouring samples, 0 if it is not always the same.
func interval(tsMs []int64) int64 {
	if len(tsMs) < 2 {
		return 1
	}
	step := tsMs[1] - tsMs[0]
	for i := 2; i < len(tsMs); i++ {
		if tsMs[i]-tsMs[i-1] != step {
			return 0
		}
	}
	return step
}

// rowShape is what an entry of the cache has beside its words.
type rowShape struct {
	samples uint32 // with flags above
	firstMs uint32 // of the first sample, after the start of the entry's first hour
	stepMs  uint32 // between samples, 0 if there are offsets
}

const (
	shapeRising = 1 << 31
	shapePlain  = 1 << 30
	// shapeFallsAt is where the number of falls begins, below the flags: fallsMany if there are more than it can tell, or it
	// is not known.
	shapeFallsAt = 26
	fallsMany    = 1<<4 - 1
	// fallsInWord is the number of places of falls in a word.
	fallsInWord = 4
)

func rowShapeOf(startMs int64, c columns, t traits) rowShape {
	s := rowShape{samples: uint32(len(c.tsMs)), stepMs: uint32(t.stepMs)}
	if len(c.tsMs) > 0 {
		s.firstMs = uint32(c.tsMs[0] - startMs)
	}
	if t.rising {
		s.samples |= shapeRising
	}
	if t.plain {
		s.samples |= shapePlain
	}
	switch {
	case len(c.values) > math.MaxUint16+1: // longer than places can tell, should such an entry ever be kept
		s.samples |= fallsMany << shapeFallsAt
	case !t.rising:
		var falls [fallsMany]uint16
		s.samples |= uint32(len(appendFalls(falls[:0], c.values, fallsMany))) << shapeFallsAt
	}
	return s
}

// appendFalls appends the places of the first values, so many at most, that are less than the one before.
func appendFalls(to []uint16, values []float64, most int) []uint16 {
	for i := 1; i < len(values) && len(to) < most; i++ {
		if values[i] < values[i-1] {
			to = append(to, uint16(i))
		}
	}
	return to
}

func (s rowShape) len() int { return int(s.samples & (1<<shapeFallsAt - 1)) }

// falls is the number of values less than the one before; not known if there are many.
func (s rowShape) falls() (n int, known bool) {
	n = int(s.samples >> shapeFallsAt & fallsMany)
	return n, n < fallsMany
}

func (s rowShape) traits() traits {
	return traits{stepMs: int64(s.stepMs), plain: s.samples&shapePlain != 0, rising: s.samples&shapeRising != 0}
}

// words is the length of the entry.
func (s rowShape) words() int {
	n := s.len()
	if s.stepMs == 0 {
		n += (n + 1) / 2
	}
	if falls, known := s.falls(); known {
		n += (falls + fallsInWord - 1) / fallsInWord
	}
	return n
}

func (s rowShape) write(words []uint64, startMs int64, c columns) {
	for i, v := range c.values {
		words[i] = math.Float64bits(v)
	}
	if s.stepMs == 0 {
		offsets := offsetsIn(words, len(c.tsMs))
		for i, ts := range c.tsMs {
			offsets[i] = uint32(ts - startMs)
		}
	}
	if falls := s.fallsIn(words); len(falls) > 0 {
		appendFalls(falls[:0], c.values, len(falls))
	}
}

// fallsIn are the places of falls of an entry, which are its last words; nil if they are not known.
func (s rowShape) fallsIn(words []uint64) []uint16 {
	n, known := s.falls()
	if !known {
		return nil
	}
	at := len(words) - (n+fallsInWord-1)/fallsInWord
	return unsafe.Slice((*uint16)(unsafe.Pointer(unsafe.SliceData(words[at:]))), n)
}

// valuesIn are the values of an entry that has n of them.
func valuesIn(words []uint64, n int) []float64 {
	return unsafe.Slice((*float64)(unsafe.Pointer(unsafe.SliceData(words))), n)
}

// offsetsIn are the offsets behind n values.
func offsetsIn(words []uint64, n int) []uint32 {
	return unsafe.Slice((*uint32)(unsafe.Pointer(unsafe.SliceData(words[n:]))), n)
}

// within gives the samples from one to before the end that lie in a window, of an entry that begins at startMs.
func (s rowShape) within(words []uint64, startMs int64, w window) (from, end int) {
	if s.stepMs == 0 {
		offsets := offsetsIn(words, s.len())
		from = sort.Search(len(offsets), func(i int) bool { return startMs+int64(offsets[i]) >= w.mintMs })
		end = from + sort.Search(len(offsets)-from, func(i int) bool { return startMs+int64(offsets[from+i]) > w.maxtMs })
		return from, end
	}
	n, step := int64(s.len()), int64(s.stepMs)
	first := startMs + int64(s.firstMs)
	lo, hi := int64(0), n
	if first < w.mintMs {
		lo = min(n, (w.mintMs-first+step-1)/step)
	}
	if first+(n-1)*step > w.maxtMs {
		hi = max(lo, (w.maxtMs-first+step)/step)
	}
	return int(lo), int(hi)
}

// appendEntry appends some of the samples of an entry that begins at startMs.
func (b *buffer) appendEntry(s rowShape, words []uint64, startMs int64, from, end int) {
	b.values = append(b.values, valuesIn(words, s.len())[from:end]...)
	at := len(b.tsMs)
	b.tsMs = slices.Grow(b.tsMs, end-from)[:at+end-from]
	tsMs := b.tsMs[at:]
	if s.stepMs == 0 {
		for i, offset := range offsetsIn(words, s.len())[from:end] {
			tsMs[i] = startMs + int64(offset)
		}
		return
	}
	ts := startMs + int64(s.firstMs) + int64(from)*int64(s.stepMs)
	for i := range tsMs {
		tsMs[i] = ts
		ts += int64(s.stepMs)
	}
}
