package rowcache

import (
	"math"
	"math/bits"
	"slices"
	"sort"
	"unsafe"

	"halite/query/column"
)

// layout describes the words of an entry.
type layout struct {
	samples uint32 // the number of samples, with flags above
	firstMs uint32 // offset of the first sample from the start of the entry's first hour
	stepMs  uint32 // time between samples; 0 if the entry has offsets
}

const (
	layoutMonotonic = 1 << 31
	layoutNoStale   = 1 << 30
	// layoutResetsShift is the position of the number of counter resets. The number is resetsMany if the values have more resets,
	// or if nothing has counted them.
	layoutResetsShift = 26
	resetsMany        = 1<<4 - 1
	// resetsPerWord is the number of positions in a word.
	resetsPerWord = 4
)

func layoutOf(startMs int64, c column.Points, t column.Properties) layout {
	s := layout{samples: uint32(len(c.TsMs)), stepMs: uint32(t.StepMs)}
	if len(c.TsMs) > 0 {
		s.firstMs = uint32(c.TsMs[0] - startMs)
	}
	if t.Monotonic {
		s.samples |= layoutMonotonic
	}
	if t.NoStale {
		s.samples |= layoutNoStale
	}
	switch {
	case len(c.Values) > math.MaxUint16+1: // positions have 16 bits
		s.samples |= resetsMany << layoutResetsShift
	case !t.Monotonic:
		var resets [resetsMany]uint16
		s.samples |= uint32(len(appendResets(resets[:0], c.Values, resetsMany))) << layoutResetsShift
	}
	return s
}

// appendResets appends the positions of values below the previous value, up to a maximum of most positions.
func appendResets(to []uint16, values []float64, most int) []uint16 {
	for i := 1; i < len(values) && len(to) < most; i++ {
		if values[i] < values[i-1] {
			to = append(to, uint16(i))
		}
	}
	return to
}

func (s layout) len() int { return int(s.samples & (1<<layoutResetsShift - 1)) }

// room is the number of words of a row of the head that is evenly spaced, with those for later samples.
func (s layout) room() int { return 1 << bits.Len(uint(s.len()-1)) }

// grow adds samples at the end. p are the properties of their values, from the last earlier one on.
func (s *layout) grow(samples int, p column.Properties) {
	*s = s.truncated(samples)
	if !p.Monotonic {
		s.samples &^= layoutMonotonic
	}
	if !p.NoStale {
		s.samples &^= layoutNoStale
	}
}

// truncated is the layout of another number of samples.
func (s layout) truncated(samples int) layout {
	s.samples = s.samples&^(1<<layoutResetsShift-1) | uint32(samples)
	return s
}

// resets returns the number of counter resets. known is false if the entry does not have it.
func (s layout) resets() (n int, known bool) {
	n = int(s.samples >> layoutResetsShift & resetsMany)
	return n, n < resetsMany
}

func (s layout) properties() column.Properties {
	return column.Properties{
		StepMs: int64(s.stepMs), NoStale: s.samples&layoutNoStale != 0, Monotonic: s.samples&layoutMonotonic != 0,
	}
}

// words returns the length of the entry.
func (s layout) words() int {
	n := s.len()
	if s.stepMs == 0 {
		n += (n + 1) / 2
	}
	if resets, known := s.resets(); known {
		n += (resets + resetsPerWord - 1) / resetsPerWord
	}
	return n
}

func (s layout) write(words []uint64, startMs int64, c column.Points) {
	for i, v := range c.Values {
		words[i] = math.Float64bits(v)
	}
	if s.stepMs == 0 {
		offsets := offsetsIn(words, len(c.TsMs))
		for i, ts := range c.TsMs {
			offsets[i] = uint32(ts - startMs)
		}
	}
	if resets := s.resetsIn(words); len(resets) > 0 {
		appendResets(resets[:0], c.Values, len(resets))
	}
}

// resetsIn returns the positions of counter resets from the end of an entry, or nil if the entry does not have them.
func (s layout) resetsIn(words []uint64) []uint16 {
	n, known := s.resets()
	if !known {
		return nil
	}
	at := len(words) - (n+resetsPerWord-1)/resetsPerWord
	return unsafe.Slice((*uint16)(unsafe.Pointer(unsafe.SliceData(words[at:]))), n)
}

// valuesIn returns the n values of an entry.
func valuesIn(words []uint64, n int) []float64 {
	return unsafe.Slice((*float64)(unsafe.Pointer(unsafe.SliceData(words))), n)
}

// offsetsIn returns the offsets that follow n values.
func offsetsIn(words []uint64, n int) []uint32 {
	return unsafe.Slice((*uint32)(unsafe.Pointer(unsafe.SliceData(words[n:]))), n)
}

// within returns the samples [from, end) that lie in a time range, for an entry that begins at startMs.
func (s layout) within(words []uint64, startMs int64, w column.TimeRange) (from, end int) {
	if s.stepMs == 0 {
		offsets := offsetsIn(words, s.len())
		from = sort.Search(len(offsets), func(i int) bool { return startMs+int64(offsets[i]) >= w.MinMs })
		end = from + sort.Search(len(offsets)-from, func(i int) bool { return startMs+int64(offsets[from+i]) > w.MaxMs })
		return from, end
	}
	n, step := int64(s.len()), int64(s.stepMs)
	first := startMs + int64(s.firstMs)
	lo, hi := int64(0), n
	if first < w.MinMs {
		lo = min(n, (w.MinMs-first+step-1)/step)
	}
	if first+(n-1)*step > w.MaxMs {
		hi = max(lo, (w.MaxMs-first+step)/step)
	}
	return int(lo), int(hi)
}

// appendTo appends the samples [from, end) of an entry that begins at startMs.
func (s layout) appendTo(b *column.Buffer, words []uint64, startMs int64, from, end int) {
	b.Values = append(b.Values, valuesIn(words, s.len())[from:end]...)
	at := len(b.TsMs)
	b.TsMs = slices.Grow(b.TsMs, end-from)[:at+end-from]
	tsMs := b.TsMs[at:]
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
