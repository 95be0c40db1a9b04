package query

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"halite/query/read"
)

// ActiveQuery is a query that runs or waits for a slot.
type ActiveQuery struct {
	ID    uint64
	Kind  string // "instant" or "range"
	Query string
	Start time.Time
	// FromMs, ToMs and StepMs are the requested range; both ends are equal for an instant query.
	FromMs, ToMs, StepMs int64
	// Client is Params.Client.
	Client string
	// Waiting is true until the query has a slot.
	Waiting bool
	// Samples is the number of samples that columnar operators have read so far.
	Samples int64
}

type activeList struct {
	mu      sync.Mutex
	last    uint64
	queries map[uint64]*activeEntry
}

type activeEntry struct {
	ActiveQuery
	cancel     context.CancelCauseFunc
	evaluating atomic.Bool
	session    atomic.Pointer[read.Session]
}

func newActiveList() *activeList { return &activeList{queries: map[uint64]*activeEntry{}} }

// add lists a query until it is removed.
func (l *activeList) add(q request, start time.Time, cancel context.CancelCauseFunc) *activeEntry {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last++
	e := &activeEntry{cancel: cancel, ActiveQuery: ActiveQuery{
		ID: l.last, Kind: q.kind, Query: q.Text, Start: start, FromMs: q.Start.UnixMilli(), ToMs: q.End.UnixMilli(),
		StepMs: q.Step.Milliseconds(), Client: q.Client,
	}}
	l.queries[l.last] = e
	return e
}

func (l *activeList) remove(e *activeEntry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.queries, e.ID)
}

func (l *activeList) list() []ActiveQuery {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make([]ActiveQuery, 0, len(l.queries))
	for _, e := range l.queries {
		q := e.ActiveQuery
		q.Waiting = !e.evaluating.Load()
		if s := e.session.Load(); s != nil {
			q.Samples = s.Figures().Samples
		}
		out = append(out, q)
	}
	// IDs grow in the order of arrival.
	slices.SortFunc(out, func(a, b ActiveQuery) int { return int(int64(a.ID) - int64(b.ID)) })
	return out
}

func (l *activeList) cancel(id uint64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	q, ok := l.queries[id]
	if ok {
		q.cancel(ErrCancelled)
	}
	return ok
}
