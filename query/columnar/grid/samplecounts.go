package grid

// SampleCounts counts the samples that an evaluation uses, for each step of its grid.
type SampleCounts struct {
	// Total and Fresh count samples for each step, like the engine's statistics. Total counts all samples of the step's
	// window. Fresh counts the samples that no earlier window has.
	Total, Fresh []int64
	// totalRuns and freshRuns are the amounts by which the counts change at a step.
	totalRuns, freshRuns []int64
}

// NewSampleCounts returns the counts of an evaluation that has not begun.
func NewSampleCounts(steps int) SampleCounts {
	n := steps
	counts := make([]int64, 4*n+2)
	return SampleCounts{
		Total: counts[:n], Fresh: counts[n : 2*n], totalRuns: counts[2*n : 3*n+1], freshRuns: counts[3*n+1:],
	}
}

// Spans counts n samples for each step in [from, end).
func (c *SampleCounts) Spans(from, end int, total, fresh int64) {
	c.totalRuns[from] += total
	c.totalRuns[end] -= total
	c.freshRuns[from] += fresh
	c.freshRuns[end] -= fresh
}

// Counts returns the samples of each step.
func (c *SampleCounts) Counts() (total, fresh []int64) {
	var moreTotal, moreFresh int64
	for k := range c.Total {
		moreTotal += c.totalRuns[k]
		moreFresh += c.freshRuns[k]
		c.Total[k] += moreTotal
		c.Fresh[k] += moreFresh
	}
	clear(c.totalRuns)
	clear(c.freshRuns)
	return c.Total, c.Fresh
}

// AddCounts adds the statistics of a part of the same grid.
func (c *SampleCounts) AddCounts(part *SampleCounts) {
	total, fresh := part.Counts()
	for k := range c.Total {
		c.Total[k] += total[k]
		c.Fresh[k] += fresh[k]
	}
}

// CountOnce adds the statistics of an operand that was evaluated once: every step has its samples, but they
// were read once.
func (c *SampleCounts) CountOnce(once *SampleCounts) {
	total, fresh := once.Counts()
	for k := range c.Total {
		c.Total[k] += total[0]
	}
	c.Fresh[0] += fresh[0]
}

// CountTotal adds the samples of all windows, but no read samples.
func (c *SampleCounts) CountTotal(windows *SampleCounts) {
	total, _ := windows.Counts()
	for k := range c.Total {
		c.Total[k] += total[k]
	}
}

// CountSubquery adds the samples that a subquery on the grid inner has read for functions on the grid g. The samples of a
// subquery's step count at the first step of g whose window contains that step. Steps between windows do not count.
func (c *SampleCounts) CountSubquery(g Grid, subquery *SampleCounts, inner Grid, offsetMs, rangeMs int64) {
	_, fresh := subquery.Counts()
	for i, n := range fresh {
		if n == 0 {
			continue
		}
		k := 0
		if g.Steps > 1 {
			atMs := inner.At(i) + offsetMs
			if atMs > g.StartMs {
				k = min(int((atMs-g.StartMs+g.StepMs-1)/g.StepMs), g.Steps-1)
			}
			if atMs <= g.At(k)-rangeMs {
				continue
			}
		}
		c.Fresh[k] += n
	}
}
