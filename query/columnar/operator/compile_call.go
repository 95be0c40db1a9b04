package operator

import (
	"math"
	"strings"
	"time"

	"github.com/grafana/regexp"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/parser/posrange"

	"halite/query/columnar/window"
)

const pi = math.Pi

// call compiles a function that returns a vector.
func (c Compiler) call(e *parser.Call) Vector {
	name := e.Func.Name
	for i, a := range e.Args {
		switch a := a.(type) {
		case *parser.MatrixSelector:
			return c.overRange(e, a, i)
		case *parser.SubqueryExpr:
			return c.overSubquery(e, a, i)
		}
	}
	switch name {
	case "vector":
		if child := c.Scalar(e.Args[0]); child != nil {
			return vectorFunction{child}
		}
		return nil
	case "histogram_quantile":
		return c.histogramQuantile(e)
	}
	if len(e.Args) == 0 {
		return c.date(name)
	}
	if name == "timestamp" {
		// timestamp of a selector is the time of the sample, not of the step.
		if vs, ok := e.Args[0].(*parser.VectorSelector); ok {
			// With @, Prometheus selects series with the offset, but looks up samples without it.
			if c.selectable(vs, 0) && (vs.Timestamp == nil || vs.OriginalOffset == 0) {
				return &instantSelector{selector: newSelector(vs), times: true}
			}
			return nil
		}
	}
	if e.Args[0].Type() != parser.ValueTypeVector {
		return nil
	}
	child := c.Vector(e.Args[0])
	if child == nil {
		return nil
	}
	switch name {
	case "label_replace":
		return labelReplace(e, child)
	case "label_join":
		return labelJoin(e, child)
	case "sort_by_label", "sort_by_label_desc":
		if c.grid.Instant() {
			return nil // the engine compares labels
		}
		return &sortFunction{child: child, pos: e.PositionRange()}
	case "sort", "sort_desc":
		return &sortFunction{child: child, descending: name == "sort_desc", pos: e.PositionRange()}
	case "absent":
		n := &absentFunction{name: name, child: child}
		if vs, ok := e.Args[0].(*parser.VectorSelector); ok {
			n.labels = labelsOfAbsent(vs.LabelMatchers)
		}
		return n
	}
	return c.valueFunction(e, child)
}

// valueFunction compiles a function that is applied to each value.
func (c Compiler) valueFunction(e *parser.Call, child Vector) Vector {
	n := &valueFunction{name: e.Func.Name, child: child}
	for _, a := range e.Args[1:] {
		arg := c.Scalar(a)
		if arg == nil {
			return nil
		}
		n.args = append(n.args, arg)
	}
	switch e.Func.Name {
	case "clamp":
		n.prepare = clamp
	case "clamp_min":
		n.prepare = clampMin
	case "clamp_max":
		n.prepare = clampMax
	case "round":
		n.prepare = round
	case "timestamp":
		n.prepare = stepTime
	default:
		f := simpleFunctions(e.Func.Name)
		if f == nil {
			return nil
		}
		n.prepare = simple(f)
	}
	return n
}

// date compiles a date function without argument, which takes the step's time.
func (c Compiler) date(name string) Vector {
	f := dateFunction(name)
	if f == nil {
		return nil
	}
	return vectorFunction{dateOfStep{f}}
}

// dateOfStep is a function of the time of the step, in whole seconds.
type dateOfStep struct{ f func(t time.Time) float64 }

func (n dateOfStep) values(ev *Eval) ([]float64, error) {
	row := make([]float64, ev.Grid.Steps)
	for k := range row {
		row[k] = n.f(time.Unix(ev.Grid.At(k)/1000, 0).UTC())
	}
	return row, nil
}

func (n dateOfStep) Describe(*Description) {}

func (c Compiler) histogramQuantile(e *parser.Call) Vector {
	q, child := c.Scalar(e.Args[0]), c.Vector(e.Args[1])
	if q == nil || child == nil {
		return nil
	}
	return &histogramQuantile{
		q: q, qPos: e.Args[0].PositionRange(), child: child, argPos: e.Args[1].PositionRange(),
	}
}

// overRange compiles a function over a range selector.
func (c Compiler) overRange(e *parser.Call, m *parser.MatrixSelector, position int) Vector {
	vs, ok := m.VectorSelector.(*parser.VectorSelector)
	if !ok || !c.selectable(vs, m.Range.Milliseconds()) || m.Range < time.Millisecond || m.Range%time.Millisecond != 0 {
		return nil
	}
	f := c.overTime(e, position, m.Range, e.Args[0].PositionRange())
	if f == nil {
		return nil
	}
	return f.orAbsent(&rangeSelector{selector: newSelector(vs), overTime: *f}, labelsOfAbsent(vs.LabelMatchers))
}

// overSubquery compiles a function over a subquery.
func (c Compiler) overSubquery(e *parser.Call, q *parser.SubqueryExpr, position int) Vector {
	if q.Timestamp != nil && !c.Once || q.Range < time.Millisecond {
		return nil
	}
	if q.Range%time.Millisecond != 0 || q.Step%time.Millisecond != 0 || q.OriginalOffset%time.Millisecond != 0 {
		return nil
	}
	// Prometheus annotates without the position of the subquery.
	f := c.overTime(e, position, q.Range, posrange.PositionRange{})
	if f == nil {
		return nil
	}
	child := c.Inside(q, e.Func.Name).Vector(q.Expr)
	if child == nil {
		return nil
	}
	n := &overSubquery{subquery: newSubquery(q, c.subqueryStepMs), overTime: *f, child: child}
	return f.orAbsent(n, labels.EmptyLabels())
}

