package rules

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/prometheus/promql"
	promrules "github.com/prometheus/prometheus/rules"

	"halite/query"
)

// Evaluate answers an instant query, as query.Engine.Instant does.
type Evaluate func(ctx context.Context, r query.InstantRequest) (*query.Result, error)

// queryFunc returns a query function for the rule manager. Its queries have the limits of other queries. The list of
// active queries and the query log name the rule as their client. They skip the result cache, because each evaluates at
// another time.
func queryFunc(evaluate Evaluate) promrules.QueryFunc {
	return func(ctx context.Context, text string, at time.Time) (promql.Vector, error) {
		params := query.Params{NoCache: true, Client: "rule " + promrules.FromOriginContext(ctx).Name}
		result, err := evaluate(ctx, query.InstantRequest{Query: text, TimeMs: at.UnixMilli(), Params: params})
		if ctx.Err() != nil && err != nil {
			return nil, promql.ErrQueryCanceled(fmt.Sprintf("the server stops: %v", err))
		}
		if err != nil {
			return nil, err
		}
		defer result.Close()
		switch v := result.Value.(type) {
		case promql.Vector:
			out := make(promql.Vector, len(v))
			copy(out, v)
			for n := range out {
				if out[n].H != nil {
					out[n].H = out[n].H.Copy() // the result's memory is used again
				}
			}
			return out, nil
		case promql.Scalar:
			return promql.Vector{{T: v.T, F: v.V}}, nil
		}
		return nil, errors.New("the result of a rule must be a vector or a scalar")
	}
}
