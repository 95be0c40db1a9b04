package query

import (
	"fmt"
	"math"
	"math/bits"
	"strings"

	"github.com/prometheus/prometheus/promql/parser"
)

// checkNesting refuses a text whose tree may be deeper than depthMax, the limit with the given name. It runs before the parser,
// because the parser and the evaluation recurse. Each bracket counts as a level, and so does each operator between the same
// brackets.
func checkNesting(text string, depthMax int, name string) error {
	if len(text) <= depthMax {
		return nil
	}
	var (
		lexer   = parser.Lex(text)
		item    parser.Item
		levels  = []int{0} // number of operators so far at each open bracket
		depth   = 0
		deepest = 0
	)
	for {
		lexer.NextItem(&item)
		switch {
		case item.Typ == parser.EOF || item.Typ == parser.ERROR:
			if deepest <= depthMax {
				return nil
			}
			return badParam("query", "the expression is nested up to %d levels deep, more than the limit of %d "+
				"(%s); write it in several queries", deepest, depthMax, name)
		case item.Typ == parser.LEFT_PAREN || item.Typ == parser.LEFT_BRACKET || item.Typ == parser.LEFT_BRACE:
			levels = append(levels, 1)
			depth++
		case item.Typ == parser.RIGHT_PAREN || item.Typ == parser.RIGHT_BRACKET || item.Typ == parser.RIGHT_BRACE:
			if len(levels) > 1 {
				depth -= levels[len(levels)-1]
				levels = levels[:len(levels)-1]
			}
		case item.Typ == parser.COMMA:
			last := &levels[len(levels)-1]
			depth -= *last - 1
			*last = 1
		case item.Typ.IsOperator():
			levels[len(levels)-1]++
			depth++
		}
		deepest = max(deepest, depth)
	}
}

// multiplies reports whether an expression has subqueries or label functions. Limits of series do not bound their work.
func multiplies(e parser.Expr) (found bool) {
	parser.Inspect(e, func(n parser.Node, _ []parser.Node) error {
		switch n := n.(type) {
		case *parser.SubqueryExpr:
			found = true
		case *parser.Call:
			found = found || strings.HasPrefix(n.Func.Name, "label_")
		}
		return nil
	})
	return found
}

// subqueryLimits bounds the work of subqueries, which limits of series do not bound.
type subqueryLimits struct {
	stepsMax, pointsMax int64
	stepDefaultMs       int64
}

// check refuses an expression with a subquery that has too many steps, or whose points a function would read too often.
// spanMs is the time from the first step of the query to the last.
func (l subqueryLimits) check(e parser.Expr, spanMs, steps int64) (err error) {
	parser.Inspect(e, func(n parser.Node, path []parser.Node) error {
		q, ok := n.(*parser.SubqueryExpr)
		if !ok || err != nil {
			return nil
		}
		// q is evaluated at the steps of the innermost subquery around it, over the ranges of all subqueries.
		around, rangeMs := steps, spanMs
		for _, above := range path {
			if outer, ok := above.(*parser.SubqueryExpr); ok {
				rangeMs += outer.Range.Milliseconds()
				around = rangeMs/l.stepMs(outer) + 1
			}
		}
		rangeMs += q.Range.Milliseconds()
		stepMs := l.stepMs(q)
		if n := rangeMs/stepMs + 1; n > l.stepsMax {
			err = l.refuse(q, fmt.Sprintf("%d steps", n), l.stepsMax, "query.max-subquery-steps")
		} else if n := saturated(around, q.Range.Milliseconds()/stepMs); n > l.pointsMax {
			err = l.refuse(q, fmt.Sprintf("%d points a series over all steps", n), l.pointsMax, "query.max-subquery-points")
		}
		return nil
	})
	return err
}

func (l subqueryLimits) refuse(q *parser.SubqueryExpr, has string, limit int64, name string) error {
	return &Error{Type: ErrorExecution, Err: fmt.Errorf("subquery %s has %s, more than the limit of %d (%s); "+
		"give it a longer step or a shorter range, or the query a longer step", shortened(q.String()), has, limit, name)}
}

func (l subqueryLimits) stepMs(q *parser.SubqueryExpr) int64 {
	if ms := q.Step.Milliseconds(); ms > 0 {
		return ms
	}
	return max(1, l.stepDefaultMs)
}

// checkLabels refuses an expression that could make labels many times longer than in the data. The factors of nested
// label_replace and label_join multiply.
func checkLabels(e parser.Expr, growthMax int64) (err error) {
	parser.Inspect(e, func(n parser.Node, path []parser.Node) error {
		growth := growthOf(n)
		if growth < 2 || err != nil {
			return nil
		}
		for _, above := range path {
			growth = saturated(growth, growthOf(above))
		}
		if growth > growthMax {
			err = &Error{Type: ErrorExecution, Err: fmt.Errorf("label_replace and label_join could make labels %d times longer, "+
				"more than the limit of %d (query.max-label-growth); nest fewer of them, or refer to fewer labels", growth, growthMax)}
		}
		return nil
	})
	return err
}

// growthOf returns the factor by which a function may lengthen labels, at least 1.
func growthOf(n parser.Node) int64 {
	c, ok := n.(*parser.Call)
	if !ok {
		return 1
	}
	switch c.Func.Name {
	case "label_join":
		return int64(max(1, len(c.Args)-3))
	case "label_replace":
		if text, ok := c.Args[2].(*parser.StringLiteral); ok {
			return int64(max(1, strings.Count(text.Val, "$")))
		}
	}
	return 1
}

// saturated multiplies without overflow.
func saturated(a, b int64) int64 {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	if hi != 0 || lo > math.MaxInt64 {
		return math.MaxInt64
	}
	return int64(lo)
}

// added adds numbers that are not negative, without overflow.
func added(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// shortenedBytes is the length of the part of a query that an error quotes.
const shortenedBytes = 200

func shortened(text string) string {
	if len(text) <= shortenedBytes {
		return text
	}
	return text[:shortenedBytes] + "…"
}
