package operator

import (
	"math"
	"slices"
	"strconv"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser/posrange"
	"github.com/prometheus/prometheus/util/annotations"

	"halite/query/columnar/grid"
	"halite/query/columnar/window"
)

// histogramQuantile evaluates histogram_quantile over classic buckets.
type histogramQuantile struct {
	q      Scalar
	qPos   posrange.PositionRange
	child  Vector
	argPos posrange.PositionRange
}

func (n *histogramQuantile) names() grid.Naming { return grid.Nameless }

func (n *histogramQuantile) Describe(d *Description) {
	d.Node("histogram_quantile", n.child)
	n.q.Describe(d)
}

// bucketGroup is a classic histogram: buckets in the order of their bounds.
type bucketGroup struct {
	series  grid.Series
	buckets []bucketRow
	out     []float64
}

type bucketRow struct {
	bound float64
	row   []float64
}

func (n *histogramQuantile) Run(ev *Eval, emit emitFunc) error {
	before := ev.held
	var (
		q   []float64
		all *Matrix
	)
	// The engine merges the annotations of a step twice, which affects the count of occurrences in an annotation.
	var ofCall annotations.Annotations
	ofSteps, err := ev.CaptureAnnotations(func() (err error) {
		if q, err = ev.Number(n.q); err != nil {
			return err
		}
		all, err = ev.Collect(n.child)
		return err
	})
	if err != nil {
		return err
	}
	defer ev.free(all)
	groups, bad, err := n.groups(ev, all)
	if err != nil {
		return err
	}
	for k := range q {
		if err := ev.tick(); err != nil {
			return err
		}
		var annos annotations.Annotations
		if window.BadQuantile(q[k]) {
			annos.Add(annotations.NewInvalidQuantileWarning(q[k], n.qPos))
		}
		n.warnOfBounds(ev, k, all, bad, &annos)
		n.step(ev, k, q[k], groups, &annos)
		ofSteps.Merge(ofCall.Merge(annos))
	}
	ev.Annotations.Merge(ofSteps)
	return n.emitAll(ev, groups, before, emit)
}

func (n *histogramQuantile) emitAll(ev *Eval, groups []*bucketGroup, before int, emit emitFunc) error {
	// Here the engine holds the buckets, the quantiles, the result and one step of each.
	total := 0
	for _, g := range groups {
		total += grid.Count(g.out) + len(g.buckets) + 1
	}
	if err := ev.account(total + ev.Grid.Steps + 1); err != nil {
		return err
	}
	if err := ev.replace(before, 0); err != nil {
		return err
	}
	unique := NewDuplicateCheck(grid.AnyName)
	for _, g := range groups {
		present := grid.Count(g.out)
		if present == 0 {
			continue
		}
		if err := ev.account(present); err != nil {
			return err
		}
		if !ev.Opts.DelayedNames {
			if err := unique.Add(ev.Metric(g.series)); err != nil {
				return err
			}
		}
		if err := emit(g.series, g.out); err != nil {
			return err
		}
	}
	return nil
}

// groups joins buckets that differ only in their bound. bad holds the series whose bound is not a number.
func (n *histogramQuantile) groups(ev *Eval, all *Matrix) (out []*bucketGroup, bad []int, err error) {
	var (
		index = map[string]*bucketGroup{}
		buf   []byte
	)
	for i, s := range all.Series {
		s = ev.Metric(s)
		bound, err := strconv.ParseFloat(s.Labels.Get(labels.BucketLabel), 64)
		if err != nil {
			bad = append(bad, i)
			continue
		}
		if math.IsNaN(bound) {
			return nil, nil, ErrUndecided // NaN bounds have no order
		}
		buf = s.Labels.BytesWithoutLabels(buf, labels.BucketLabel)
		g, found := index[string(buf)]
		if !found {
			metric := labels.NewBuilder(s.Labels).Del(labels.BucketLabel).Labels()
			g = &bucketGroup{series: grid.Series{Labels: metric, Dropped: true}, out: make([]float64, ev.Grid.Steps)}
			grid.ClearRow(g.out)
			index[string(buf)] = g
			out = append(out, g)
		}
		g.buckets = append(g.buckets, bucketRow{bound, all.Rows[i]})
	}
	for _, g := range out {
		slices.SortStableFunc(g.buckets, func(a, b bucketRow) int {
			switch {
			case a.bound < b.bound:
				return -1
			case a.bound > b.bound:
				return 1
			}
			return 0
		})
	}
	return out, bad, nil
}

func (n *histogramQuantile) step(
	ev *Eval, k int, q float64, groups []*bucketGroup, annos *annotations.Annotations,
) {
	var buckets promql.Buckets
	for _, g := range groups {
		buckets = buckets[:0]
		for _, b := range g.buckets {
			if v := b.row[k]; !grid.IsAbsent(v) {
				buckets = append(buckets, promql.Bucket{UpperBound: b.bound, Count: v})
			}
		}
		if len(buckets) == 0 {
			continue
		}
		value, forced, _, minBucket, maxBucket, maxDiff := promql.BucketQuantile(q, buckets)
		if forced {
			name := ""
			if ev.Opts.DelayedNames {
				name = g.series.Labels.Get(model.MetricNameLabel)
			}
			annos.Add(annotations.NewHistogramQuantileForcedMonotonicityInfo(
				name, n.argPos, ev.Grid.At(k), minBucket, maxBucket, maxDiff))
		}
		g.out[k] = value
	}
}

// warnOfBounds adds a warning for each series that has a value at this step and whose bound is not a number.
func (n *histogramQuantile) warnOfBounds(
	ev *Eval, k int, all *Matrix, bad []int, annos *annotations.Annotations,
) {
	for _, b := range bad {
		if grid.IsAbsent(all.Rows[b][k]) {
			continue
		}
		ls := all.Series[b].Labels
		name := ""
		if ev.Opts.DelayedNames {
			name = ls.Get(model.MetricNameLabel)
		}
		annos.Add(annotations.NewBadBucketLabelWarning(name, ls.Get(labels.BucketLabel), n.argPos))
	}
}
