package expression

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Formula is an arithmetic formula over variables: + - * / %, comparisons, && || !, c ? a : b, and brackets. Comparisons return 1
// or 0. A division by zero returns 0, as in OpenTSDB.
type Formula struct {
	// Variables are the names in the formula, sorted. Eval takes their values in this order.
	Variables []string
	root      node
}

// node computes a value from the values of the variables.
type node func(values []float64) float64

// Eval computes the formula.
func (f *Formula) Eval(values []float64) float64 { return f.root(values) }

// depthMax bounds the nesting of a formula.
const depthMax = 200

// formulaBytesMax bounds the length of a formula.
const formulaBytesMax = 16 << 10

// ParseFormula parses a formula. It has at least one variable.
func ParseFormula(text string) (*Formula, error) {
	if strings.TrimSpace(text) == "" {
		return nil, fmt.Errorf("the expression is empty")
	}
	if len(text) > formulaBytesMax {
		return nil, fmt.Errorf("the expression has %d bytes, more than %d", len(text), formulaBytesMax)
	}
	tokens, err := scan(text)
	if err != nil {
		return nil, err
	}
	names := map[string]bool{}
	for _, t := range tokens {
		if t.kind == name {
			names[t.text] = true
		}
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("the expression %q has no variables", text)
	}
	f := &Formula{Variables: slices.Sorted(maps.Keys(names))}
	p := &formulaParser{tokens: tokens, variables: f.Variables}
	if f.root, err = p.choice(); err != nil {
		return nil, fmt.Errorf("the expression %q: %w", text, err)
	}
	if p.at < len(tokens) {
		return nil, fmt.Errorf("the expression %q: unexpected %q", text, tokens[p.at].text)
	}
	return f, nil
}

type tokenKind uint8

const (
	operator tokenKind = iota
	name
	number
)

type token struct {
	kind tokenKind
	text string
}

// words maps operators that are spelled as words to their symbols.
func words() map[string]string {
	return map[string]string{
		"and": "&&", "or": "||", "not": "!", "div": "/", "mod": "%", "eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">",
		"ge": ">=",
	}
}

// scan divides a formula into tokens.
func scan(text string) (out []token, err error) {
	words := words()
	isName := func(r rune) bool { return r == '_' || r == '.' || isDigit(r) || isLetter(r) }
	for i := 0; i < len(text); {
		c := rune(text[i])
		end := i + 1
		switch {
		case strings.ContainsRune(" \t\r\n", c):
		case isLetter(c), c == '_':
			for end < len(text) && isName(rune(text[end])) {
				end++
			}
			if op, ok := words[text[i:end]]; ok {
				out = append(out, token{operator, op})
			} else {
				out = append(out, token{name, text[i:end]})
			}
		case isDigit(c), c == '.':
			for end < len(text) && (isDigit(rune(text[end])) || strings.ContainsRune(".eE", rune(text[end])) ||
				strings.ContainsRune("+-", rune(text[end])) && strings.ContainsRune("eE", rune(text[end-1]))) {
				end++
			}
			out = append(out, token{number, text[i:end]})
		default:
			if end < len(text) && strings.Contains(" == != <= >= && || ", " "+text[i:end+1]+" ") {
				end++
			}
			if op := text[i:end]; !strings.Contains(" + - * / % ( ) < > ! ? : == != <= >= && || ", " "+op+" ") {
				return nil, fmt.Errorf("the expression %q: unexpected %q", text, op)
			}
			out = append(out, token{operator, text[i:end]})
		}
		i = end
	}
	return out, nil
}

