package query_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"

	"halite/ingest"
)

const (
	hourMs = int64(3_600_000)
	// dataFrom is three hours before a midnight, dataTo four hours after it.
	dataFrom = int64(20_000)*24*hourMs + 21*hourMs
	dataTo   = dataFrom + 7*hourMs
)

// dataset is the final series, sorted by labels, with ascending times.
type dataset []dataSeries

type dataSeries struct {
	labels labels.Labels
	tsMs   []int64
	values []float64
}

// newDataset makes counters with resets, gauges with special values, classic histograms and sparse series. Each series has its
// own interval, jitter, gaps, begin and end.
func newDataset(rng *rand.Rand) dataset {
	var d dataset
	for i := range 10 {
		ls := labels.FromStrings("__name__", "c_total", "job", fmt.Sprint(i%3), "inst", fmt.Sprint(i))
		total := 0.0
		d = append(d, newSeries(rng, ls, 15_000, func() float64 {
			total += rng.Float64() * 10
			if rng.IntN(200) == 0 {
				total = rng.Float64()
			}
			return total
		}))
	}
	for i := range 10 {
		ls := labels.FromStrings("__name__", "g", "job", fmt.Sprint(i%3), "inst", fmt.Sprint(i), "zone", "abc"[i%3:i%3+1])
		d = append(d, newSeries(rng, ls, 30_000, func() float64 {
			if rng.IntN(100) == 0 {
				return []float64{math.NaN(), math.Inf(1), math.Inf(-1), math.Copysign(0, -1)}[rng.IntN(4)]
			}
			return rng.NormFloat64() * 1000
		}))
	}
	for _, job := range []string{"0", "1"} {
		d = append(d, newHistogram(rng, job)...)
	}
	d = append(d, newOddHistogram(rng)...)
	for i := range 3 {
		ls := labels.FromStrings("__name__", "info", "inst", fmt.Sprint(i), "version", fmt.Sprint(rng.IntN(3)))
		d = append(d, newSeries(rng, ls, 60_000, func() float64 { return 1 }))
	}
	for i := range 3 {
		ls := labels.FromStrings("__name__", "sparse", "inst", fmt.Sprint(i))
		d = append(d, newSeries(rng, ls, 7*60_000, rng.Float64))
	}
	slices.SortFunc(d, func(a, b dataSeries) int { return labels.Compare(a.labels, b.labels) })
	return d
}

func newSeries(rng *rand.Rand, ls labels.Labels, intervalMs int64, next func() float64) dataSeries {
	s := dataSeries{labels: ls}
	jitter := int64(0)
	if rng.IntN(2) == 0 {
		jitter = intervalMs / 10
	}
	from, to := dataFrom, dataTo
	if rng.IntN(4) == 0 {
		from += rng.Int64N(3 * hourMs)
	}
	if rng.IntN(4) == 0 {
		to -= rng.Int64N(3 * hourMs)
	}
	for ts := from; ts < to; ts += intervalMs {
		v := next()
		if rng.IntN(150) == 0 {
			v = math.Float64frombits(value.StaleNaN)
		}
		s.tsMs = append(s.tsMs, ts+rng.Int64N(jitter+1))
		s.values = append(s.values, v)
		if rng.IntN(120) == 0 {
			ts += rng.Int64N(hourMs/2) / intervalMs * intervalMs
		}
	}
	return s
}

// newHistogram makes a classic histogram whose buckets are consistent at every scrape.
func newHistogram(rng *rand.Rand, job string) dataset {
	bounds := []string{"0.1", "0.5", "1", "5", "+Inf"}
	d := make(dataset, len(bounds))
	counts := make([]float64, len(bounds))
	for i, le := range bounds {
		d[i].labels = labels.FromStrings("__name__", "h_bucket", "job", job, "le", le)
	}
	for ts := dataFrom; ts < dataTo; ts += 20_000 {
		total := 0.0
		for i := range bounds {
			counts[i] += float64(rng.IntN(9))
			total += counts[i]
			d[i].tsMs = append(d[i].tsMs, ts)
			d[i].values = append(d[i].values, total)
		}
	}
	return d
}

