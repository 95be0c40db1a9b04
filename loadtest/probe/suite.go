package probe

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/prometheus/promql/parser"
)

// Classes of the queries of a suite.
const (
	// ClassRange is a range query over all series of a metric.
	ClassRange = "range 6h"
	// ClassInstant is an instant query of one series.
	ClassInstant = "instant, one series"
	// ClassLookUp finds series and labels.
	ClassLookUp = "look-up"
)

const (
	suiteSpan = 6 * time.Hour
	suiteStep = time.Minute

	counters  = `node_cpu_seconds_total{job="$J"}`
	oneSeries = `node_cpu_seconds_total{job="$J",instance="$I",cpu="1",mode="user"}`
	buckets   = `sum by (le) (rate(app_request_duration_seconds_bucket{job="$J"}[5m]))`
	oneBucket = `rate(app_request_duration_seconds_bucket{job="$J",instance="$I"}[5m])`
)

// Suite returns a query for each function, operator, aggregation and modifier in the tables of the PromQL parser. It leaves out
// functions for native histograms only.
func Suite() []Query {
	var s suite
	for _, name := range slices.Sorted(maps.Keys(parser.Functions)) {
		s.function(parser.Functions[name])
	}
	for _, op := range slices.Sorted(maps.Values(parser.ItemTypeStr)) {
		s.item(op)
	}
	s.modifiers()
	s.lookUps()
	return s.queries
}

type suite struct{ queries []Query }

// add adds an expression as a range query of all series and as an instant query of one; $V is replaced by the selector.
// Aggregations keep responses small, so that the measurement shows the evaluation.
func (s *suite) add(name, expr string) {
	s.add2(name, strings.ReplaceAll(expr, "$V", counters), strings.ReplaceAll(expr, "$V", oneSeries))
}

func (s *suite) add2(name, rangeExpr, instantExpr string) {
	s.queries = append(s.queries,
		Query{Name: name, Class: ClassRange, expr: rangeExpr, span: suiteSpan, step: suiteStep},
		Query{Name: name, Class: ClassInstant, expr: instantExpr})
}

// function adds a call with arguments of the types that the table lists.
func (s *suite) function(f *parser.Function) {
	switch f.Name {
	case "histogram_avg", "histogram_count", "histogram_sum", "histogram_stddev", "histogram_stdvar":
		return // of native histograms only
	case "histogram_quantile":
		s.add2(f.Name, "histogram_quantile(0.9, "+buckets+")", "histogram_quantile(0.9, "+oneBucket+")")
		return
	case "histogram_quantiles":
		s.add2(f.Name, `histogram_quantiles(`+buckets+`, "q", 0.5, 0.9)`, `histogram_quantiles(`+oneBucket+`, "q", 0.5, 0.9)`)
		return
	case "histogram_fraction":
		s.add2(f.Name, "histogram_fraction(0, 0.1, "+buckets+")", "histogram_fraction(0, 0.1, "+oneBucket+")")
		return
	case "label_replace":
		s.add(f.Name, `count by (x) (label_replace($V, "x", "$1", "instance", "(.).*"))`)
		return
	case "label_join":
		s.add(f.Name, `count by (x) (label_join($V, "x", "-", "mode", "cpu"))`)
		return
	}
	var args []string
	for i, t := range f.ArgTypes {
		if f.Name == "info" && i > 0 {
			break // its second argument is a selector of labels only
		}
		switch t {
		case parser.ValueTypeVector:
			args = append(args, "$V")
		case parser.ValueTypeMatrix:
			args = append(args, "$V[1h]")
		case parser.ValueTypeString:
			args = append(args, `"instance"`)
		default:
			args = append(args, "0.5")
		}
	}
	call := f.Name + "(" + strings.Join(args, ", ") + ")"
	switch {
	case f.ReturnType == parser.ValueTypeScalar:
		s.add(f.Name, "sum($V * "+call+")")
	default:
		s.add(f.Name, "sum("+call+")")
	}
}

// item adds an operator or an aggregation.
func (s *suite) item(op string) {
	item := itemOf(op)
	switch {
	case item == parser.EQL_REGEX || item == parser.NEQ_REGEX || item == parser.TRIM_UPPER || item == parser.TRIM_LOWER ||
		item == parser.AT:
		// These are not binary operators of floats: two belong to matchers, two to native histograms, and @ is a modifier.
	case item.IsSetOperator():
		s.add(op, "sum($V "+op+" $V offset 5m)")
		s.add(op+" on", "sum($V "+op+" on (instance) node_load1)")
	case item.IsOperator():
		s.add(op+" number", "sum($V "+op+" 2)")
		s.add("number "+op, "sum(2 "+op+" $V)")
		s.add(op, "sum($V "+op+" ignoring (job) $V offset 5m)")
		s.add(op+" group_left", "sum($V "+op+" on (instance) group_left () node_load1)")
		if item.IsComparisonOperator() {
			s.add(op+" bool", "sum($V "+op+" bool 2)")
		}
	case item.IsAggregator():
		operand, rates := "$V", "rate($V[5m])"
		if item == parser.COUNT_VALUES {
			operand, rates = "round($V, 1e5)", "round(rate($V[5m]), 0.1)" // each value is a series
		}
		for _, grouping := range []string{"", " by (mode)", " without (cpu, mode)"} {
			s.add(op+grouping, op+grouping+" ("+aggregatorParam(item)+operand+")")
		}
		s.add(op+" of rates", op+" by (mode) ("+aggregatorParam(item)+rates+")")
	}
}

