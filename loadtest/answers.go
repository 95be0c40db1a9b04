package loadtest

import (
	"encoding/json"
	"fmt"
	"halite/loadtest/client"
	"math"
	"slices"
	"strings"
)

// matrix holds the points of each series by its labels, encoded as JSON.
type matrix map[string][]client.Point

// parseAnswer returns a []string for an answer with label values, else a matrix.
func parseAnswer(body []byte, labelValues bool) (any, error) {
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
		m[string(key)] = r.Values
	}
	return m, nil
}

// answerSize returns the number of series and points, or the number of label values for both.
func answerSize(answer any) (series, points int) {
	switch a := answer.(type) {
	case []string:
		return len(a), len(a)
	case matrix:
		for _, values := range a {
			points += len(values)
		}
		return len(a), points
	}
	return 0, 0
}

// describeDifference describes how b differs from the first target's answer a. It returns "" if they are equal.
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
			return "no answer"
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
		if _, ok := got[key]; !ok {
			missing++
			continue
		}
		values := make(map[int64]float64, len(got[key]))
		for _, p := range got[key] {
			values[p.TsMs] = p.Value
		}
		for _, p := range points {
			v, ok := values[p.TsMs]
			switch d := relativeDifference(p.Value, v); {
			case !ok:
				unmatched++
			case d > tolerance:
				off++
				worst = max(worst, d)
			}
		}
		unmatched += max(len(got[key])-len(points), 0)
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
