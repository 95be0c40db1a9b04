package ingest

import (
	"cmp"
	"container/heap"
	"slices"
	"strings"
)

// RefusedSamples counts the refused samples of a metric.
type RefusedSamples struct {
	Metric  string `json:"metric"`
	Samples uint64 `json:"samples"`
	// Uncounted is the most that Samples lacks: too many metrics were refused to count each one from its first sample.
	Uncounted uint64 `json:"uncounted,omitempty"`
}

// metricCounts counts by metric in bounded memory, with the algorithm Space-Saving: a metric without a place takes that of
// the metric with the smallest sum of Samples and Uncounted, which it inherits as Uncounted. So metrics with large counts
// always have a place.
type metricCounts struct {
	most     int
	byMetric map[string]*metricCount
	heap     countHeap
}

type metricCount struct {
	RefusedSamples
	at int // place in the heap
}

func (e *metricCount) sum() uint64 { return e.Samples + e.Uncounted }

func newMetricCounts(most int) metricCounts {
	return metricCounts{most: most, byMetric: map[string]*metricCount{}}
}

func (c *metricCounts) add(metric string, n uint64) {
	e := c.byMetric[metric]
	switch {
	case e != nil:
	case len(c.heap) < c.most:
		e = &metricCount{RefusedSamples: RefusedSamples{Metric: strings.Clone(metric)}}
		c.byMetric[e.Metric] = e
		heap.Push(&c.heap, e)
	default:
		e = c.heap[0]
		delete(c.byMetric, e.Metric)
		e.Metric, e.Samples, e.Uncounted = strings.Clone(metric), 0, e.sum()
		c.byMetric[e.Metric] = e
	}
	e.Samples += n
	heap.Fix(&c.heap, e.at)
}

// largest returns the largest counts, at most so many.
func (c *metricCounts) largest(most int) []RefusedSamples {
	out := make([]RefusedSamples, 0, len(c.heap))
	for _, e := range c.heap {
		out = append(out, e.RefusedSamples)
	}
	slices.SortFunc(out, func(a, b RefusedSamples) int {
		return cmp.Or(cmp.Compare(b.Samples, a.Samples), cmp.Compare(a.Metric, b.Metric))
	})
	return slices.Clip(out[:min(most, len(out))])
}

// countHeap has the smallest sum first. It implements heap.Interface.
type countHeap []*metricCount

func (h countHeap) Len() int           { return len(h) }
func (h countHeap) Less(i, j int) bool { return h[i].sum() < h[j].sum() }
func (h countHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].at, h[j].at = i, j
}

func (h *countHeap) Push(x any) {
	e := x.(*metricCount)
	e.at = len(*h)
	*h = append(*h, e)
}

// Pop is never called: metrics are replaced, not removed.
func (h *countHeap) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}