func isDigit(r rune) bool  { return r >= '0' && r <= '9' }
func isLetter(r rune) bool { return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' }

// formulaParser parses by recursive descent.
type formulaParser struct {
	tokens    []token
	at, depth int
	variables []string
}

// accept consumes the next token if it is one of ops.
func (p *formulaParser) accept(ops ...string) (string, bool) {
	if p.at == len(p.tokens) || p.tokens[p.at].kind != operator || !slices.Contains(ops, p.tokens[p.at].text) {
		return "", false
	}
	p.at++
	return p.tokens[p.at-1].text, true
}

// choice parses c ? a : b.
func (p *formulaParser) choice() (node, error) {
	if p.depth++; p.depth > depthMax {
		return nil, fmt.Errorf("is nested more than %d levels deep", depthMax)
	}
	defer func() { p.depth-- }()
	condition, err := p.binary(0)
	if err != nil {
		return nil, err
	}
	if _, ok := p.accept("?"); !ok {
		return condition, nil
	}
	yes, err := p.choice()
	if err != nil {
		return nil, err
	}
	if _, ok := p.accept(":"); !ok {
		return nil, fmt.Errorf("a question mark has no colon")
	}
	no, err := p.choice()
	if err != nil {
		return nil, err
	}
	return func(v []float64) float64 {
		if truth(condition(v)) {
			return yes(v)
		}
		return no(v)
	}, nil
}

// levels holds the binary operators by precedence, lowest first.
func levels() [][]string {
	return [][]string{{"||"}, {"&&"}, {"==", "!="}, {"<", "<=", ">", ">="}, {"+", "-"}, {"*", "/", "%"}}
}

// binary parses operators of a level and of all higher levels. They associate to the left.
func (p *formulaParser) binary(level int) (node, error) {
	all := levels()
	if level == len(all) {
		return p.unary()
	}
	left, err := p.binary(level + 1)
	if err != nil {
		return nil, err
	}
	for {
		op, ok := p.accept(all[level]...)
		if !ok {
			return left, nil
		}
		right, err := p.binary(level + 1)
		if err != nil {
			return nil, err
		}
		left = combined(op, left, right)
	}
}

func combined(op string, left, right node) node {
	compute := operators()[op]
	return func(v []float64) float64 { return compute(left(v), right(v)) }
}

func (p *formulaParser) unary() (node, error) {
	if p.depth++; p.depth > depthMax {
		return nil, fmt.Errorf("is nested more than %d levels deep", depthMax)
	}
	defer func() { p.depth-- }()
	op, ok := p.accept("-", "!", "+")
	if !ok {
		return p.primary()
	}
	inner, err := p.unary()
	switch {
	case err != nil:
		return nil, err
	case op == "-":
		return func(v []float64) float64 { return -inner(v) }, nil
	case op == "!":
		return func(v []float64) float64 { return oneIf(!truth(inner(v))) }, nil
	}
	return inner, nil
}

func (p *formulaParser) primary() (node, error) {
	if p.at == len(p.tokens) {
		return nil, fmt.Errorf("ends too early")
	}
	t := p.tokens[p.at]
	p.at++
	switch {
	case t.kind == name:
		i, _ := slices.BinarySearch(p.variables, t.text)
		return func(v []float64) float64 { return v[i] }, nil
	case t.kind == number:
		v, err := strconv.ParseFloat(t.text, 64)
		if err != nil {
			return nil, fmt.Errorf("%q is not a number", t.text)
		}
		return func([]float64) float64 { return v }, nil
	case t.text == "(":
		inner, err := p.choice()
		if err != nil {
			return nil, err
		}
		if _, ok := p.accept(")"); !ok {
			return nil, fmt.Errorf("a bracket is not closed")
		}
		return inner, nil
	}
	return nil, fmt.Errorf("unexpected %q", t.text)
}

// operators returns the binary operators by symbol.
func operators() map[string]func(a, b float64) float64 {
	return map[string]func(a, b float64) float64{
		"+": func(a, b float64) float64 { return a + b },
		"-": func(a, b float64) float64 { return a - b },
		"*": func(a, b float64) float64 { return a * b },
		"/": func(a, b float64) float64 {
			if b == 0 {
				return 0
			}
			return a / b
		},
		"%": func(a, b float64) float64 {
			if b == 0 {
				return 0
			}
			return math.Mod(a, b)
		},
		"==": func(a, b float64) float64 { return oneIf(a == b) },
		"!=": func(a, b float64) float64 { return oneIf(a != b) },
		"<":  func(a, b float64) float64 { return oneIf(a < b) },
		"<=": func(a, b float64) float64 { return oneIf(a <= b) },
		">":  func(a, b float64) float64 { return oneIf(a > b) },
		">=": func(a, b float64) float64 { return oneIf(a >= b) },
		"&&": func(a, b float64) float64 { return oneIf(truth(a) && truth(b)) },
		"||": func(a, b float64) float64 { return oneIf(truth(a) || truth(b)) },
	}
}

func truth(v float64) bool { return v != 0 && !math.IsNaN(v) }

func oneIf(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
