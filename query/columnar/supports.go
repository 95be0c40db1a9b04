package columnar

import "github.com/prometheus/prometheus/promql/parser"

// Supports reports whether operators can evaluate all of a preprocessed expression. once says that it lies within what
// is evaluated at one step only.
func Supports(e parser.Expr, once bool) bool {
	switch e.Type() {
	case parser.ValueTypeVector:
		return compiler{once: once}.vector(e) != nil
	case parser.ValueTypeScalar:
		return compiler{once: once}.scalar(e) != nil
	}
	return false
}
