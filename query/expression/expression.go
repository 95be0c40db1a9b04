package expression

import (
	"time"

	"github.com/prometheus/prometheus/promql/parser"

	"halite/query/columnar/grid"
)

// Expression is the text of a query and its times. Step is 0 for an instant query.
type Expression struct {
	Text       string
	Start, End time.Time
	Step       time.Duration
	IsRange    bool
	Parsed     *Parsed // nil keeps nothing
}

// Grid returns the times at which the expression is evaluated.
func (s Expression) Grid() grid.Grid {
	if !s.IsRange {
		return grid.New(s.Start.UnixMilli(), s.Start.UnixMilli(), 1)
	}
	return grid.New(s.Start.UnixMilli(), s.End.UnixMilli(), s.Step.Milliseconds())
}

// Parsed passes the parsed expression of a query from one user to the next. So the query is parsed only once. Compiling the
// regular expressions of its matchers may cost more than evaluating them.
type Parsed struct{ expr parser.Expr }

// Expr returns the expression. The caller does not change it.
func (s *Expression) Expr(p parser.Parser) (parser.Expr, error) {
	if s.Parsed != nil && s.Parsed.expr != nil {
		return s.Parsed.expr, nil
	}
	expr, err := p.ParseExpr(s.Text)
	if err == nil && s.Parsed != nil {
		s.Parsed.expr = expr
	}
	return expr, err
}

// TakeExpr returns the expression to a caller that may change it.
func (s *Expression) TakeExpr(p parser.Parser) (parser.Expr, error) {
	expr, err := s.Expr(p)
	if s.Parsed != nil {
		s.Parsed.expr = nil
	}
	return expr, err
}
