package request

import (
	"net/url"
	"regexp"
	"strings"

	"halite/query/opentsdb/expression"
)

// Call is a call of a function on series.
type Call struct {
	Name     string
	Function expression.Function
	Args     []Argument
	// Params are the texts of the arguments that are not series.
	Params []string
}

// Argument is the series of a sub-query, or of another call.
type Argument struct {
	Call *Call // if nil, Sub is the index of the sub-query
	Sub  int
}

// First returns the index of the first sub-query in the call; 0 if it has none.
func (c *Call) First() int {
	if len(c.Args) == 0 {
		return 0
	}
	if first := c.Args[0]; first.Call == nil {
		return first.Sub
	}
	return c.Args[0].Call.First()
}

// Functions parses the parameters of /api/query/gexp: the parameters of /api/query, and exp for each call.
func (p *Parser) Functions(v url.Values) (*Query, []*Call, error) {
	if v.Get("start") == "" {
		return nil, nil, bad("Missing parameter <code>start</code>")
	}
	c := &callParser{functions: expression.Functions()}
	var calls []*Call
	for _, text := range v["exp"] {
		call, err := c.call(strings.TrimSpace(text), 0)
		if err != nil {
			return nil, nil, err
		}
		calls = append(calls, call)
	}
	if len(c.specs) == 0 {
		return nil, nil, bad("Missing sub queries")
	}
	inner := url.Values{}
	for name, values := range v {
		if name != "exp" && name != "tsuid" && name != "tsuids" {
			inner[name] = values
		}
	}
	inner["m"] = c.specs
	raw, err := parseURL(inner)
	if err != nil {
		return nil, nil, err
	}
	q, err := p.check(raw) // keeps repeated sub-queries, because arguments refer to positions
	return q, calls, err
}

// callParser collects the sub-queries of calls.
type callParser struct {
	functions map[string]expression.Function
	specs     []string
}

// callDepthMax bounds the nesting of calls.
const callDepthMax = 100

// call parses name(argument,…).
func (c *callParser) call(text string, depth int) (*Call, error) {
	if depth > callDepthMax {
		return nil, bad("The expression is nested deeper than %d", callDepthMax)
	}
	name, rest, open := strings.Cut(text, "(")
	inner, closed := strings.CutSuffix(rest, ")")
	if !open || !closed {
		return nil, bad("Failed to parse %s: a function and its arguments in brackets are expected", text)
	}
	call := &Call{Name: strings.TrimSpace(name)}
	if call.Function = c.functions[call.Name]; call.Function == nil {
		return nil, bad("Function %s has not been implemented", call.Name)
	}
	isCall := regexp.MustCompile(`^[A-Za-z]+\s*\(`)
	for _, arg := range split(inner, ',') {
		arg = strings.TrimSpace(arg)
		switch {
		case arg == "":
			return nil, bad("Failed to parse %s: an argument is empty", text)
		case arg[0] == '\'' || arg[0] == '"':
			call.Params = append(call.Params, arg)
		case isCall.MatchString(arg):
			sub, err := c.call(arg, depth+1)
			if err != nil {
				return nil, err
			}
			call.Args = append(call.Args, Argument{Call: sub})
		case strings.Contains(arg, ":"):
			call.Args = append(call.Args, Argument{Sub: len(c.specs)})
			c.specs = append(c.specs, arg)
		default:
			call.Params = append(call.Params, arg)
		}
	}
	return call, nil
}
