package opentsdb

import (
	"context"
	"errors"

	"github.com/prometheus/prometheus/model/labels"

	"halite/query"
	"halite/query/opentsdb/expression"
	"halite/query/opentsdb/request"
)

// Runner runs work within the query limits; *query.Engine implements it.
type Runner interface {
	Do(ctx context.Context, w query.Work, compute func(context.Context, *query.Reading) (responseBytes int64, err error)) (
		*query.Result, error)
}

// Names lists label names and values; *index.Index implements it. mintMs and maxtMs are milliseconds and inclusive. limit
// bounds the result; 0 means no limit.
type Names interface {
	LabelNames(ctx context.Context, mintMs, maxtMs int64, limit int, matchers ...*labels.Matcher) ([]string, error)
	LabelValues(ctx context.Context, name string, mintMs, maxtMs int64, limit int, matchers ...*labels.Matcher,
	) ([]string, error)
}

// Options configures an Engine.
type Options struct {
	// Runner and Names are required.
	Runner Runner
	Names  Names
}

// Engine evaluates queries. It is safe for concurrent use.
type Engine struct{ opts Options }

// New returns an Engine. It fails if an option is missing.
func New(o Options) (*Engine, error) {
	if o.Runner == nil || o.Names == nil {
		return nil, errors.New("opentsdb: Runner and Names are required")
	}
	return &Engine{opts: o}, nil
}

// Client describes a client and its query in the list of active queries.
type Client struct{ Address, Text string }

// Response is the result of a query. The caller closes it after writing it.
type Response struct {
	// Series are ordered by sub-query, then by tags.
	Series []Series
	// Warnings are messages for the user.
	Warnings []string
	// Read has one entry for each sub-query, in their order.
	Read []Figures

	*query.Result
}

// Series is the result of one group.
type Series struct {
	// Sub is the sub-query that produced the series. Percentiles and buckets add a suffix to Metric.
	Sub *request.SubQuery
	// Rollup is the interval of the stored rollups behind the series; "" if it was computed from samples.
	Rollup string
	expression.Series
}

// Figures count the samples and series that a sub-query has read and returned.
type Figures struct{ Series, Samples, Rows, Points int64 }

// Add adds other to f.
func (f *Figures) Add(other Figures) {
	f.Series += other.Series
	f.Samples += other.Samples
	f.Rows += other.Rows
	f.Points += other.Points
}

// warningInterpolated explains why another system may return different values.
const warningInterpolated = "some values are interpolated: at their time a series of the group has no sample"

// Run evaluates a query. The error is a *query.Error.
func (e *Engine) Run(ctx context.Context, q *request.Query, c Client) (*Response, error) {
	return e.run(ctx, q, c, func(*Response, *query.Reading) error { return nil })
}

// run evaluates a query and passes the response to finish, which may replace its series.
func (e *Engine) run(ctx context.Context, q *request.Query, c Client, finish func(*Response, *query.Reading) error) (
	*Response, error,
) {
	w := query.Work{Kind: "opentsdb", Text: c.Text, StartMs: q.StartMs, EndMs: q.EndMs, Client: c.Address}
	for i := range q.Subs {
		if q.Subs[i].Metric != "" {
			w.Selectors = append(w.Selectors, q.Subs[i].Matchers())
		}
	}
	a := &Response{}
	result, err := e.opts.Runner.Do(ctx, w, func(ctx context.Context, r *query.Reading) (int64, error) {
		var sizeBytes int64
		for i := range q.Subs {
			run := &subRun{engine: e, query: q, sub: &q.Subs[i], reading: r}
			series, err := run.evaluate(ctx)
			if err != nil {
				return 0, err
			}
			a.Series = append(a.Series, series...)
			a.Read = append(a.Read, run.figures)
		}
		interpolated := false
		for i := range a.Series {
			sizeBytes += a.Series[i].sizeBytes()
			interpolated = interpolated || a.Series[i].Interpolated
		}
		if interpolated {
			a.Warnings = append(a.Warnings, warningInterpolated)
		}
		return sizeBytes, finish(a, r)
	})
	if err != nil {
		return nil, err
	}
	a.Result = result
	return a, nil
}

// sizeBytes returns the approximate memory of the series.
func (s *Series) sizeBytes() int64 {
	bytes := 200 + 16*int64(s.Len())
	for _, t := range s.Tags {
		bytes += int64(len(t.Name) + len(t.Value) + 32)
	}
	for _, ids := range [][]string{s.TSUIDs, s.FormerTSUIDs} {
		for _, id := range ids {
			bytes += int64(len(id) + 16)
		}
	}
	return bytes
}

func badRequest(err error) error { return &query.Error{Type: query.ErrorBadData, Err: err} }
