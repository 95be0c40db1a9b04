package request

import (
	"bytes"
	"encoding/json"
	"math"
	"strings"

	"halite/query/opentsdb/aggregation"
	"halite/query/opentsdb/expression"
)

// Expressions is a checked body of /api/query/exp.
type Expressions struct {
	// Query has one sub-query for each of Metrics, in their order.
	Query   *Query
	Metrics []MetricVariable
	// Formulas are sorted: each formula follows the formulas that it reads.
	Formulas []FormulaVariable
	Outputs  []Output
	// Body is the request body, which the response repeats.
	Body json.RawMessage
}

// MetricVariable is a variable with the series of a metric. Fill replaces missing values.
type MetricVariable struct {
	ID   string
	Fill float64
}

// FormulaVariable is a variable with the result of a formula. Fill replaces missing values.
type FormulaVariable struct {
	ID      string
	Formula *expression.Formula
	Join    expression.Join
	Fill    float64
}

// Output is a variable that the response shows. Alias is "" if it has none.
type Output struct{ ID, Alias string }

// expressions is the body in its JSON form.
type expressions struct {
	Time *struct {
		Start, End  text
		Timezone    string
		Aggregator  string
		Downsampler *downsampler
		Rate        flag
		RateOptions *rateOptions
	}
	Filters []struct {
		ID           string
		Tags         []bodyFilter
		ExplicitTags flag
	}
	Metrics     []expMetric
	Expressions []expFormula
	Outputs     []Output
}

type downsampler struct {
	Interval, Aggregator string
	FillPolicy           *fillPolicy
}

type fillPolicy struct {
	Policy string
	Value  *float64
}

type expMetric struct {
	ID, Metric, Filter, Aggregator string
	FillPolicy                     *fillPolicy
	TimeOffset                     text
}

type expFormula struct {
	ID, Expr string
	Join     *struct {
		Operator       string
		UseQueryTags   flag
		IncludeAggTags *flag
	}
	FillPolicy *fillPolicy
}

// Expressions parses a body of /api/query/exp.
func (p *Parser) Expressions(body []byte) (*Expressions, error) {
	if len(bytes.TrimSpace(body)) == 0 {
		return nil, noContent()
	}
	var raw expressions
	if err := json.Unmarshal(body, &raw); err != nil {
		return nil, malformed(err)
	}
	if raw.Time == nil {
		return nil, bad("missing time")
	}
	if raw.Time.Start == "" {
		return nil, bad("missing or empty start")
	}
	if len(raw.Metrics) == 0 {
		return nil, bad("missing or empty metrics")
	}
	out := &Expressions{Outputs: raw.Outputs, Body: body}
	ids := map[string]bool{}
	if err := p.addMetrics(out, &raw, ids); err != nil {
		return nil, err
	}
	if err := out.addFormulas(raw.Expressions, ids); err != nil {
		return nil, err
	}
	return out, out.checkOutputs(ids)
}

// addMetrics adds a sub-query for each metric.
func (p *Parser) addMetrics(out *Expressions, raw *expressions, ids map[string]bool) error {
	t := raw.Time
	q := query{Start: t.Start, End: t.End, Timezone: t.Timezone}
	for i := range raw.Metrics {
		m := &raw.Metrics[i]
		if err := newID(m.ID, "duplicated metric id: ", ids); err != nil {
			return err
		}
		if m.Metric == "" {
			return bad("missing or empty metric")
		}
		offsetMs, err := parseOffset(string(m.TimeOffset))
		if err != nil {
			return bad("the timeOffset of the metric %s: %s", m.ID, err)
		}
		sub := subQuery{
			Metric: m.Metric, Aggregator: m.Aggregator, Rate: t.Rate, RateOptions: t.RateOptions, offsetMs: offsetMs,
		}
		if sub.Aggregator == "" {
			sub.Aggregator = t.Aggregator
		}
		if t.Downsampler != nil {
			sub.Downsample = t.Downsampler.Interval + "-" + t.Downsampler.Aggregator
		}
		if err := raw.addFilter(m, &sub); err != nil {
			return err
		}
		fill, err := m.FillPolicy.value(0)
		if err != nil {
			return err
		}
		q.Queries = append(q.Queries, sub)
		out.Metrics = append(out.Metrics, MetricVariable{ID: m.ID, Fill: fill})
	}
	var err error
	if out.Query, err = p.check(&q); err != nil {
		return err
	}
	out.Query.MsResolution = true
	if t.Downsampler == nil {
		return nil
	}
	return out.fillIntervals(t.Downsampler.FillPolicy)
}

// parseOffset parses an offset such as 1d-ago into milliseconds. "" and 0 mean no offset.
func parseOffset(text string) (ageMs int64, err error) {
	if text == "" || text == "0" {
		return 0, nil
	}
	before, ok := strings.CutSuffix(strings.ToLower(text), "-ago")
	if !ok {
		return 0, bad("%s is not a time before now such as 1d-ago", text)
	}
	count, unit, err := ParseDuration(before)
	age := aggregation.Downsampling{Count: count, Unit: unit}
	return age.IntervalMs(), err
}

