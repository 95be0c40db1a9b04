package loadtest

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	"halite/loadtest/client"
)

// matrix holds the points of each series by its labels, encoded as JSON.
type matrix map[string]points

// points are the floats and the native histograms of a series.
type points struct {
	floats     []client.Point
	histograms []client.HistogramPoint
}

func (p *points) count() int { return len(p.floats) + len(p.histograms) }

// parseResponse returns a []string for a response with label values, else a matrix.
func parseResponse(body []byte, labelValues bool) (any, error) {
	data, err := client.OpenEnvelope(body)
	if err != nil {
		return nil, err
	}
	if labelValues {
		var names []string
		if err := json.Unmarshal(data, &names); err != nil {
			return nil, fmt.Errorf("label values: %w", err)
		}
		slices.Sort(names)
		return names, nil
	}
	list, err := client.ParseResults(data)
	if err != nil {
		return nil, err
	}
	m := make(matrix, len(list))
	for _, r := range list {
		key, err := json.Marshal(r.Metric) // Marshal sorts the keys of maps
		if err != nil {
			return nil, err
		}
		if r.Value != nil {
			r.Values = append(r.Values, *r.Value)
		}
		if r.Histogram != nil {
			r.Histograms = append(r.Histograms, *r.Histogram)
		}
		m[string(key)] = points{r.Values, r.Histograms}
	}
	return m, nil
}

// responseSize returns the number of series and points, or the number of label values for both.
func responseSize(response any) (series, points int) {
	switch a := response.(type) {
	case []string:
		return len(a), len(a)
	case matrix:
		for _, of := range a {
			points += of.count()
		}
		return len(a), points
	}
	return 0, 0
}

// describeDifference describes how b differs from the first target's response a. It returns "" if they are equal.
func describeDifference(a, b any, tolerance float64) string {
	switch want := a.(type) {
	case []string:
		got, ok := b.([]string)
		if !ok || !slices.Equal(want, got) {
			return fmt.Sprintf("%d values, the first target has %d", len(got), len(want))
		}
	case matrix:
		got, ok := b.(matrix)
		if !ok {
			return "no response"
		}
		return describeMatrixDifference(want, got, tolerance)
	case nil:
		if b != nil {
			return "the first target did not answer"
		}
	}
	return ""
}

func describeMatrixDifference(want, got matrix, tolerance float64) string {
	missing, extra, unmatched, off, worst := 0, 0, 0, 0, 0.0
	for key, points := range want {
		others, ok := got[key]
		if !ok {
			missing++
			continue
		}
		differences := points.differences(&others)
		unmatched += max(points.count(), others.count()) - len(differences)
		for _, d := range differences {
			if d > tolerance {
				off++
				worst = max(worst, d)
			}
		}
	}
	for key := range got {
		if _, ok := want[key]; !ok {
			extra++
		}
	}
	var parts []string
	if missing+extra > 0 {
		parts = append(parts, fmt.Sprintf("series −%d +%d", missing, extra))
	}
	if unmatched > 0 {
		parts = append(parts, fmt.Sprintf("%d points unmatched", unmatched))
	}
	if off > 0 {
		parts = append(parts, fmt.Sprintf("%d points off by up to %.1g", off, worst))
	}
	return strings.Join(parts, ", ")
}

// differences returns the relative difference of each pair of points with the same time and kind.
func (p *points) differences(others *points) (list []float64) {
	floats := make(map[int64]float64, len(others.floats))
	for _, f := range others.floats {
		floats[f.TsMs] = f.Value
	}
	for _, f := range p.floats {
		if v, ok := floats[f.TsMs]; ok {
			list = append(list, relativeDifference(f.Value, v))
		}
	}
	histograms := make(map[int64]*client.HistogramPoint, len(others.histograms))
	for n := range others.histograms {
		histograms[others.histograms[n].TsMs] = &others.histograms[n]
	}
	for n := range p.histograms {
		if h, ok := histograms[p.histograms[n].TsMs]; ok {
			list = append(list, histogramDifference(&p.histograms[n], h))
		}
	}
	return list
}

// histogramDifference returns the largest relative difference of two histograms' counts, sums and buckets. It is 1 if their
// buckets have other bounds.
func histogramDifference(a, b *client.HistogramPoint) float64 {
	d := max(relativeDifference(a.Count, b.Count), relativeDifference(a.Sum, b.Sum))
	if len(a.Buckets) != len(b.Buckets) {
		return 1
	}
	for n, bucket := range a.Buckets {
		other := b.Buckets[n]
		if bucket.Bounds != other.Bounds {
			return 1
		}
		d = max(d, relativeDifference(bucket.From, other.From), relativeDifference(bucket.Upto, other.Upto),
			relativeDifference(bucket.Count, other.Count))
	}
	return d
}

// relativeDifference returns the difference of two values over the larger one. Equal values and two NaNs have none.
func relativeDifference(a, b float64) float64 {
	if a == b || math.IsNaN(a) && math.IsNaN(b) {
		return 0
	}
	d := math.Abs(a-b) / max(math.Abs(a), math.Abs(b))
	if math.IsNaN(d) || math.IsInf(d, 0) {
		return 1
	}
	return d
}
