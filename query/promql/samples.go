package promql

import "slices"

// Samples are neighbouring samples of one series: times ascend strictly, stale markers are values like others. The slices
// are only to be read.
type Samples struct {
	// TsMs are the times; nil where FirstMs and StepMs tell them, see Times.
	TsMs    []int64
	FirstMs int64
	Values  []float64
	// StepMs is the time between neighbouring samples where it is known to be always the same, otherwise 0.
	StepMs int64
	// Plain is set if it is known that no value is a stale marker, Rising if none is less than the one before.
	Plain, Rising bool

	// falls are the places of values less than the one before, from skipped samples before the first on, maybe of more
	// samples; nil if they are not known.
	falls   []uint16
	skipped int
}

// Len is the number of samples.
func (s *Samples) Len() int { return len(s.Values) }

// Time is that of sample i.
func (s *Samples) Time(i int) int64 {
	if s.TsMs == nil {
		return s.FirstMs + int64(i)*s.StepMs
	}
	return s.TsMs[i]
}

// Times are those of all samples, in the memory of buf if they have to be made and there is enough.
func (s *Samples) Times(buf []int64) []int64 {
	if s.TsMs != nil || len(s.Values) == 0 {
		return s.TsMs
	}
	return s.AppendTimes(slices.Grow(buf[:0], len(s.Values)), 0, len(s.Values))
}

// AppendTimes appends the times of samples from one to before the end.
func (s *Samples) AppendTimes(to []int64, from, end int) []int64 {
	if s.TsMs != nil {
		return append(to, s.TsMs[from:end]...)
	}
	at := len(to)
	to = slices.Grow(to, end-from)[:at+end-from]
	ts := s.FirstMs + int64(from)*s.StepMs
	for i := range to[at:] {
		to[at+i] = ts
		ts += s.StepMs
	}
	return to
}

// AppendFalls appends the places of values less than the one before, if they are known.
func (s *Samples) AppendFalls(to []int) (_ []int, known bool) {
	if s.Rising {
		return to, true
	}
	for _, at := range s.falls {
		if i := int(at) - s.skipped; i > 0 && i < len(s.Values) {
			to = append(to, i)
		}
	}
	return to, s.falls != nil
}

// UpTo is the number of samples up to a time.
func (s *Samples) UpTo(tsMs int64) int {
	if s.TsMs != nil || len(s.Values) == 0 {
		n, _ := slices.BinarySearch(s.TsMs, tsMs+1)
		return n
	}
	if tsMs < s.FirstMs {
		return 0
	}
	return int(min((tsMs-s.FirstMs)/s.StepMs+1, int64(len(s.Values))))
}

// add gives a column what was read of it, behind what it has.
func (c *Column) add(of columns, t traits) {
	if c.Len() == 0 {
		c.set(of, t)
		return
	}
	var last Samples
	last.set(of, t)
	c.More = append(c.More, last)
}

// set gives them what was read.
func (s *Samples) set(of columns, t traits) {
	s.TsMs, s.Values = of.tsMs, of.values
	s.StepMs, s.Plain, s.Rising = t.stepMs, t.plain, t.rising
}

// lent are samples of an entry, evenly spaced, whose words are given: in that memory.
func (h *hit) lent(words []uint64) Samples {
	t := h.shape.traits()
	return Samples{
		Values:  valuesIn(words, h.shape.len())[h.from:h.end:h.end],
		FirstMs: h.startMs + int64(h.shape.firstMs) + int64(h.from)*t.stepMs,
		StepMs:  t.stepMs, Plain: t.plain, Rising: t.rising,
		falls: h.shape.fallsIn(words), skipped: h.from,
	}
}
