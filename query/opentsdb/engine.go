package opentsdb

import (
	"context"
	"errors"

	"github.com/prometheus/prometheus/model/labels"

	"halite/query"
	"halite/query/opentsdb/expression"
	"halite/query/opentsdb/request"
)

// Runner runs work within the limits of queries; *query.Engine is one.
type Runner interface {
	Do(ctx context.Context, w query.Work, compute func(context.Context, *query.Reading) (answerBytes int64, err error)) (
		*query.Result, error)
}

// Names looks up names that exist at any time; *index.Index implements it. Times are inclusive milliseconds; limit 0 means
// all.
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

// Engine answers queries. It is safe for concurrent use.
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

// Answer is the answer to a query. Close it once it is written.
type Answer struct {
	// Series are in the order of the sub-queries, then of their tags.
	Series []Series
	// Warnings are texts for the users of the answer.
	Warnings []string
	// Read holds the figures of each sub-query.
	Read []Figures

	*query.Result
}

// Series is the answer of one group.
type Series struct {
	// Sub is the sub-query. With percentiles or buckets the metric has a suffix.
	Sub *request.SubQuery
	// Rollup is the interval of the stored rollups that answered, or "".
	Rollup string
	expression.Series
}

// Figures count the samples and series that a sub-query has read and returned.
type Figures struct{ Series, Samples, Rows, Points int64 }

// Add adds other figures.
func (f *Figures) Add(other Figures) {
	f.Series += other.Series
	f.Samples += other.Samples
	f.Rows += other.Rows
	f.Points += other.Points
}

// warningInterpolated says that another system may return other values, and why.
const warningInterpolated = "some values are interpolated: at their time a series of the group has no sample"

// Run answers a query. The error is a *query.Error.
func (e *Engine) Run(ctx context.Context, q *request.Query, c Client) (*Answer, error) {
	return e.run(ctx, q, c, func(*Answer, *query.Reading) error { return nil })
}

// run answers a query. finish may replace the series of the answer.
func (e *Engine) run(ctx context.Context, q *request.Query, c Client, finish func(*Answer, *query.Reading) error) (
	*Answer, error,
) {
	w := query.Work{Kind: "opentsdb", Text: c.Text, StartMs: q.StartMs, EndMs: q.EndMs, Client: c.Address}
	for i := range q.Subs {
		if q.Subs[i].Metric != "" {
			w.Selectors = append(w.Selectors, q.Subs[i].Matchers())
		}
	}
	a := &Answer{}
	result, err := e.opts.Runner.Do(ctx, w, func(ctx context.Context, r *query.Reading) (int64, error) {
		var sizeBytes int64
		for i := range q.Subs {
			run := &subRun{engine: e, query: q, sub: &q.Subs[i], reading: r}
			series, err := run.answer(ctx)
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

// sizeBytes returns the approximate memory of the answer.
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
