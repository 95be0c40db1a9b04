package expression

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"halite/query/opentsdb/aggregation"
)

// Hold reserves memory for points, or fails if there are too many.
type Hold func(points int) error

// Function computes series from the series of its arguments. params are the other arguments as unparsed text.
type Function func(args [][]Series, params []string, hold Hold) ([]Series, error)

// Functions returns the functions of /api/query/gexp by name.
func Functions() map[string]Function {
	sum, difference, product, quotient := joined("+"), joined("-"), joined("*"), joined("/")
	return map[string]Function{
		"alias": alias, "scale": scale, "absolute": absolute, "movingAverage": movingAverage,
		"highestCurrent": highest(func(s *Series) float64 { return s.double(s.Len() - 1) }),
		"highestMax":     highest(func(s *Series) float64 { return slices.Max(s.doubles()) }),
		"shift":          shift, "timeShift": shift, "firstDiff": firstDifference,
		"sumSeries": sum, "sum": sum, "diffSeries": difference, "difference": difference,
		"multiplySeries": product, "multiply": product, "divideSeries": quotient, "divide": quotient,
	}
}

// flat joins the series of all arguments.
func flat(args [][]Series) []Series { return slices.Concat(args...) }

var errNoParameter = errors.New("lacks its parameter")

// alias renames series: @key is replaced by the value of a tag.
func alias(args [][]Series, params []string, _ Hold) ([]Series, error) {
	if len(params) == 0 {
		return nil, errNoParameter
	}
	template := unquoted(strings.Join(params, ","))
	out := flat(args)
	for i := range out {
		s := &out[i]
		s.Metric = template
		// Replace the longest key first, so that @host does not replace a part of @hostname.
		tags := slices.Clone(s.Tags)
		slices.Reverse(tags)
		for _, t := range tags {
			s.Metric = strings.ReplaceAll(s.Metric, "@"+t.Name, t.Value)
		}
		s.Tags, s.AggregateTags = nil, nil
	}
	return out, nil
}

// unquoted removes the quotes around a parameter.
func unquoted(text string) string {
	if len(text) > 1 && (text[0] == '\'' || text[0] == '"') && text[len(text)-1] == text[0] {
		return text[1 : len(text)-1]
	}
	return text
}

// scale multiplies values. Integers stay integers if the factor is one.
func scale(args [][]Series, params []string, _ Hold) ([]Series, error) {
	if len(params) == 0 {
		return nil, errNoParameter
	}
	factor, err := strconv.ParseFloat(params[0], 64)
	if err != nil || math.IsNaN(factor) || math.IsInf(factor, 0) {
		return nil, fmt.Errorf("the factor %q is not a number", params[0])
	}
	return mapped(args, func(s *Series) aggregation.Answer {
		if s.Integers != nil && math.Floor(factor) == factor {
			return longs(s, func(v int64) int64 { return int64(factor) * v })
		}
		return reals(s, func(v float64) float64 { return factor * v })
	}), nil
}

func absolute(args [][]Series, _ []string, _ Hold) ([]Series, error) {
	return mapped(args, func(s *Series) aggregation.Answer {
		if s.Integers != nil {
			return longs(s, func(v int64) int64 { return max(v, -v) })
		}
		return reals(s, math.Abs)
	}), nil
}

// mapped replaces the points of each series.
func mapped(args [][]Series, points func(*Series) aggregation.Answer) []Series {
	out := flat(args)
	for i := range out {
		out[i].Answer = points(&out[i])
	}
	return out
}

func longs(s *Series, f func(int64) int64) aggregation.Answer {
	a := aggregation.Answer{TsMs: s.TsMs, Integers: make([]int64, s.Len()), Interpolated: s.Interpolated}
	for i, v := range s.Integers {
		a.Integers[i] = f(v)
	}
	return a
}

func reals(s *Series, f func(float64) float64) aggregation.Answer {
	a := aggregation.Answer{TsMs: s.TsMs, Doubles: make([]float64, s.Len()), Interpolated: s.Interpolated}
	for i := range a.Doubles {
		a.Doubles[i] = f(s.double(i))
	}
	return a
}

// firstDifference returns each value minus the previous one. The first result is 0.
func firstDifference(args [][]Series, _ []string, _ Hold) ([]Series, error) {
	return mapped(args, func(s *Series) aggregation.Answer {
		before := math.NaN()
		if s.Len() > 0 {
			before = s.double(0)
		}
		return reals(s, func(v float64) float64 {
			difference := v - before
			before = v
			return difference
		})
	}), nil
}

// shift moves the points of the first argument to a later time. Points outside the range of the query are dropped.
func shift(args [][]Series, params []string, _ Hold) ([]Series, error) {
	if len(params) == 0 {
		return nil, errNoParameter
	}
	byMs, err := window(params[0])
	if err != nil {
		return nil, err
	}
	return mapped(args[:min(1, len(args))], func(s *Series) aggregation.Answer {
		a := s.Answer
		a.TsMs = make([]int64, s.Len())
		for i, tsMs := range s.TsMs {
			a.TsMs[i] = tsMs + byMs
		}
		return a
	}), nil
}