// showsLastBits reports whether a function may amplify a difference in the last bits of its operand.
func showsLastBits(function string) bool {
	switch function {
	case "min_over_time", "max_over_time", "first_over_time", "last_over_time", "quantile_over_time", "count_over_time",
		"present_over_time", "absent_over_time":
		return false
	}
	return true
}

// orAbsent returns n, or absent_over_time of it with the labels ls.
func (f *overTime) orAbsent(n Vector, ls labels.Labels) Vector {
	if f.name == "absent_over_time" {
		return &absentFunction{name: f.name, child: n, labels: ls, overTime: true}
	}
	return n
}

// overTime compiles a function over time. pos is the position in its annotations.
func (c Compiler) overTime(e *parser.Call, position int, rangeOf time.Duration, pos posrange.PositionRange) *overTime {
	name := e.Func.Name
	if c.StartTimes && UsesStartTimes(name) {
		return nil
	}
	f := &overTime{name: name, rangeMs: rangeOf.Milliseconds(), exact: c.exact}
	for i, a := range e.Args {
		if i == position {
			continue
		}
		p := c.Scalar(a)
		if p == nil {
			return nil
		}
		f.params = append(f.params, p)
	}
	if f.fn = rangeFunction(name, e, f.rangeMs); f.fn == nil {
		return nil
	}
	switch name {
	case "rate", "increase":
		f.knowsEven = true
		f.after = counterInfo(pos)
	case "delta":
		f.knowsEven = true
	case "sum_over_time", "avg_over_time", "stddev_over_time", "stdvar_over_time", "deriv", "predict_linear":
		f.shared = true
	case "last_over_time", "first_over_time":
		f.keepsName = true
	case "absent_over_time":
		f.keepsName = true // the result hides names, so equal label sets do not matter
	}
	return f
}

func rangeFunction(name string, e *parser.Call, rangeMs int64) window.Func {
	switch name {
	case "rate":
		return window.Rate(rangeMs)
	case "increase":
		return window.Increase(rangeMs)
	case "delta":
		return window.Delta(rangeMs)
	case "irate":
		return window.IRate()
	case "idelta":
		return window.IDelta()
	case "count_over_time":
		return window.CountOverTime()
	case "present_over_time", "absent_over_time":
		return window.PresentOverTime()
	case "last_over_time":
		return window.LastOverTime()
	case "first_over_time":
		return window.FirstOverTime()
	case "sum_over_time":
		return window.SumOverTime()
	case "avg_over_time":
		return window.AvgOverTime()
	case "min_over_time":
		return window.MinOverTime()
	case "max_over_time":
		return window.MaxOverTime()
	case "stdvar_over_time":
		return window.VarianceOverTime(func(v float64) float64 { return v })
	case "stddev_over_time":
		return window.VarianceOverTime(math.Sqrt)
	case "quantile_over_time":
		return window.QuantileOverTime(e.Args[0].PositionRange())
	case "resets":
		return window.Resets()
	case "changes":
		return window.Changes()
	case "deriv":
		return window.Deriv()
	case "predict_linear":
		return window.PredictLinear()
	case "mad_over_time":
		return window.MadOverTime()
	case "double_exponential_smoothing":
		return smoothing(e)
	case "ts_of_first_over_time":
		return window.TimeOfFirst()
	case "ts_of_last_over_time":
		return window.TimeOfLast()
	case "ts_of_min_over_time":
		return window.TimeOfMin()
	case "ts_of_max_over_time":
		return window.TimeOfMax()
	}
	return nil
}

// smoothing compiles double_exponential_smoothing. It leaves factors other than literal numbers between 0 and 1 to the
// engine, which has the error texts.
func smoothing(e *parser.Call) window.Func {
	var factors [2]float64
	for i := range factors {
		n, ok := e.Args[i+1].(*parser.NumberLiteral)
		if !ok || !(n.Val > 0 && n.Val < 1) {
			return nil
		}
		factors[i] = n.Val
	}
	return window.DoubleExponentialSmoothing(factors[0], factors[1])
}

// text is the value of a string argument.
func text(e parser.Expr) (string, bool) {
	s, ok := e.(*parser.StringLiteral)
	if !ok {
		return "", false
	}
	return s.Val, true
}

func texts(args parser.Expressions) ([]string, bool) {
	out := make([]string, len(args))
	for i, a := range args {
		var ok bool
		if out[i], ok = text(a); !ok {
			return nil, false
		}
	}
	return out, true
}

// labelReplace compiles label_replace. It leaves bad arguments to the engine, which has the texts of the errors.
func labelReplace(e *parser.Call, child Vector) Vector {
	args, ok := texts(e.Args[1:])
	if !ok || !model.UTF8Validation.IsValidLabelName(args[0]) {
		return nil
	}
	pattern, err := regexp.Compile("^(?s:" + args[3] + ")$")
	if err != nil {
		return nil
	}
	return &relabel{name: e.Func.Name, child: child, dst: args[0], value: replacement(pattern, args[1], args[2])}
}

// labelJoin compiles label_join.
func labelJoin(e *parser.Call, child Vector) Vector {
	args, ok := texts(e.Args[1:])
	if !ok || !model.UTF8Validation.IsValidLabelName(args[0]) {
		return nil
	}
	sources := args[2:]
	for _, s := range sources {
		if !model.UTF8Validation.IsValidLabelName(s) {
			return nil
		}
	}
	return &relabel{name: e.Func.Name, child: child, dst: args[0], value: func(ls labels.Labels) (string, bool) {
		values := make([]string, len(sources))
		for i, s := range sources {
			values[i] = ls.Get(s)
		}
		return strings.Join(values, args[1]), true
	}}
}
