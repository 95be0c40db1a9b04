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
	sum, difference, product, quotient := joinFunction("+"), joinFunction("-"), joinFunction("*"), joinFunction("/")
	return map[string]Function{
		"alias": alias, "scale": scale, "absolute": absolute, "movingAverage": movingAverage,
		"highestCurrent": highest(func(s *Series) float64 { return s.double(s.Len() - 1) }),
		"highestMax":     highest(func(s *Series) float64 { return slices.Max(s.doubles()) }),
		"shift":          shift, "timeShift": shift, "firstDiff": firstDifference,
		"sumSeries": sum, "sum": sum, "diffSeries": difference, "difference": difference,
		"multiplySeries": product, "multiply": product, "divideSeries": quotient, "divide": quotient,
	}
}

var errNoParameter = errors.New("the parameter is missing")

// alias renames series. In the new name, @key stands for the value of the tag with this key.
func alias(args [][]Series, params []string, _ Hold) ([]Series, error) {
	if len(params) == 0 {
		return nil, errNoParameter
	}
	template := unquote(strings.Join(params, ","))
	out := slices.Concat(args...)
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

// unquote removes the quotes around a parameter.
func unquote(text string) string {
	if len(text) > 1 && (text[0] == '\'' || text[0] == '"') && text[len(text)-1] == text[0] {
		return text[1 : len(text)-1]
	}
	return text
}

// scale multiplies values. Integers stay integers if the factor is an integer.
func scale(args [][]Series, params []string, _ Hold) ([]Series, error) {
	if len(params) == 0 {
		return nil, errNoParameter
	}
	factor, err := strconv.ParseFloat(params[0], 64)
	if err != nil || math.IsNaN(factor) || math.IsInf(factor, 0) {
		return nil, fmt.Errorf("the factor %q is not a number", params[0])
	}
	return mapSeries(args, func(s *Series) aggregation.Result {
		if s.Integers != nil && math.Floor(factor) == factor {
			return mapIntegers(s, func(v int64) int64 { return int64(factor) * v })
		}
		return mapDoubles(s, func(v float64) float64 { return factor * v })
	}), nil
}

func absolute(args [][]Series, _ []string, _ Hold) ([]Series, error) {
	return mapSeries(args, func(s *Series) aggregation.Result {
		if s.Integers != nil {
			return mapIntegers(s, func(v int64) int64 { return max(v, -v) })
		}
		return mapDoubles(s, math.Abs)
	}), nil
}

// mapSeries replaces the points of each series.
func mapSeries(args [][]Series, points func(*Series) aggregation.Result) []Series {
	out := slices.Concat(args...)
	for i := range out {
		out[i].Result = points(&out[i])
	}
	return out
}

func mapIntegers(s *Series, f func(int64) int64) aggregation.Result {
	a := aggregation.Result{TsMs: s.TsMs, Integers: make([]int64, s.Len()), Interpolated: s.Interpolated}
	for i, v := range s.Integers {
		a.Integers[i] = f(v)
	}
	return a
}

func mapDoubles(s *Series, f func(float64) float64) aggregation.Result {
	a := aggregation.Result{TsMs: s.TsMs, Doubles: make([]float64, s.Len()), Interpolated: s.Interpolated}
	for i := range a.Doubles {
		a.Doubles[i] = f(s.double(i))
	}
	return a
}

// firstDifference returns each value minus the previous one. The first result is 0.
func firstDifference(args [][]Series, _ []string, _ Hold) ([]Series, error) {
	return mapSeries(args, func(s *Series) aggregation.Result {
		before := math.NaN()
		if s.Len() > 0 {
			before = s.double(0)
		}
		return mapDoubles(s, func(v float64) float64 {
			difference := v - before
			before = v
			return difference
		})
	}), nil
}

// shift moves the points of the first argument to a later time. The caller drops points outside the query's range.
func shift(args [][]Series, params []string, _ Hold) ([]Series, error) {
	if len(params) == 0 {
		return nil, errNoParameter
	}
	byMs, err := parseWindow(params[0])
	if err != nil {
		return nil, err
	}
	return mapSeries(args[:min(1, len(args))], func(s *Series) aggregation.Result {
		a := s.Result
		a.TsMs = make([]int64, s.Len())
		for i, tsMs := range s.TsMs {
			a.TsMs[i] = tsMs + byMs
		}
		return a
	}), nil
}

// parseWindow parses a duration such as '10min' into milliseconds. The quotes are part of the text.
func parseWindow(text string) (int64, error) {
	found := regexp.MustCompile(`^'([0-9]{1,9})\s*([a-z]+)'$`).FindStringSubmatch(text)
	if found == nil {
		return 0, fmt.Errorf("the duration %s does not have a form such as '10min'", text)
	}
	unitMs := map[string]int64{
		"s": 1000, "sec": 1000, "m": 60_000, "min": 60_000, "h": 3600_000, "hr": 3600_000, "hour": 3600_000, "d": 864e5,
		"day": 864e5, "days": 864e5, "w": 7 * 864e5, "week": 7 * 864e5, "weeks": 7 * 864e5,
	}[found[2]]
	count, err := strconv.ParseInt(found[1], 10, 64)
	if err != nil || unitMs == 0 || count == 0 {
		return 0, fmt.Errorf("the duration %s is zero or has an unknown unit", text)
	}
	return count * unitMs, nil
}

// averageWorkMax bounds the additions of movingAverage.
const averageWorkMax = 1e9

// movingAverage averages the last points. The window is a number of points or a duration. The average is 0 until the series
// fills the window.
func movingAverage(args [][]Series, params []string, _ Hold) ([]Series, error) {
	if len(params) == 0 {
		return nil, errNoParameter
	}
	var points int
	var windowMs int64
	var err error
	if strings.HasPrefix(params[0], "'") {
		windowMs, err = parseWindow(params[0])
	} else if points, err = strconv.Atoi(params[0]); err != nil || points <= 0 {
		err = fmt.Errorf("the window %q is neither a positive number of points nor a duration such as '10min'", params[0])
	}
	if err != nil {
		return nil, err
	}
	for _, s := range slices.Concat(args...) {
		if n := float64(s.Len()); n*min(n, max(float64(points), float64(windowMs))) > averageWorkMax {
			return nil, fmt.Errorf("the window %s over %d points costs too much; use a shorter window or fewer points", params[0],
				s.Len())
		}
	}
	return mapSeries(args, func(s *Series) aggregation.Result {
		i := -1
		return mapDoubles(s, func(float64) float64 {
			i++
			if windowMs > 0 {
				return averageOfTime(s, i, windowMs)
			}
			return averageOfPoints(s, i, points)
		})
	}), nil
}

// averageOfPoints averages the last n numbers up to point i, without NaN. It returns 0 if there are fewer.
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

// averageOfTime averages the numbers of the last windowMs milliseconds up to point i, without NaN. It returns 0 if the series
// does not reach back that far.
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

// highest returns a function that keeps the n series with the highest score. It drops series without points.
func highest(score func(*Series) float64) Function {
	return func(args [][]Series, params []string, _ Hold) ([]Series, error) {
		if len(params) == 0 {
			return nil, errNoParameter
		}
		n, err := strconv.Atoi(params[0])
		if err != nil || n < 1 {
			return nil, fmt.Errorf("the number of series %q is not a positive integer", params[0])
		}
		out := slices.DeleteFunc(slices.Concat(args...), func(s Series) bool { return s.Len() == 0 })
		slices.SortStableFunc(out, func(a, b Series) int { return cmp.Compare(score(&b), score(&a)) })
		return out[:min(n, len(out))], nil
	}
}

// seriesMin and seriesMax bound the arguments of joining functions.
const seriesMin, seriesMax = 2, 26

// joinFunction returns a function that joins the series of its arguments by their tags and combines their values with op. A
// missing value counts as 0.
func joinFunction(op string) Function {
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
