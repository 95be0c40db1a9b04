package columnar

import (
	"context"

	"github.com/prometheus/prometheus/model/labels"

	"halite/query/promql"
	"halite/storage/index"
)

// Source opens a session for each query.
type Source interface{ Session() Session }

// Session answers the selectors of one query and counts what it holds.
type Session interface {
	Select(ctx context.Context, w promql.Windows, matchers ...*labels.Matcher) (Selection, error)
	// Metrics lists the metrics that match.
	Metrics(ctx context.Context, w promql.Windows, matchers ...*labels.Matcher) ([]string, error)
	// Take charges bytes to the query's budget or fails; Release gives them back.
	Take(bytes int64) error
	Release(bytes int64)
	Figures() promql.Figures
	// Budget is the budget of the query; nil if the session counts nothing.
	Budget() *promql.Budget
	// Close ends the query: what it holds may be used by others.
	Close()
}

// partSession is a Session that need not find all labels of series.
type partSession interface {
	// SelectPart is Select for those who need the metric's name and the labels of some names only.
	SelectPart(ctx context.Context, w promql.Windows, names []string, matchers ...*labels.Matcher) (Selection, error)
}

// Selection is the series of a selector, sorted by labels, in batches. See promql.Selection.
type Selection interface {
	Len() int
	Labels(i int) labels.Labels
	Batches() int
	// Read reads batch i, or its first piece.
	Read(ctx context.Context, i int) (Batch, error)
	// Close also ends what was not read to its end.
	Close()
}

// Batch is the columns of neighbouring series, or a piece of them: their samples in a span of time. Release ends their
// use.
type Batch struct {
	Columns []promql.Column
	Release func()
	// Next reads the next piece of the same series, once this one is released; nil if there is none.
	Next func(ctx context.Context) (Batch, error)
	// ToMs is the end of the span if there is a next piece, which only has samples after it.
	ToMs int64
}

// Over makes a Source of a Queryable.
func Over(q *promql.Queryable) Source { return source{q} }

type source struct{ *promql.Queryable }

func (s source) Session() Session { return session{s.Queryable.Session()} }

type session struct{ *promql.Session }

func (s session) Select(ctx context.Context, w promql.Windows, matchers ...*labels.Matcher) (Selection, error) {
	return newSelection(s.Session.Select(ctx, w, matchers...))
}

// SelectPartners implements partnered.
func (s session) SelectPartners(
	ctx context.Context, p *index.Partners, w promql.Windows, matchers ...*labels.Matcher,
) (Selection, error) {
	return newSelection(s.Session.SelectPartners(ctx, p, w, matchers...))
}

// SelectPart implements partSession.
func (s session) SelectPart(
	ctx context.Context, w promql.Windows, names []string, matchers ...*labels.Matcher,
) (Selection, error) {
	return newSelection(s.Session.SelectPart(ctx, w, names, matchers...))
}

// selection reads batches of one piece side by side if asked to; those of several one after the other.
type selection struct {
	*promql.Selection
	stream *promql.Stream // the latest of several pieces
}

func newSelection(s *promql.Selection, err error) (Selection, error) {
	if err != nil {
		return nil, err
	}
	return &selection{Selection: s}, nil
}

func (s *selection) Read(ctx context.Context, i int) (Batch, error) {
	if s.Streamed(i) {
		s.end()
		var err error
		if s.stream, err = s.Open(ctx, i); err != nil {
			return Batch{}, err
		}
		return s.next(ctx)
	}
	b, err := s.Selection.Read(ctx, i)
	if err != nil {
		return Batch{}, err
	}
	return Batch{Columns: b.Columns, Release: b.Release, ToMs: b.ToMs}, nil
}

func (s *selection) next(ctx context.Context) (Batch, error) {
	b, err := s.stream.Next(ctx)
	if err != nil {
		return Batch{}, err
	}
	out := Batch{Columns: b.Columns, Release: b.Release, ToMs: b.ToMs}
	if s.stream.More() {
		out.Next = s.next
	} else {
		s.end()
	}
	return out, nil
}

func (s *selection) end() {
	if s.stream != nil {
		s.stream.Close()
		s.stream = nil
	}
}

func (s *selection) Close() {
	s.end()
	s.Selection.Close()
}
