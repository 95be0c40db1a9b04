package columnar

import (
	"context"

	"github.com/prometheus/prometheus/model/labels"

	"halite/query/promql"
)

// Source opens a session for each query.
type Source interface{ Session() Session }

// Session answers the selectors of one query and counts what it holds.
type Session interface {
	Select(ctx context.Context, w promql.Windows, matchers ...*labels.Matcher) (Selection, error)
	// Take charges bytes to the query's budget or fails; Release gives them back.
	Take(bytes int64) error
	Release(bytes int64)
	Figures() promql.Figures
}

// Selection is the series of a selector, sorted by labels, in batches. See promql.Selection.
type Selection interface {
	Len() int
	Labels(i int) labels.Labels
	Batches() int
	Read(ctx context.Context, i int) (Batch, error)
	Close()
}

// Batch is the columns of neighbouring series; Release ends their use.
type Batch struct {
	Columns []promql.Column
	Release func()
}

// Over makes a Source of a Queryable.
func Over(q *promql.Queryable) Source { return source{q} }

type source struct{ *promql.Queryable }

func (s source) Session() Session { return session{s.Queryable.Session()} }

type session struct{ *promql.Session }

func (s session) Select(ctx context.Context, w promql.Windows, matchers ...*labels.Matcher) (Selection, error) {
	sel, err := s.Session.Select(ctx, w, matchers...)
	if err != nil {
		return nil, err
	}
	return selection{sel}, nil
}

type selection struct{ *promql.Selection }

func (s selection) Read(ctx context.Context, i int) (Batch, error) {
	b, err := s.Selection.Read(ctx, i)
	if err != nil {
		return Batch{}, err
	}
	return Batch{Columns: b.Columns, Release: b.Release}, nil
}
