package opentsdb

import (
	"context"
	"fmt"
	"math"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"

	"halite/query"
	"halite/query/column"
	"halite/query/opentsdb/aggregation"
	"halite/query/opentsdb/request"
	"halite/query/read"
)

// subRun evaluates one sub-query.
type subRun struct {
	engine  *Engine
	query   *request.Query
	sub     *request.SubQuery
	reading *query.Reading
	within  aggregation.Range
	metric  string
	former  map[string][]string // tsuids of renamed series under their stored names, by tsuid in the response
	figures Figures
	rollup  string // interval of the stored rollups to read; "" for samples
}

// member is a series with its points.
type member struct {
	labels labels.Labels
	points aggregation.Points
	number int // index of the series, if it has histograms
}

func (r *subRun) evaluate(ctx context.Context) ([]Series, error) {
	before := r.reading.Figures()
	r.within = aggregation.RangeOf(r.query.StartMs, r.query.EndMs, r.sub.Down)
	out, err := r.evaluateAny(ctx)
	if err != nil {
		return nil, err
	}
	for i := range out {
		r.figures.Points += int64(out[i].Len())
	}
	after := r.reading.Figures()
	r.figures.Series = after.Series - before.Series
	r.figures.Samples, r.figures.Rows = after.Samples-before.Samples, after.Rows-before.Rows
	return out, nil
}

// evaluateSamples reads samples or histograms, not stored rollups.
func (r *subRun) evaluateSamples(ctx context.Context) ([]Series, error) {
	selection, err := r.selectSeries(ctx)
	if err != nil {
		return nil, err
	}
	defer selection.Close()
	if err := r.checkFill(selection.Len()); err != nil {
		return nil, err
	}
	if r.sub.Histograms() {
		return r.evaluateHistograms(ctx, selection)
	}
	return r.evaluateFloats(ctx, selection)
}

// evaluateFloats reads and aggregates floats.
func (r *subRun) evaluateFloats(ctx context.Context, selection *read.Selection) ([]Series, error) {
	members, err := r.read(ctx, selection)
	if err != nil {
		return nil, err
	}
	var out []Series
	for _, g := range divide(members, r.sub) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		out = append(out, r.aggregate(g))
	}
	return out, nil
}

// checkFill reserves memory for the points that the fill policy adds. It fails if they exceed a limit of the query.
func (r *subRun) checkFill(series int) error {
	if !r.fills() {
		return nil
	}
	intervals := (r.within.ReadToMs-r.within.ReadFromMs)/r.sub.Down.IntervalMs() + 1
	if intervals > math.MaxInt32 {
		return badRequest(fmt.Errorf("the fill policy makes %d intervals of %s: use longer intervals or a shorter range",
			intervals, r.sub.Downsample))
	}
	return r.reading.Hold(int(intervals) * series)
}

// fills reports whether the fill policy adds points. checkFill has reserved their memory.
func (r *subRun) fills() bool {
	return r.sub.Down != nil && !r.sub.Down.All && r.sub.Down.Fill != aggregation.FillNothing
}

// read reads all series, one slice of time after another, and transforms them. It omits series without samples.
func (r *subRun) read(ctx context.Context, selection *read.Selection) ([]member, error) {
	members := make([]member, 0, selection.Len())
	for batch := range selection.Batches() {
		transforms, err := r.readBatch(ctx, selection, batch)
		if err != nil {
			return nil, err
		}
		for _, t := range transforms {
			if t.transform == nil {
				continue
			}
			points := t.transform.Points()
			if !r.fills() {
				if err := r.reading.Hold(points.Len()); err != nil {
					return nil, err
				}
			}
			members = append(members, member{labels: r.responseLabels(t.labels), points: points})
		}
	}
	return members, nil
}

// transformedSeries is a series of a batch. transform is nil until a sample arrives. The budget holds memory for held samples.
type transformedSeries struct {
	labels    labels.Labels
	transform *aggregation.Transform
	held      int
}

// readBatch reads a batch of series.
func (r *subRun) readBatch(ctx context.Context, selection *read.Selection, batch int) ([]transformedSeries, error) {
	var out []transformedSeries
	var scratch sampleBuffer
	err := selection.ReadSlices(ctx, batch, func(slice *read.Batch) error {
		if out == nil {
			out = make([]transformedSeries, len(slice.Columns))
		}
		for i := range slice.Columns {
			if err := r.add(&out[i], &slice.Columns[i], &scratch); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for i := range out {
		r.reading.Budget().Release(int64(out[i].held) * column.SampleBytes)
	}
	return out, nil
}

// add passes the samples of a column to the transform of its series.
func (r *subRun) add(t *transformedSeries, c *column.Column, scratch *sampleBuffer) error {
	t.labels = c.Labels
	samples := &c.Samples
	for i := -1; ; samples = &c.Segments[i] {
		if tsMs, values := scratch.numbers(samples, r.sub.OffsetMs); len(tsMs) > 0 {
			if t.transform == nil {
				t.transform = aggregation.NewTransform(r.sub.Down, r.sub.Rate, r.within)
			}
			t.transform.Add(tsMs, values)
		}
		if i++; i == len(c.Segments) {
			break
		}
	}
	if t.transform == nil {
		return nil
	}
	more := t.transform.Held() - t.held
	t.held += more
	return r.reading.Budget().Reserve(int64(more) * column.SampleBytes)
}

// sampleBuffer is a buffer for samples without stale markers.
type sampleBuffer struct {
	tsMs   []int64
	values []float64
}

// numbers returns the samples without stale markers, with laterMs added to their times. The result is valid until the next
// call.
func (c *sampleBuffer) numbers(s *column.Samples, laterMs int64) ([]int64, []float64) {
	if s.NoStale && laterMs == 0 && s.TsMs != nil {
		return s.TsMs, s.Values
	}
	c.tsMs = s.AppendTimes(c.tsMs[:0], 0, s.Len())
	for i := range c.tsMs {
		c.tsMs[i] += laterMs
	}
	if s.NoStale {
		return c.tsMs, s.Values
	}
	times := c.tsMs
	c.tsMs, c.values = c.tsMs[:0], c.values[:0]
	for i, v := range s.Values {
		if !value.IsStaleNaN(v) {
			c.tsMs, c.values = append(c.tsMs, times[i]), append(c.values, v)
		}
	}
	return c.tsMs, c.values
}