// window parses a time such as '10min' in milliseconds.
func window(text string) (int64, error) {
	found := regexp.MustCompile(`^'([0-9]{1,9})\s*([a-z]+)'$`).FindStringSubmatch(text)
	if found == nil {
		return 0, fmt.Errorf("the time %s is not written as '10min'", text)
	}
	unitMs := map[string]int64{
		"s": 1000, "sec": 1000, "m": 60_000, "min": 60_000, "h": 3600_000, "hr": 3600_000, "hour": 3600_000, "d": 864e5,
		"day": 864e5, "days": 864e5, "w": 7 * 864e5, "week": 7 * 864e5, "weeks": 7 * 864e5,
	}[found[2]]
	count, err := strconv.ParseInt(found[1], 10, 64)
	if err != nil || unitMs == 0 || count == 0 {
		return 0, fmt.Errorf("the time %s has an unknown unit or no length", text)
	}
	return count * unitMs, nil
}

// averageWorkMax bounds the additions of movingAverage.
const averageWorkMax = 1e9

// movingAverage returns the average of the last points: of a number of points, or of a time. It is 0 until there are enough
// points.
func movingAverage(args [][]Series, params []string, _ Hold) ([]Series, error) {
	if len(params) == 0 {
		return nil, errNoParameter
	}
	var points int
	var windowMs int64
	var err error
	if strings.HasPrefix(params[0], "'") {
		windowMs, err = window(params[0])
	} else if points, err = strconv.Atoi(params[0]); err != nil || points <= 0 {
		err = fmt.Errorf("the window %q is neither a positive number of points nor a time such as '10min'", params[0])
	}
	if err != nil {
		return nil, err
	}
	for _, s := range flat(args) {
		if n := float64(s.Len()); n*min(n, max(float64(points), float64(windowMs))) > averageWorkMax {
			return nil, fmt.Errorf("the window %s over %d points costs too much; use a shorter window or fewer points", params[0],
				s.Len())
		}
	}
	return mapped(args, func(s *Series) aggregation.Answer {
		i := -1
		return reals(s, func(float64) float64 {
			i++
			if windowMs > 0 {
				return averageOfTime(s, i, windowMs)
			}
			return averageOfPoints(s, i, points)
		})
	}), nil
}

// averageOfPoints averages n numbers up to point i.
func averageOfPoints(s *Series, i, n int) float64 {
	sum, count := 0.0, 0
	for ; i >= 0 && count < n; i-- {
		if v := s.double(i); !math.IsNaN(v) {
			sum += v
			count++
		}
	}
	if count < n {
		return 0
	}
	return sum / float64(count)
}

// averageOfTime averages the numbers of the last windowMs milliseconds up to point i.
func averageOfTime(s *Series, i int, windowMs int64) float64 {
	sum, count := 0.0, 0
	for k := i; k >= 0; k-- {
		if s.TsMs[i]-s.TsMs[k] >= windowMs {
			if count == 0 {
				return 0
			}
			return sum / float64(count)
		}
		if v := s.double(k); !math.IsNaN(v) {
			sum += v
			count++
		}
	}
	return 0
}

// highest returns a function that keeps the n series with the highest score. Series without points have none.
func highest(score func(*Series) float64) Function {
	return func(args [][]Series, params []string, _ Hold) ([]Series, error) {
		if len(params) == 0 {
			return nil, errNoParameter
		}
		n, err := strconv.Atoi(params[0])
		if err != nil || n < 1 {
			return nil, fmt.Errorf("the number of series %q is not a positive integer", params[0])
		}
		out := slices.DeleteFunc(flat(args), func(s Series) bool { return s.Len() == 0 })
		slices.SortStableFunc(out, func(a, b Series) int { return cmp.Compare(score(&b), score(&a)) })
		return out[:min(n, len(out))], nil
	}
}

// seriesMin and seriesMax bound the arguments of joining functions.
const seriesMin, seriesMax = 2, 26

// joined returns a function that joins its arguments with an operator, by their tags. A missing value counts as 0.
func joined(op string) Function {
	return func(args [][]Series, _ []string, hold Hold) ([]Series, error) {
		if n := len(args); n < seriesMin || n > seriesMax {
			return nil, fmt.Errorf("must have 2 to 26 series, got %d instead", n)
		}
		names := make([]string, len(args))
		variables := make([]Variable, len(args))
		for i := range args {
			names[i] = string(rune('a' + i))
			variables[i] = Variable{Name: names[i], Series: Combine(args[i])}
		}
		f, err := ParseFormula(strings.Join(names, op))
		if err != nil {
			return nil, err
		}
		var out []Series
		combined, err := f.Apply(variables, Join{}, hold)
		if err != nil {
			return nil, err
		}
		for _, c := range combined {
			s := Series{Metric: c.Metrics[0], Tags: c.Tags, AggregateTags: c.AggregateTags}
			s.TsMs, s.Doubles = c.TsMs, c.Values
			out = append(out, s)
		}
		return out, nil
	}
}