// newOddHistogram makes a classic histogram with inconsistent buckets, missing samples, resets, and a bound that is not a number.
func newOddHistogram(rng *rand.Rand) dataset {
	var d dataset
	for _, le := range []string{"0.5", "1", "1.0", "7", "+Inf", "many"} {
		total := 0.0
		s := newSeries(rng, labels.FromStrings("__name__", "odd_bucket", "job", "1", "le", le), 30_000, func() float64 {
			total += float64(rng.IntN(20))
			if rng.IntN(300) == 0 {
				total = 0
			}
			return total
		})
		d = append(d, s)
	}
	return d
}

// history returns writes that result in the dataset. They are in any order, and some samples first have another value.
func (d dataset) history(rng *rand.Rand) []ingest.Sample {
	var first, last []ingest.Sample
	for _, s := range d {
		for i, ts := range s.tsMs {
			last = append(last, ingest.Sample{Labels: s.labels, TsMs: ts, Value: s.values[i]})
			if rng.IntN(50) == 0 {
				first = append(first, ingest.Sample{Labels: s.labels, TsMs: ts, Value: rng.Float64()})
			}
		}
	}
	// Mostly in order of time, with a tenth of the samples late.
	slices.SortStableFunc(last, func(a, b ingest.Sample) int { return int(a.TsMs - b.TsMs) })
	var onTime, late []ingest.Sample
	for _, s := range last {
		if rng.IntN(10) == 0 {
			late = append(late, s)
		} else {
			onTime = append(onTime, s)
		}
	}
	rng.Shuffle(len(late), func(i, j int) { late[i], late[j] = late[j], late[i] })
	return slices.Concat(first, onTime, late)
}

// exprs generates random expressions.
type exprs struct {
	*rand.Rand
	histograms bool // half of the selectors select metrics with histograms
	subqueries bool // half of the vectors are functions over subqueries
}

func pick[T any](g exprs, from ...T) T { return from[g.IntN(len(from))] }

func (g exprs) duration() string { return pick(g, "1m", "2m", "5m", "10m", "37m", "1h", "2h30m") }

// modifiers generates offset and @ for selectors and subqueries.
func (g exprs) modifiers() string {
	out := ""
	if g.IntN(6) == 0 {
		out += " offset " + pick(g, "1m", "-3m", "1h", "17s")
	}
	if g.IntN(10) == 0 {
		out += " @ " + pick(g, "start()", "end()", fmt.Sprint(float64(dataFrom+g.Int64N(8*hourMs))/1000))
	}
	return out
}

func (g exprs) series() string {
	name := pick(g, "c_total", "c_total", "c_total", "g", "g", "g", "sparse", "h_bucket", "info", "odd_bucket", "none")
	matcher := pick(g, "", "", "",
		`{job="1"}`, `{job!="1"}`, `{inst=~"[1-4]"}`, `{inst!~"[1-4]"}`, `{zone="a"}`, `{zone=""}`)
	if g.histograms && g.IntN(2) == 0 {
		return pick(g, histogramMetrics...) + pick(g, "", "", `{job="1"}`, `{inst!~"[1-4]"}`)
	}
	switch g.IntN(20) {
	case 0:
		return `{__name__=~"c.*|g",job="2"}`
	case 1:
		return `{__name__=~"info|sparse"}`
	}
	return name + matcher
}

func (g exprs) labels() string {
	if g.IntN(10) == 0 {
		return "__name__, job"
	}
	return strings.Join([]string{"job", "inst", "zone", "le"}[:g.IntN(5)], ",")
}

// vector generates an expression of type instant vector with at most depth levels.
func (g exprs) vector(depth int) string {
	if depth == 0 {
		return g.series() + g.modifiers()
	}
	if g.subqueries && g.IntN(2) == 0 {
		return g.overSubquery(depth)
	}
	switch g.IntN(9) {
	case 0:
		return g.series() + g.modifiers()
	case 1, 2:
		return g.overRange(g.series() + "[" + g.duration() + "]" + g.modifiers())
	case 3:
		return g.overSubquery(depth)
	case 4, 5:
		return g.aggregate(depth)
	case 6:
		return g.function(g.vector(depth - 1))
	case 7:
		return g.binary(depth)
	default:
		by := pick(g, "h_bucket", "rate(h_bucket[5m])", "sum by (le) (rate(h_bucket[10m]))", "sum by (le,job) (h_bucket)",
			"odd_bucket", "rate(odd_bucket[5m])", "max without (job) ({__name__=~'.*_bucket'})", "sum by (le) (g)")
		q := pick(g, fmt.Sprintf("%.2f", g.Float64()*1.2-0.1), "scalar(sparse{inst='1'})", "0.9")
		return fmt.Sprintf("histogram_quantile(%s, %s)", q, by)
	}
}

