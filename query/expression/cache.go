package expression

import (
	"slices"
	"strings"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"github.com/prometheus/prometheus/promql/parser"
)

const (
	// textBytesMax is the length of the longest text that a CachingParser keeps.
	textBytesMax = 2 << 10
	// textsBytesMax is the length of all texts that a CachingParser keeps. A parsed text takes 10 to 200 times its length, most of
	// it for regular expressions.
	textsBytesMax = 128 << 10
)

// CachingParser is a parser that caches parsed expressions. Dashboards and rules send the same texts again and again, and
// parsing takes longer than the evaluation of a small query. Each caller gets its own copy, which it may change. The copies
// share only the matchers. A CachingParser may be used by any number of goroutines.
type CachingParser struct {
	parser.Parser

	mu    sync.Mutex
	kept  *simplelru.LRU[string, parser.Expr]
	bytes int // the length of all texts in kept
}

// NewCachingParser returns a CachingParser for texts that p parses.
func NewCachingParser(p parser.Parser) *CachingParser {
	c := &CachingParser{Parser: p}
	// The length of the texts bounds the number of entries. NewLRU fails only for a size below 1.
	c.kept, _ = simplelru.NewLRU(textsBytesMax, func(text string, _ parser.Expr) { c.bytes -= len(text) })
	return c
}

// ParseExpr implements parser.Parser.
func (c *CachingParser) ParseExpr(text string) (parser.Expr, error) {
	c.mu.Lock()
	kept, found := c.kept.Get(text)
	c.mu.Unlock()
	if found {
		return clone(kept), nil
	}
	e, err := c.Parser.ParseExpr(text)
	if err == nil && small(text) {
		if own := clone(e); own != nil {
			c.add(strings.Clone(text), own)
		}
	}
	return e, err
}

// small reports whether the parsed text takes little memory. Repetitions and Unicode classes in regular expressions may take
// much more memory than their text. They contain "{n}", "\p" or "\P". An escaped "{" is rare, so it counts as a repetition.
// A comment may contain a quotation mark, so no text with a "#" is small.
func small(text string) bool {
	if len(text) == 0 || len(text) > textBytesMax || strings.Contains(text, "#") {
		return false
	}
	if strings.Contains(text, `\p`) || strings.Contains(text, `\P`) {
		return false
	}
	return !strings.Contains(text, "~") || !repeats(text)
}

// repeats reports whether a string of the text has a "{".
func repeats(text string) bool {
	var quote byte
	for i := 0; i < len(text); i++ {
		switch b := text[i]; {
		case quote == 0 && (b == '"' || b == '\'' || b == '`'):
			quote = b
		case quote == 0:
		case b == '\\' && quote != '`':
			i++
		case b == quote:
			quote = 0
		case b == '{':
			return true
		}
	}
	return false
}

func (c *CachingParser) add(text string, e parser.Expr) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.kept.Contains(text) {
		return
	}
	c.kept.Add(text, e)
	for c.bytes += len(text); c.bytes > textsBytesMax; {
		c.kept.RemoveOldest()
	}
}

// clone copies a parsed expression, except matchers and expressions of durations, which never change. It returns nil for
// unknown kinds of expressions.
func clone(e parser.Expr) parser.Expr {
	switch e := e.(type) {
	case *parser.NumberLiteral:
		return new(*e)
	case *parser.StringLiteral:
		return new(*e)
	case *parser.VectorSelector:
		out := new(*e)
		out.LabelMatchers = slices.Clone(e.LabelMatchers)
		return out
	case *parser.MatrixSelector:
		out := new(*e)
		return complete(out, &out.VectorSelector)
	case *parser.SubqueryExpr:
		out := new(*e)
		return complete(out, &out.Expr)
	case *parser.ParenExpr:
		out := new(*e)
		return complete(out, &out.Expr)
	case *parser.UnaryExpr:
		out := new(*e)
		return complete(out, &out.Expr)
	case *parser.AggregateExpr:
		out := new(*e)
		out.Grouping = slices.Clone(e.Grouping)
		return complete(out, &out.Expr, &out.Param)
	case *parser.BinaryExpr:
		out := new(*e)
		if m := e.VectorMatching; m != nil {
			out.VectorMatching = new(*m)
			out.VectorMatching.MatchingLabels = slices.Clone(m.MatchingLabels)
			out.VectorMatching.Include = slices.Clone(m.Include)
		}
		return complete(out, &out.LHS, &out.RHS)
	case *parser.Call:
		out := new(*e)
		out.Args = slices.Clone(e.Args)
		for i := range out.Args {
			if complete(out, &out.Args[i]) == nil {
				return nil
			}
		}
		return out
	}
	return nil
}

// complete replaces the children of a copy by their copies. It returns nil if a child is of an unknown kind.
func complete(out parser.Expr, children ...*parser.Expr) parser.Expr {
	for _, child := range children {
		if *child == nil {
			continue
		}
		if *child = clone(*child); *child == nil {
			return nil
		}
	}
	return out
}