// fillIntervals sets the fill policy of the downsampling.
func (out *Expressions) fillIntervals(policy *fillPolicy) error {
	if policy == nil || policy.Policy == "" {
		return nil
	}
	fill, err := ParseFill(policy.Policy)
	if err != nil {
		return err
	}
	value, err := policy.value(0)
	if err != nil {
		return err
	}
	for i := range out.Query.Subs {
		out.Query.Subs[i].Down.Fill, out.Query.Subs[i].Down.Scalar = fill, value
	}
	return nil
}

// addFilter adds the filters to which a metric refers.
func (raw *expressions) addFilter(m *expMetric, sub *subQuery) error {
	if m.Filter == "" {
		return nil
	}
	for _, f := range raw.Filters {
		if f.ID == m.Filter {
			sub.Filters, sub.ExplicitTags = f.Tags, f.ExplicitTags
			return nil
		}
	}
	return bad("unrecognized filter id %s in metric %s", m.Filter, m.ID)
}

// newID checks the id of a variable and adds it to ids. The error of a repeated id begins with duplicate.
func newID(id, duplicate string, ids map[string]bool) error {
	if id == "" {
		return bad("missing or empty id")
	}
	digits := true
	for _, c := range id {
		if !(c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z') {
			return bad("Invalid id (\"%s\"): illegal character: %c", id, c)
		}
		digits = digits && c <= '9'
	}
	if digits {
		return bad("The ID cannot be an integer")
	}
	if ids[id] {
		return bad("%s%s", duplicate, id)
	}
	ids[id] = true
	return nil
}

// value returns the number that replaces missing values. Without a policy it returns otherwise.
func (f *fillPolicy) value(otherwise float64) (float64, error) {
	if f == nil {
		return otherwise, nil
	}
	if f.Policy == "" {
		if f.Value != nil {
			return *f.Value, nil
		}
		return 0, nil
	}
	fill, err := ParseFill(f.Policy)
	switch {
	case err != nil:
		return 0, err
	case fill == aggregation.FillScalar && f.Value != nil:
		return *f.Value, nil
	case fill == aggregation.FillZero, fill == aggregation.FillScalar:
		if f.Value != nil && *f.Value != 0 {
			return 0, bad("The value for ZERO must be 0")
		}
		return 0, nil
	}
	return math.NaN(), nil
}

// addFormulas parses the formulas and puts them into the order of their evaluation.
func (out *Expressions) addFormulas(raw []expFormula, ids map[string]bool) error {
	byID := map[string]*FormulaVariable{}
	var order []string
	for i := range raw {
		e := &raw[i]
		if err := newID(e.ID, "Duplicated variable or expression id: ", ids); err != nil {
			return err
		}
		f, err := expression.ParseFormula(e.Expr)
		if err != nil {
			return bad("Invalid expression %s: %s", e.ID, err)
		}
		v := &FormulaVariable{ID: e.ID, Formula: f, Join: expression.Join{AggregateTags: true}}
		if v.Fill, err = e.FillPolicy.value(math.NaN()); err != nil {
			return err
		}
		if err := v.setJoin(e); err != nil {
			return err
		}
		byID[e.ID], order = v, append(order, e.ID)
	}
	state := map[string]bool{} // false while visit is in the inputs of the formula, then true
	for _, id := range order {
		if err := out.visit(id, byID, ids, state); err != nil {
			return err
		}
	}
	return nil
}

func (v *FormulaVariable) setJoin(e *expFormula) error {
	if e.Join == nil {
		return nil
	}
	switch e.Join.Operator {
	case "union", "UNION", "":
	case "intersection", "INTERSECTION":
		v.Join.Intersection = true
	default:
		return bad("Unrecognized set operator: %s", e.Join.Operator)
	}
	v.Join.QueryTags = bool(e.Join.UseQueryTags)
	if e.Join.IncludeAggTags != nil {
		v.Join.AggregateTags = bool(*e.Join.IncludeAggTags)
	}
	return nil
}

// visit appends a formula after the formulas that it reads.
func (out *Expressions) visit(id string, byID map[string]*FormulaVariable, ids, state map[string]bool) error {
	v := byID[id]
	if v == nil || state[id] {
		return nil // a metric, or done
	}
	if _, open := state[id]; open {
		return bad("Circular reference found: %s", id)
	}
	state[id] = false
	for _, name := range v.Formula.Variables {
		if name == id {
			return bad("Self referencing expression found: %s", id)
		}
		if !ids[name] {
			return bad("Expression [%s] was missing input %s", id, name)
		}
		if err := out.visit(name, byID, ids, state); err != nil {
			return err
		}
	}
	state[id] = true
	out.Formulas = append(out.Formulas, *v)
	return nil
}

// checkOutputs checks the outputs. Without outputs, the response has all formulas, or all metrics if there are no formulas.
func (out *Expressions) checkOutputs(ids map[string]bool) error {
	for _, o := range out.Outputs {
		if !ids[o.ID] {
			return bad("the output %q is neither a metric nor an expression", o.ID)
		}
	}
	if len(out.Outputs) > 0 {
		return nil
	}
	for _, f := range out.Formulas {
		out.Outputs = append(out.Outputs, Output{ID: f.ID})
	}
	if len(out.Formulas) == 0 {
		for _, m := range out.Metrics {
			out.Outputs = append(out.Outputs, Output{ID: m.ID})
		}
	}
	return nil
}