// overSubquery generates a function over a subquery, either one that dashboards use or any.
func (g exprs) overSubquery(depth int) string {
	inner := g.subject(depth)
	function := pick(g, "rate", "increase", "max_over_time", "avg_over_time")
	rate := function + "(" + g.series() + "[" + g.duration() + "]" + g.modifiers() + ")"
	switch g.IntN(7) {
	case 0:
		inner = rate
	case 1:
		inner = "(rate(c_total[5m]) / on (inst) group_right () rate(" + pick(g, "c_total", "g") + "[10m]))"
	case 2:
		inner = "sum by (" + g.labels() + ") (" + rate + ")"
	case 3:
		inner = "(" + rate + pick(g, " > ", " <= bool ", " >= bool ", " == ") + fmt.Sprintf("%.1f", g.Float64()*3) + ")"
	case 4:
		inner = "(" + g.series() + g.modifiers() + ")"
	}
	window := pick(g, "1m", "5m", "20m", "1h", "2h30m") + ":" + pick(g, "", "17s", "30s", "1m", "5m", "7m")
	return g.overRange(inner + "[" + window + "]" + g.modifiers())
}

func (g exprs) subject(depth int) string { return "(" + g.vector(depth-1) + ")" }

func (g exprs) overRange(matrix string) string {
	switch g.IntN(12) {
	case 0:
		return fmt.Sprintf("quantile_over_time(%.2f, %s)", g.Float64(), matrix)
	case 2:
		return fmt.Sprintf("double_exponential_smoothing(%s, 0.%d, 0.%d)", matrix, 1+g.IntN(9), g.IntN(10))
	case 1:
		return fmt.Sprintf("predict_linear(%s, %d)", matrix, g.IntN(3600))
	}
	return pick(g, "rate", "rate", "increase", "delta", "irate", "idelta", "deriv", "resets", "changes", "avg_over_time",
		"min_over_time", "max_over_time", "sum_over_time", "count_over_time", "last_over_time", "first_over_time",
		"present_over_time", "stddev_over_time", "stdvar_over_time", "mad_over_time", "absent_over_time",
		"ts_of_max_over_time", "ts_of_min_over_time", "ts_of_first_over_time", "ts_of_last_over_time") +
		"(" + matrix + ")"
}

func (g exprs) aggregate(depth int) string {
	inner := g.vector(depth - 1)
	by := pick(g, "", " by ("+g.labels()+")", " without ("+g.labels()+")")
	switch g.IntN(8) {
	case 7:
		// The order of other operands is not defined.
		return fmt.Sprintf("limitk%s (%d, %s)", by, g.IntN(5), pick(g, "c_total", "g", "rate(c_total[5m])", "g{job='1'} offset 1m"))
	case 6:
		return fmt.Sprintf(`count_values%s ("%s", round(%s, 100))`, by, pick(g, "v", "v", "job"), inner)
	case 0:
		// Prometheus may take any of equal values, including NaN. So the operand has values that are never equal.
		inner = pick(g, "c_total", "rate(c_total[5m])", "increase(c_total[37m])", "avg_over_time(c_total[10m:1m])")
		return fmt.Sprintf("%s%s (%d, %s)", pick(g, "topk", "bottomk"), by, g.IntN(5), inner)
	case 1:
		return fmt.Sprintf("quantile%s (%.2f, %s)", by, g.Float64()*1.2-0.1, inner)
	}
	op := pick(g, "sum", "sum", "avg", "min", "max", "count", "group", "stddev", "stdvar")
	if strings.HasPrefix(op, "std") && (strings.Contains(inner, "ts_of_") || strings.Contains(inner, "timestamp")) {
		// Timestamps are so large that their deviation depends on the order of the sum, which is undefined.
		inner = "(" + inner + ") % 1000"
	}
	for _, name := range []string{"predict_linear", "deriv", "stddev_over", "stdvar_over"} {
		if strings.HasPrefix(op, "std") && strings.Contains(inner, name) {
			op = "avg" // the operand is equal only to 1e-13, and the deviation of similar values may amplify the difference
		}
	}
	return op + by + " (" + inner + ")"
}

