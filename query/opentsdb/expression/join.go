package expression

import (
	"math"
	"slices"
	"strings"

	"github.com/prometheus/prometheus/model/labels"

	"halite/query/opentsdb/aggregation"
)

// Variable is a name in a formula, and its series.
type Variable struct {
	Name   string
	Series []Combined
	// Fill replaces a value that is missing or NaN.
	Fill float64
	// QueryTags are the keys of the filters; nil if the variable is itself an expression.
	QueryTags []string
}

// Join is the rule for combining the series of variables: series with equal tags belong together.
type Join struct {
	// Intersection keeps only sets in which every variable has a series.
	Intersection bool
	// QueryTags compares only the tags of filters. AggregateTags also compares the keys of aggregated tags.
	QueryTags, AggregateTags bool
}

// Combined is an input or a result of a formula.
type Combined struct {
	// Metrics are the metrics from which it was computed, sorted.
	Metrics       []string
	Tags          []labels.Label
	AggregateTags []string
	TsMs          []int64
	Values        []float64
}

// Combine converts series into inputs of a formula.
func Combine(series []Series) []Combined {
	out := make([]Combined, 0, len(series))
	for i := range series {
		s := &series[i]
		out = append(out, Combined{
			Metrics: []string{s.Metric}, Tags: s.Tags, AggregateTags: s.AggregateTags, TsMs: s.TsMs, Values: s.doubles(),
		})
	}
	return out
}

// Apply joins the series of variables and evaluates the formula for each set of series. All results have the same times: each
// time at which any joined series has a point. variables have the order of f.Variables.
func (f *Formula) Apply(variables []Variable, j Join, hold Hold) ([]Combined, error) {
	sets := j.sets(variables)
	var used []aggregation.Points
	for _, set := range sets {
		for _, s := range set {
			if s != nil {
				used = append(used, aggregation.Points{TsMs: s.TsMs})
			}
		}
	}
	times := aggregation.Union(used)
	if err := hold(len(times) * len(sets)); err != nil {
		return nil, err
	}
	out := make([]Combined, 0, len(sets))
	for _, set := range sets {
		out = append(out, f.over(times, variables, set))
	}
	return out, nil
}

// over evaluates the formula over a set of series at the given times.
func (f *Formula) over(times []int64, variables []Variable, set []*Combined) Combined {
	c := emptySeriesOf(set)
	c.TsMs, c.Values = times, make([]float64, len(times))
	at, values := make([]int, len(set)), make([]float64, len(set))
	for i, tsMs := range times {
		for v, s := range set {
			values[v] = variables[v].Fill
			if s == nil {
				continue
			}
			for at[v] < len(s.TsMs) && s.TsMs[at[v]] < tsMs {
				at[v]++
			}
			if k := at[v]; k < len(s.TsMs) && s.TsMs[k] == tsMs && !math.IsNaN(s.Values[k]) {
				values[v] = s.Values[k]
			}
		}
		c.Values[i] = f.Eval(values)
	}
	return c
}

// Align gives all series of a variable the same times: each time at which any of them has a point. Fill replaces missing
// values.
func (v *Variable) Align(hold Hold) ([]Combined, error) {
	same := true
	for i := range v.Series {
		same = same && slices.Equal(v.Series[i].TsMs, v.Series[0].TsMs)
	}
	if same {
		return v.Series, nil
	}
	f := &Formula{Variables: []string{v.Name}, root: func(values []float64) float64 { return values[0] }}
	out := make([]Combined, 0, len(v.Series))
	points := make([]aggregation.Points, 0, len(v.Series))
	for i := range v.Series {
		points = append(points, aggregation.Points{TsMs: v.Series[i].TsMs})
	}
	times := aggregation.Union(points)
	if err := hold(len(times) * len(points)); err != nil {
		return nil, err
	}
	for i := range v.Series {
		one := *v
		one.Series = v.Series[i : i+1]
		out = append(out, f.over(times, []Variable{one}, []*Combined{&v.Series[i]}))
	}
	return out, nil
}

// sets joins series. Each set has one series for each variable, or nil if the variable has none.
func (j Join) sets(variables []Variable) [][]*Combined {
	var order []string
	byKey := map[string][]*Combined{}
	for v := range variables {
		for i := range variables[v].Series {
			s := &variables[v].Series[i]
			key := j.key(s, variables[v].QueryTags)
			if byKey[key] == nil {
				byKey[key] = make([]*Combined, len(variables))
				order = append(order, key)
			}
			byKey[key][v] = s
		}
	}
	slices.Sort(order)
	var out [][]*Combined
	for _, key := range order {
		if set := byKey[key]; !j.Intersection || !slices.Contains(set, nil) {
			out = append(out, set)
		}
	}
	return out
}

// key returns the key of a series. Series that belong together have equal keys.
func (j Join) key(s *Combined, queryTags []string) string {
	var b strings.Builder
	for _, t := range s.Tags {
		if !j.QueryTags || slices.Contains(queryTags, t.Name) {
			b.WriteString(t.Name + "\x00" + t.Value + "\x00")
		}
	}
	if j.AggregateTags {
		for _, name := range s.AggregateTags {
			b.WriteString("\x01" + name)
		}
	}
	return b.String()
}

// emptySeriesOf returns a series with the tags of the first series of a set, and with the metrics and aggregated tags of all.
func emptySeriesOf(set []*Combined) (c Combined) {
	first := true
	for _, s := range set {
		if s == nil {
			continue
		}
		if first {
			c.Tags, first = s.Tags, false
		}
		c.Metrics = append(c.Metrics, s.Metrics...)
		c.AggregateTags = append(c.AggregateTags, s.AggregateTags...)
	}
	slices.Sort(c.Metrics)
	slices.Sort(c.AggregateTags)
	c.Metrics, c.AggregateTags = slices.Compact(c.Metrics), slices.Compact(c.AggregateTags)
	return c
}
