package query

import (
	"strconv"
	"strings"
	"sync"

	"github.com/prometheus/prometheus/promql/parser"
)

// preparedParser passes prepared expressions to Prometheus's engine, which accepts only text.
type preparedParser struct {
	parser.Parser

	mu       sync.Mutex
	last     uint64
	prepared map[string]parser.Expr
}

// preparedMark begins the text that refers to a prepared expression. No valid expression begins with it.
const preparedMark = "\x00"

// prepare stores an expression and returns a text that refers to it until the caller calls remove.
func (p *preparedParser) prepare(query string, e parser.Expr) (text string, remove func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last++
	text = preparedMark + strconv.FormatUint(p.last, 10) + " " + query
	p.prepared[text] = e
	return text, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.prepared, text)
	}
}

// ParseExpr implements parser.Parser.
func (p *preparedParser) ParseExpr(input string) (parser.Expr, error) {
	if strings.HasPrefix(input, preparedMark) {
		p.mu.Lock()
		defer p.mu.Unlock()
		if e := p.prepared[input]; e != nil {
			return e, nil
		}
	}
	return p.Parser.ParseExpr(input)
}
