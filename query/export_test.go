package query

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/prometheus/prometheus/promql"
	promstorage "github.com/prometheus/prometheus/storage"

	"halite/query/expression"
)

// Tally counts how queries were evaluated.
type Tally struct{ Whole, Mixed, Undecided, Engine atomic.Int64 }

// TalliedEngine is the dispatcher of an Engine for Prometheus's own tests. It counts the kinds of evaluations.
type TalliedEngine struct {
	*dispatcher
	withoutStarts *dispatcher
	Tally
}

// NewTallied returns an engine with Prometheus's options.
func NewTallied(opts promql.EngineOpts) *TalliedEngine {
	t := &TalliedEngine{dispatcher: newDispatcher(opts)}
	opts.UseStartTimestamps = false
	t.withoutStarts = newDispatcher(opts)
	return t
}

// Close closes both engines.
func (t *TalliedEngine) Close() error {
	return errors.Join(t.engine.Close(), t.withoutStarts.engine.Close())
}

// engineFor returns the engine for a Queryable. Operators leave rates to Prometheus's engine if start timestamps are on, so a
// Queryable without start timestamps turns them off.
func (t *TalliedEngine) engineFor(q promstorage.Queryable) *dispatcher {
	if s, ok := q.(interface{ NoStartTimes() bool }); ok && s.NoStartTimes() {
		return t.withoutStarts
	}
	return t.dispatcher
}

type talliedQuery struct {
	promql.Query
	tally *Tally
}

func (t *TalliedEngine) NewInstantQuery(
	ctx context.Context, q promstorage.Queryable, opts promql.QueryOpts, qs string, ts time.Time,
) (promql.Query, error) {
	query, err := t.engineFor(q).newQuery(ctx, q, opts, expression.Expression{Text: qs, Start: ts, End: ts})
	return talliedQuery{query, &t.Tally}, err
}

func (t *TalliedEngine) NewRangeQuery(
	ctx context.Context, q promstorage.Queryable, opts promql.QueryOpts, qs string, start, end time.Time,
	step time.Duration,
) (promql.Query, error) {
	query, err := t.engineFor(q).newQuery(ctx, q, opts, expression.Expression{
		Text: qs, Start: start, End: end, Step: step, IsRange: true,
	})
	return talliedQuery{query, &t.Tally}, err
}

func (q talliedQuery) Exec(ctx context.Context) *promql.Result {
	result := q.Query.Exec(ctx)
	h, ok := q.Query.(*columnarQuery)
	switch {
	case !ok:
		q.tally.Engine.Add(1)
	case h.explain.Undecided:
		q.tally.Undecided.Add(1)
	case h.plan.Whole():
		q.tally.Whole.Add(1)
	default:
		q.tally.Mixed.Add(1)
	}
	return result
}
