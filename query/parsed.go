package query

import "github.com/prometheus/prometheus/promql/parser"

// parsed passes the expression of a query from one who needs it to the next, so that it is parsed once: compiling the
// regular expressions of its matchers may cost more than evaluating it.
type parsed struct{ expr parser.Expr }

// look returns the expression, not to be changed.
func (s *span) look(p parser.Parser) (parser.Expr, error) {
	if s.parsed != nil && s.parsed.expr != nil {
		return s.parsed.expr, nil
	}
	expr, err := p.ParseExpr(s.text)
	if err == nil && s.parsed != nil {
		s.parsed.expr = expr
	}
	return expr, err
}

// take returns the expression for good.
func (s *span) take(p parser.Parser) (parser.Expr, error) {
	expr, err := s.look(p)
	if s.parsed != nil {
		s.parsed.expr = nil
	}
	return expr, err
}
