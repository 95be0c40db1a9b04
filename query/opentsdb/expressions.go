package opentsdb

import (
	"context"
	"errors"
	"fmt"

	"github.com/prometheus/prometheus/promql"

	"halite/query"
	"halite/query/opentsdb/expression"
	"halite/query/opentsdb/request"
)

// Output is the value of a variable of /api/query/exp. All its series have the same times.
type Output struct {
	request.Output
	TsMs   []int64
	Series []expression.Combined
}

// Expressions evaluates a query with formulas. The caller closes the Response after writing the outputs. The error is a
// *query.Error.
func (e *Engine) Expressions(ctx context.Context, x *request.Expressions, c Client) ([]Output, *Response, error) {
	var outputs []Output
	a, err := e.run(ctx, x.Query, c, func(a *Response, r *query.Reading) error {
		known := a.variables(x)
		for _, f := range x.Formulas {
			if err := ctx.Err(); err != nil {
				return err
			}
			series, err := f.Formula.Apply(inputs(f.Formula, known), f.Join, r.Hold)
			if err != nil {
				return err
			}
			known[f.ID] = expression.Variable{Name: f.ID, Fill: f.Fill, Series: series}
		}
		for _, o := range x.Outputs {
			v := known[o.ID]
			series, err := v.Align(r.Hold)
			if err != nil {
				return err
			}
			out := Output{Output: o, Series: series}
			if len(series) > 0 {
				out.TsMs = series[0].TsMs
			}
			outputs = append(outputs, out)
		}
		return nil
	})
	return outputs, a, err
}

// variables returns the variables of the metrics by ID.
func (a *Response) variables(x *request.Expressions) map[string]expression.Variable {
	known := map[string]expression.Variable{}
	for i, m := range x.Metrics {
		v := expression.Variable{Name: m.ID, Fill: m.Fill, Series: expression.Combine(a.series(i))}
		for _, f := range x.Query.Subs[i].Filters {
			v.QueryTags = append(v.QueryTags, f.Key)
		}
		known[m.ID] = v
	}
	return known
}

// series returns the series of a sub-query.
func (a *Response) series(sub int) (out []expression.Series) {
	for i := range a.Series {
		if a.Series[i].Sub.Index == sub {
			out = append(out, a.Series[i].Series)
		}
	}
	return out
}

// inputs returns the variables of a formula, in its order.
func inputs(f *expression.Formula, known map[string]expression.Variable) []expression.Variable {
	out := make([]expression.Variable, len(f.Variables))
	for i, name := range f.Variables {
		out[i] = known[name]
	}
	return out
}

// Functions evaluates calls of functions on series. The error is a *query.Error.
func (e *Engine) Functions(ctx context.Context, q *request.Query, calls []*request.Call, c Client) (*Response, error) {
	return e.run(ctx, q, c, func(a *Response, r *query.Reading) error {
		var out []Series
		for _, call := range calls {
			series, err := a.call(call, r.Hold)
			if err != nil {
				return err
			}
			for _, s := range series {
				s.Clip(q.StartMs, q.EndMs)
				out = append(out, Series{Sub: &q.Subs[call.First()], Series: s})
			}
		}
		a.Series = out
		return nil
	})
}

// call evaluates a call.
func (a *Response) call(c *request.Call, hold expression.Hold) ([]expression.Series, error) {
	args := make([][]expression.Series, len(c.Args))
	for i, arg := range c.Args {
		if arg.Call == nil {
			args[i] = a.series(arg.Sub)
			continue
		}
		var err error
		if args[i], err = a.call(arg.Call, hold); err != nil {
			return nil, err
		}
	}
	out, err := c.Function(args, c.Params, hold)
	if tooMany := promql.ErrTooManySamples(""); errors.As(err, &tooMany) {
		return nil, err
	}
	if err != nil {
		return nil, &query.Error{Type: query.ErrorBadData, Err: fmt.Errorf("%s: %w", c.Name, err)}
	}
	return out, nil
}