// itemOf is the type of an operator or aggregation.
func itemOf(text string) parser.ItemType {
	for item, s := range parser.ItemTypeStr {
		if s == text {
			return item
		}
	}
	return parser.ERROR
}

func aggregatorParam(item parser.ItemType) string {
	switch {
	case item == parser.COUNT_VALUES:
		return `"v", `
	case item == parser.QUANTILE || item == parser.LIMIT_RATIO:
		return "0.5, "
	case item.IsAggregatorWithParam():
		return "3, "
	}
	return ""
}

// modifiers adds queries with modifiers of selectors, of matching, and of whole queries.
func (s *suite) modifiers() {
	for _, m := range [][2]string{
		{"selector", "sum($V)"},
		{"offset", "sum($V offset 1h)"},
		{"negative offset", "sum($V offset -5m)"},
		{"range offset", "sum(rate($V[5m] offset 1h))"},
		{"@ start", "sum($V @ start())"},
		{"@ end", "sum($V @ end())"},
		{"range @ end", "sum(rate($V[5m] @ end()))"},
		{"anchored", "sum(rate($V[5m] anchored))"},
		{"smoothed", "sum(rate($V[5m] smoothed))"},
		{"minus", "sum(-$V)"},
		{"ignoring", "sum($V / ignoring (job) $V)"},
		{"on", "sum($V / on (instance, cpu, mode) $V)"},
		{"group_right", "sum(node_load1 * on (instance) group_right () $V)"},
		{"group_left with labels", "sum by (cpu) ($V * on (instance) group_left (__name__) node_load1)"},
		{"fill", "sum($V + fill (0) $V offset 5m)"},
		{"fill_left", "sum($V + fill_left (0) $V offset 5m)"},
		{"fill_right", "sum($V + fill_right (0) $V offset 5m)"},
		{"bool", "sum($V > bool $V offset 5m)"},
		{"subquery", "sum(max_over_time($V[1h:1m]))"},
		{"subquery of a rate", "sum(max_over_time(rate($V[5m])[1h:1m]))"},
		{"subquery of a sum", "max_over_time(sum(rate($V[5m]))[1h:1m])"},
		{"subquery of a comparison", "sum(count_over_time((rate($V[5m]) > 0.3)[1h:1m]))"},
		{"subquery with bool", "sum(avg_over_time((rate($V[5m]) > bool 0.3)[1h:1m]))"},
		{"nested subqueries", "max_over_time(deriv(sum(rate($V[5m]))[10m:1m])[30m:5m])"},
		{"subquery, default step", "sum(sum_over_time($V[30m:]))"},
		{"subquery offset", "sum(max_over_time($V[30m:1m] offset 1h))"},
		{"z-score", "sum(($V - avg_over_time($V[1h])) / stddev_over_time($V[1h]))"},
		{"matchers", `sum($V{mode!="idle",cpu=~"1|2",instance!~".*9:.*"})`},
		{"rate by", "sum by (instance, mode) (rate($V[5m]))"},
		{"ratio", `sum(rate($V{mode="user"}[5m])) / sum(rate($V[5m]))`},
	} {
		// A selector has one pair of braces.
		s.add(m[0], m[1])
		for i := len(s.queries) - 2; i < len(s.queries); i++ {
			s.queries[i].expr = strings.ReplaceAll(s.queries[i].expr, "}{", ",")
		}
	}
}

// lookUps adds queries that find series rather than samples.
func (s *suite) lookUps() {
	for _, q := range [][2]string{
		{"names of a host", `count by (__name__) ({job="$J",instance="$I"})`},
		{"instances by regular expression", `count({__name__="node_load1",instance=~".*1.*"})`},
		{"all names of instances by regular expression", `count by (__name__) ({job="$J",instance=~".*1.*"})`},
		{"instances that do not match", `count({__name__="node_load1",instance!~".*1.*"})`},
		{"absent", `absent(node_load1{job="$J",instance="none"})`},
		{"absent_over_time", `absent_over_time(node_load1{job="$J",instance="none"}[1h])`},
	} {
		s.queries = append(s.queries, Query{Name: q[0], Class: ClassLookUp, expr: q[1]})
	}
	s.queries = append(s.queries,
		Query{Name: "label values", Class: ClassLookUp, expr: `up{job="$J"}`, label: "instance"},
		Query{Name: "metrics of a host", Class: ClassLookUp, expr: `{instance="$I"}`, label: "__name__"})
}

// WithOldNames returns the query with the old names of its functions, for servers that do not know the new ones. ok is
// false if there are none.
func (q *Query) WithOldNames() (old Query, ok bool) {
	old = *q
	old.expr = strings.ReplaceAll(q.expr, "double_exponential_smoothing", "holt_winters")
	return old, old.expr != q.expr
}
