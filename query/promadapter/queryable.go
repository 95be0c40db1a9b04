package promadapter

import (
	"context"

	"github.com/prometheus/prometheus/model/labels"
	promstorage "github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/annotations"

	"halite/query/budget"
	"halite/query/column"
	"halite/query/read"
)

// Queryable implements Prometheus's storage interfaces over a reader.
type Queryable struct {
	reader *read.Reader
	budget *budget.Budget // budget of all queriers; nil if each has its own
}

var _ promstorage.SampleAndChunkQueryable = (*Queryable)(nil)

// New returns a Queryable. Each of its queriers has its own budget.
func New(r *read.Reader) *Queryable { return &Queryable{reader: r} }

// WithBudget returns a Queryable whose queriers share a budget, which they do not close.
func (q *Queryable) WithBudget(b *budget.Budget) promstorage.SampleAndChunkQueryable {
	return &Queryable{reader: q.reader, budget: b}
}

// Reader returns the reader behind the Queryable.
func (q *Queryable) Reader() *read.Reader { return q.reader }

// Querier reads samples with mintMs ≤ time ≤ maxtMs. All its memory is in one budget.
func (q *Queryable) Querier(mintMs, maxtMs int64) (promstorage.Querier, error) {
	return &querier{q.selector(mintMs, maxtMs)}, nil
}

// ChunkQuerier is Querier for callers that want Prometheus's chunks.
func (q *Queryable) ChunkQuerier(mintMs, maxtMs int64) (promstorage.ChunkQuerier, error) {
	return &chunkQuerier{q.selector(mintMs, maxtMs)}, nil
}

func (q *Queryable) selector(mintMs, maxtMs int64) *selector {
	b := q.budget
	if b == nil {
		b = q.reader.Budget()
	}
	return &selector{
		reader: q.reader, session: q.reader.SessionWith(b), shared: q.budget != nil,
		window: column.TimeRange{MinMs: mintMs, MaxMs: maxtMs},
	}
}

// selector is the common part of both kinds of querier.
type selector struct {
	reader  *read.Reader
	session *read.Session
	window  column.TimeRange
	loaders loaders
	shared  bool // the budget is shared with other queriers
}

// Figures returns the figures of the querier's reads until now.
func (s *selector) Figures() read.Figures { return s.session.Figures() }

// Close implements Querier and ChunkQuerier.
func (s *selector) Close() error {
	s.loaders.close()
	if !s.shared {
		s.session.Close()
	}
	return nil
}

// LabelNames implements LabelQuerier.
func (s *selector) LabelNames(
	ctx context.Context, hints *promstorage.LabelHints, matchers ...*labels.Matcher,
) ([]string, annotations.Annotations, error) {
	names, err := s.reader.LabelNames(ctx, s.window, limitOf(hints), matchers...)
	return names, nil, err
}

// LabelValues implements LabelQuerier.
func (s *selector) LabelValues(
	ctx context.Context, name string, hints *promstorage.LabelHints, matchers ...*labels.Matcher,
) ([]string, annotations.Annotations, error) {
	values, err := s.reader.LabelValues(ctx, name, s.window, limitOf(hints), matchers...)
	return values, nil, err
}

func limitOf(hints *promstorage.LabelHints) int {
	if hints == nil {
		return 0
	}
	return hints.Limit
}

// newLoader makes the loader of a selection. It uses the hints Start, End, Limit and the shard.
func (s *selector) newLoader(
	ctx context.Context, hints *promstorage.SelectHints, matchers []*labels.Matcher, valuesOnly bool,
) *loader {
	r := read.Range{TimeRange: s.window, ValuesOnly: valuesOnly}
	copies := false
	if hints != nil {
		r.MinMs, r.MaxMs = max(r.MinMs, hints.Start), min(r.MaxMs, hints.End)
		r.Limit, r.ShardIndex, r.ShardCount = hints.Limit, hints.ShardIndex, hints.ShardCount
		copies = hints.Range > 0 && hints.Func == ""
	}
	return s.loaders.add(&loader{
		ctx: ctx, copies: copies, budget: s.session.Budget(), warnings: s.reader.RetiredHistograms(ctx, r.TimeRange, matchers),
		open: func() (*read.Selection, error) { return s.session.SelectRange(ctx, r, matchers...) },
	})
}
