package backfill

import (
	"slices"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/promql/parser"
)

// reads reports whether an expression may read a metric. A selector without a metric name may read every metric.
func reads(expr parser.Expr, metric string) bool {
	for _, matchers := range parser.ExtractSelectors(expr) {
		may := true
		for _, m := range matchers {
			may = may && (m.Name != model.MetricNameLabel || m.Matches(metric))
		}
		if may {
			return true
		}
	}
	return false
}

// reads reports whether a rule of the group may read a result of another group.
func (g *group) reads(other *group) bool {
	for _, r := range g.rules {
		if slices.ContainsFunc(other.rules, func(o *rule) bool { return reads(r.expr, o.name) }) {
			return true
		}
	}
	return false
}

// readsAhead reports whether a rule of the group may read its own result, or the result of a later rule.
func (g *group) readsAhead() bool {
	for i, r := range g.rules {
		if slices.ContainsFunc(g.rules[i:], func(o *rule) bool { return reads(r.expr, o.name) }) {
			return true
		}
	}
	return false
}

// ordered returns the groups so that each comes after the groups whose results it reads. circular is set if there is no such
// order, or if rules read their own results or results of later rules. Then the order is right only one interval at a time.
func ordered(groups []*group) (out []*group, circular bool) {
	const begun, done = 1, 2
	state := make(map[*group]int)
	var visit func(g *group)
	visit = func(g *group) {
		state[g] = begun
		circular = circular || g.readsAhead()
		for _, other := range groups {
			if other == g || !g.reads(other) {
				continue
			}
			switch state[other] {
			case begun:
				circular = true
			case 0:
				visit(other)
			}
		}
		state[g] = done
		out = append(out, g)
	}
	for _, g := range groups {
		if state[g] == 0 {
			visit(g)
		}
	}
	return out, circular
}
