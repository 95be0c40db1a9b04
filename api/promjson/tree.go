package promjson

import (
	"math"
	"strconv"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
)

// node is one node of an expression's tree. Prometheus's web interface reads its fields by their names.
type node map[string]any

// Tree describes an expression as a value for encoding/json. Durations are milliseconds; absent parts are null.
func Tree(e parser.Expr) any {
	switch e := e.(type) {
	case nil:
		return nil
	case *parser.AggregateExpr:
		return node{
			"type": "aggregation", "op": e.Op.String(), "expr": Tree(e.Expr), "param": Tree(e.Param),
			"grouping": notNull(e.Grouping), "without": e.Without,
		}
	case *parser.BinaryExpr:
		return node{
			"type": "binaryExpr", "op": e.Op.String(), "lhs": Tree(e.LHS), "rhs": Tree(e.RHS),
			"matching": matchingTree(e.VectorMatching), "bool": e.ReturnBool,
		}
	case *parser.Call:
		return callTree(e)
	case *parser.MatrixSelector:
		return matrixTree(e)
	case *parser.VectorSelector:
		n := selectorTree(e)
		n["type"] = "vectorSelector"
		return n
	case *parser.SubqueryExpr:
		return node{
			"type": "subquery", "expr": Tree(e.Expr),
			"range": e.Range.Milliseconds(), "rangeExpr": durationTree(e.RangeExpr),
			"offset": e.OriginalOffset.Milliseconds(), "offsetExpr": durationTree(e.OriginalOffsetExpr),
			"step": e.Step.Milliseconds(), "stepExpr": durationTree(e.StepExpr),
			"timestamp": e.Timestamp, "startOrEnd": startOrEnd(e.StartOrEnd),
		}
	case *parser.DurationExpr:
		return durationTree(e)
	case *parser.NumberLiteral:
		return node{"type": "numberLiteral", "val": strconv.FormatFloat(e.Val, 'f', -1, 64)}
	case *parser.StringLiteral:
		return node{"type": "stringLiteral", "val": e.Val}
	case *parser.ParenExpr:
		return node{"type": "parenExpr", "expr": Tree(e.Expr)}
	case *parser.UnaryExpr:
		return node{"type": "unaryExpr", "op": e.Op.String(), "expr": Tree(e.Expr)}
	}
	// A node of an unknown kind is written as text.
	return node{"type": "unknown", "val": e.String()}
}

func callTree(e *parser.Call) node {
	args := make([]any, 0, len(e.Args))
	for _, arg := range e.Args {
		args = append(args, Tree(arg))
	}
	return node{
		"type": "call",
		"func": node{
			"name": e.Func.Name, "argTypes": e.Func.ArgTypes,
			"variadic": e.Func.Variadic, "returnType": e.Func.ReturnType,
		},
		"args": args,
	}
}

func matchingTree(m *parser.VectorMatching) any {
	if m == nil {
		return nil
	}
	return node{
		"card": m.Card.String(), "labels": notNull(m.MatchingLabels), "on": m.On, "include": notNull(m.Include),
		"fillValues": node{"lhs": fillTree(m.FillValues.LHS), "rhs": fillTree(m.FillValues.RHS)},
	}
}

// fillTree describes the value of a fill modifier. JSON has no numbers for NaN and the infinities, so they are text;
// Prometheus fails for them.
func fillTree(v *float64) any {
	if v != nil && (math.IsNaN(*v) || math.IsInf(*v, 0)) {
		return strconv.FormatFloat(*v, 'f', -1, 64)
	}
	return v
}

func matrixTree(e *parser.MatrixSelector) any {
	vs, ok := e.VectorSelector.(*parser.VectorSelector)
	if !ok {
		return node{"type": "unknown", "val": e.String()}
	}
	n := selectorTree(vs)
	n["type"] = "matrixSelector"
	n["range"] = e.Range.Milliseconds()
	n["rangeExpr"] = durationTree(e.RangeExpr)
	return n
}

// selectorTree has the fields that vector and matrix selectors share.
func selectorTree(e *parser.VectorSelector) node {
	return node{
		"name": e.Name, "offset": e.OriginalOffset.Milliseconds(), "offsetExpr": durationTree(e.OriginalOffsetExpr),
		"matchers": matcherTrees(e.LabelMatchers), "timestamp": e.Timestamp, "startOrEnd": startOrEnd(e.StartOrEnd),
		"anchored": e.Anchored, "smoothed": e.Smoothed,
	}
}

// durationTree describes a duration that was written as an expression. Only inside such an expression, a number has a field that
// says whether it was written as a duration.
func durationTree(e parser.Expr) any {
	switch e := e.(type) {
	case nil:
		return nil
	case *parser.DurationExpr:
		if e == nil {
			return nil
		}
		return node{
			"type": "durationExpr", "op": e.Op.String(), "lhs": durationTree(e.LHS), "rhs": durationTree(e.RHS),
			"wrapped": e.Wrapped,
		}
	case *parser.NumberLiteral:
		if e == nil {
			return nil
		}
		return node{
			"type": "numberLiteral", "val": strconv.FormatFloat(e.Val, 'f', -1, 64), "duration": e.Duration,
		}
	default:
		return Tree(e)
	}
}

func matcherTrees(matchers []*labels.Matcher) []node {
	nodes := make([]node, 0, len(matchers))
	for _, m := range matchers {
		nodes = append(nodes, node{"name": m.Name, "value": m.Value, "type": m.Type.String()})
	}
	return nodes
}

func startOrEnd(t parser.ItemType) any {
	if t == 0 {
		return nil
	}
	return t.String()
}

func notNull(list []string) []string {
	if list == nil {
		return []string{}
	}
	return list
}