func (g exprs) function(inner string) string {
	if g.histograms && g.IntN(2) == 0 {
		switch g.IntN(4) {
		case 0:
			return fmt.Sprintf("histogram_quantile(%.2f, %s)", g.Float64(), inner)
		case 1:
			return fmt.Sprintf("histogram_fraction(%.1f, %.1f, %s)", g.Float64(), g.Float64()*9, inner)
		}
		return pick(g, "histogram_count", "histogram_sum", "histogram_avg", "histogram_stddev", "histogram_stdvar") + "(" + inner + ")"
	}
	switch g.IntN(12) {
	case 0:
		return fmt.Sprintf("clamp(%s, %d, %d)", inner, -g.IntN(300), g.IntN(300)-10)
	case 4:
		return fmt.Sprintf("%s(%s, %s)", pick(g, "clamp_min", "clamp_max"), inner, pick(g, "0", "scalar(g{inst='1'})", "time() % 100"))
	case 5:
		return "label_replace(" + inner + `, "__name__", "new_$1", "job", "(.*)")`
	case 6:
		return "vector(scalar(" + inner + "))"
	case 1:
		return "label_replace(" + inner + `, "x", "$1-y", "inst", "(.)")`
	case 2:
		return "label_join(" + inner + `, "x", "/", "job", "inst")`
	case 3:
		return "round(" + inner + ", 0.5)"
	case 7:
		return pick(g, "sort_by_label", "sort_by_label_desc") + "(" + inner + `, "inst", "job")`
	}
	return pick(g, "abs", "ceil", "floor", "sgn", "sqrt", "exp", "ln", "timestamp", "-", "absent", "sort", "sort_desc",
		"minute", "hour", "day_of_week", "days_in_month", "year", "log2", "log10", "atan", "asinh", "tanh", "acosh", "deg",
		"max_of(scalar(sparse), 3) + ", "scalar(sparse) + ") +
		"(" + inner + ")"
}

func (g exprs) binary(depth int) string {
	left, right := g.subject(depth), g.subject(depth)
	op := pick(g, "+", "-", "*", "/", "%", "^", "atan2")
	comparison := pick(g, ">", "<", ">=", "<=", "==", "!=") + pick(g, "", " bool")
	switch g.IntN(11) {
	case 6:
		return fmt.Sprintf("%.1f %s %s", g.NormFloat64()*100, pick(g, op, comparison), right)
	case 7:
		return left + " " + pick(g, op, comparison) + pick(g, " on (inst)", " ignoring (version, job, zone)") +
			" group_left (version) info"
	case 8:
		return "sum by (job) " + left + " " + pick(g, op, comparison) + " on (job) group_right () (" + g.series() + ")"
	case 9:
		return "rate(" + g.series() + "[5m]) " + pick(g, "or", "and", "unless") + " rate(" + g.series() + "[1h])"
	case 10:
		return left + " " + pick(g, op, comparison) + " (time() - " + fmt.Sprint(dataFrom/1000) + ")"
	case 0:
		return fmt.Sprintf("%s %s %.1f", left, pick(g, op, comparison), g.NormFloat64()*100)
	case 1:
		return left + " " + pick(g, "and", "or", "unless") + pick(g, "", " on (job)", " ignoring (zone)") + " " + right
	case 2:
		return left + " " + pick(g, op, comparison) + " on (inst, job) " + right
	case 3:
		return "(" + g.series() + ") " + op + " on (job) group_left () sum by (job) " + right
	case 4:
		return left + " " + pick(g, op, comparison) + " scalar(" + g.series() + ")"
	}
	return left + " " + pick(g, op, comparison) + " ignoring (zone, le) " + right
}
