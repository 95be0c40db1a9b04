package rollup

import "slices"

// Columns holds the states of consecutive buckets of one series, column by column. Only the columns of Fields have
// values; all columns have the same length. The zero value is ready for Reset, which keeps memory.
type Columns struct {
	// FromMs is the start of the first bucket. BucketMs is the length of each bucket.
	FromMs, BucketMs int64
	// Fields are the wanted columns.
	Fields Fields
	// Known is set for each bucket whose state is known. A known state may have no samples.
	Known []bool

	Count, FirstMs, LastMs, NaNs, Resets, Changes      []int64
	First, Last, Correction, Sum, SumLow, Min, Max, M2 []float64
	Mean                                               []float64
	Stale                                              []bool

	viewOf *Packing // set if the columns share the words of a packing
}

// Reset makes all n buckets from fromMs on unknown and empty.
func (c *Columns) Reset(fromMs, bucketMs int64, n int, fields Fields) {
	if c.viewOf != nil {
		*c = Columns{} // a packing owns the words
	}
	c.FromMs, c.BucketMs, c.Fields = fromMs, bucketMs, fields
	c.Known, c.Stale = zeroed(c.Known, n), zeroed(c.Stale, n)
	for _, p := range c.integers() {
		*p = zeroed(*p, n)
	}
	for _, p := range c.floats() {
		*p = zeroed(*p, n)
	}
}

func (c *Columns) integers() [6]*[]int64 {
	return [6]*[]int64{&c.Count, &c.FirstMs, &c.LastMs, &c.NaNs, &c.Resets, &c.Changes}
}

func (c *Columns) floats() [9]*[]float64 {
	return [9]*[]float64{&c.First, &c.Last, &c.Correction, &c.Sum, &c.SumLow, &c.Min, &c.Max, &c.Mean, &c.M2}
}

func zeroed[T any](s []T, n int) []T {
	s = slices.Grow(s[:0], n)[:n]
	clear(s)
	return s
}

// Len is the number of buckets.
func (c *Columns) Len() int { return len(c.Known) }

// State returns the state of bucket i. Fields outside c.Fields are zero.
func (c *Columns) State(i int) State {
	return State{
		Count: c.Count[i], NaNs: c.NaNs[i], FirstMs: c.FirstMs[i], LastMs: c.LastMs[i], First: c.First[i], Last: c.Last[i],
		Correction: c.Correction[i], Resets: c.Resets[i], Changes: c.Changes[i], Sum: c.Sum[i], SumLow: c.SumLow[i],
		Min: c.Min[i], Max: c.Max[i], Mean: c.Mean[i], M2: c.M2[i], Stale: c.Stale[i],
	}
}

// Set makes s the known state of bucket i.
func (c *Columns) Set(i int, s State) {
	c.Known[i] = true
	c.Count[i], c.NaNs[i], c.FirstMs[i], c.LastMs[i], c.First[i], c.Last[i] = s.Count, s.NaNs, s.FirstMs, s.LastMs, s.First, s.Last
	c.Correction[i], c.Resets[i], c.Changes[i], c.Sum[i], c.SumLow[i] = s.Correction, s.Resets, s.Changes, s.Sum, s.SumLow
	c.Min[i], c.Max[i], c.Mean[i], c.M2[i], c.Stale[i] = s.Min, s.Max, s.Mean, s.M2, s.Stale
}

// Unset makes bucket i unknown and empty.
func (c *Columns) Unset(i int) {
	c.Set(i, State{})
	c.Known[i] = false
}

// Join returns the state of buckets i to j−1. It ignores Known. Fields outside c.Fields are undefined.
func (c *Columns) Join(i, j int) State {
	var s State
	c.JoinTo(&s, i, j)
	return s
}

// JoinTo joins the fields of c.Fields of buckets i to j−1 to s, whose samples are earlier. It works column by column. The
// result has the same bits as [State.Append] bucket by bucket.
func (c *Columns) JoinTo(s *State, i, j int) {
	for ; s.Count == 0 && i < j; i++ {
		b := c.State(i)
		s.Append(&b, c.Fields)
	}
	stale := false // after the last sample
	for ; i < j && c.Count[j-1] == 0; j-- {
		stale = stale || c.Stale[j-1]
	}
	if i >= j {
		s.Stale = s.Stale || stale
		return
	}
	if c.Fields&(FieldCounter|FieldChanges) != 0 {
		c.joinSteps(s, i, j)
	}
	c.joinExtremes(s, i, j)
	if c.Fields&FieldSum != 0 {
		for k := i; k < j; k++ {
			if c.Count[k] > 0 {
				joinSum(s, c.Sum[k], c.SumLow[k])
			}
		}
	}
	moments := c.Fields&FieldMoments != 0
	for k, n := range c.Count[i:j] {
		if moments && n > 0 {
			joinMoments(s, n, c.Mean[i+k], c.M2[i+k])
		}
		s.Count += n
	}
	for _, n := range c.NaNs[i:j] {
		s.NaNs += n
	}
	s.LastMs, s.Last, s.Stale = c.LastMs[j-1], c.Last[j-1], c.Stale[j-1] || stale
}

// joinExtremes joins minimum and maximum.
func (c *Columns) joinExtremes(s *State, i, j int) {
	counts := c.Count[i:j]
	if c.Fields&FieldMin != 0 {
		for k, v := range c.Min[i:j] {
			if !(v >= s.Min) && counts[k] > 0 { // rare
				s.Min = lower(s.Min, v)
			}
		}
	}
	if c.Fields&FieldMax != 0 {
		for k, v := range c.Max[i:j] {
			if !(v <= s.Max) && counts[k] > 0 {
				s.Max = higher(s.Max, v)
			}
		}
	}
}

// joinSteps joins resets, changes and counter corrections, including those at the borders of buckets.
func (c *Columns) joinSteps(s *State, i, j int) {
	last := s.Last
	for ; i < j; i++ {
		if c.Count[i] == 0 {
			continue
		}
		s.Last = last
		s.step(c.First[i])
		s.Correction += c.Correction[i]
		s.Resets += c.Resets[i]
		s.Changes += c.Changes[i]
		last = c.Last[i]
	}
}

// Inside returns the range [i, j) of buckets inside the window (startMs, endMs]. If the state of a bucket is known, the
// times of its samples decide. A bucket that begins at startMs is inside if its first sample is later.
func (c *Columns) Inside(startMs, endMs int64) (i, j int) {
	n := int64(c.Len())
	first := (startMs - c.FromMs) / c.BucketMs // the bucket in which the window starts, or the first one
	if startMs < c.FromMs {
		first = 0
	}
	last := (endMs - c.FromMs) / c.BucketMs
	if endMs < c.FromMs || first >= n {
		return 0, 0
	}
	i, j = int(first), int(min(last, n-1))+1
	if i < j && !c.contained(i, startMs, endMs) {
		i++
	}
	if i < j && !c.contained(j-1, startMs, endMs) {
		j--
	}
	return i, max(i, j)
}

// contained reports whether all samples that bucket i has, or may have, are in the window.
func (c *Columns) contained(i int, startMs, endMs int64) bool {
	from := c.FromMs + int64(i)*c.BucketMs
	if from > startMs && from+c.BucketMs-1 <= endMs {
		return true
	}
	return c.Known[i] && c.Count[i] > 0 && c.FirstMs[i] > startMs && c.LastMs[i] <= endMs
}
