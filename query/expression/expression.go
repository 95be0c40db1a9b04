package expression

import (
	"time"

	"github.com/prometheus/prometheus/promql/parser"

	"halite/query/columnar/grid"
)

// Expression is what a query asks and for when; step is 0 for an instant query.
type Expression struct {
	Text       string
	Start, End time.Time
	Step       time.Duration
	IsRange    bool
	Parsed     *Parsed // nil keeps nothing
}

// Grid is the times at which the expression is evaluated.
func (s Expression) Grid() grid.Grid {
	if !s.IsRange {
		return grid.New(s.Start.UnixMilli(), s.Start.UnixMilli(), 1)
	}
	return grid.New(s.Start.UnixMilli(), s.End.UnixMilli(), s.Step.Milliseconds())
}

// Parsed passes the expression of a query from one who needs it to the next, so that it is parsed once: compiling the
// regular expressions of its matchers may cost more than evaluating it.
type Parsed struct{ expr parser.Expr }

// Expr returns the expression, not to be changed.
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

// TakeExpr returns the expression for good.
func (s *Expression) TakeExpr(p parser.Parser) (parser.Expr, error) {
	expr, err := s.Expr(p)
	if s.Parsed != nil {
		s.Parsed.expr = nil
	}
	return expr, err
}
