package query

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/prometheus/prometheus/promql"
	promstorage "github.com/prometheus/prometheus/storage"
)

// Tally counts how queries were evaluated.
type Tally struct{ Whole, Mixed, Undecided, Engine atomic.Int64 }

// TalliedEngine is the engine inside an Engine, for Prometheus' own tests, with a count of what it did.
type TalliedEngine struct {
	*dispatcher
	withoutStarts *dispatcher
	Tally
}

// NewTallied makes an engine with any of Prometheus' options.
func NewTallied(opts promql.EngineOpts) *TalliedEngine {
	t := &TalliedEngine{dispatcher: newDispatcher(opts)}
	opts.UseStartTimestamps = false
	t.withoutStarts = newDispatcher(opts)
	return t
}

// Close closes both engines.
func (t *TalliedEngine) Close() error {
	return errors.Join(t.dispatcher.Close(), t.withoutStarts.Close())
}

// engineFor returns the engine for a Queryable. Operators leave rates to Prometheus's engine if start timestamps are on, so a
// Queryable that has none says so.
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
	query, err := t.engineFor(q).NewInstantQuery(ctx, q, opts, qs, ts)
	return talliedQuery{query, &t.Tally}, err
}

func (t *TalliedEngine) NewRangeQuery(
	ctx context.Context, q promstorage.Queryable, opts promql.QueryOpts, qs string, start, end time.Time,
	step time.Duration,
) (promql.Query, error) {
	query, err := t.engineFor(q).NewRangeQuery(ctx, q, opts, qs, start, end, step)
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
