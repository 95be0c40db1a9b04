package column

import "slices"

// Samples are consecutive samples of one series. Times ascend strictly, and stale markers are values like others. Callers do
// not change the slices.
type Samples struct {
	// TsMs are the times. They are nil if FirstMs and StepMs determine them; see Times.
	TsMs    []int64
	FirstMs int64
	Values  []float64
	// StepMs is the time between neighbouring samples; 0 if it varies or is unknown.
	StepMs int64
	// NoStale means that no value is a stale marker. Monotonic means that no value is less than the previous one. Both are false
	// if unknown.
	NoStale, Monotonic bool

	// Resets are the positions of values that are less than the previous one. They count from ResetsOffset samples before the
	// first sample, and may include positions outside the samples. nil means unknown.
	Resets       []uint16
	ResetsOffset int
}

// Len returns the number of samples.
func (s *Samples) Len() int { return len(s.Values) }

// Time returns the time of sample i.
func (s *Samples) Time(i int) int64 {
	if s.TsMs == nil {
		return s.FirstMs + int64(i)*s.StepMs
	}
	return s.TsMs[i]
}

// Times returns the times of all samples. If it has to compute them, it reuses the memory of buf if that is large enough.
func (s *Samples) Times(buf []int64) []int64 {
	if s.TsMs != nil || len(s.Values) == 0 {
		return s.TsMs
	}
	return s.AppendTimes(slices.Grow(buf[:0], len(s.Values)), 0, len(s.Values))
}

// AppendTimes appends the times of the samples [from, end).
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

// AppendResets appends the positions of values that are less than the previous one. known is false if they are unknown.
func (s *Samples) AppendResets(to []int) (_ []int, known bool) {
	if s.Monotonic {
		return to, true
	}
	for _, at := range s.Resets {
		if i := int(at) - s.ResetsOffset; i > 0 && i < len(s.Values) {
			to = append(to, i)
		}
	}
	return to, s.Resets != nil
}

// CountUpTo returns the number of samples up to a time.
func (s *Samples) CountUpTo(tsMs int64) int {
	if s.TsMs != nil || len(s.Values) == 0 {
		n, _ := slices.BinarySearch(s.TsMs, tsMs+1)
		return n
	}
	if tsMs < s.FirstMs {
		return 0
	}
	return int(min((tsMs-s.FirstMs)/s.StepMs+1, int64(len(s.Values))))
}

// Set replaces the samples.
func (s *Samples) Set(p Points, t Properties) {
	s.TsMs, s.Values = p.TsMs, p.Values
	s.StepMs, s.NoStale, s.Monotonic = t.StepMs, t.NoStale, t.Monotonic
}
