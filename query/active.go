package query

import (
	"context"
	"slices"
	"sync"
	"time"
)

// ActiveQuery is a query that runs or waits for a place.
type ActiveQuery struct {
	ID    uint64
	Kind  string // "instant" or "range"
	Query string
	Start time.Time
}

type activeList struct {
	mu      sync.Mutex
	last    uint64
	queries map[uint64]activeEntry
}

type activeEntry struct {
	ActiveQuery
	cancel context.CancelCauseFunc
}

func newActiveList() *activeList { return &activeList{queries: map[uint64]activeEntry{}} }

// add lists a query; the function it returns removes it.
func (l *activeList) add(query, kind string, start time.Time, cancel context.CancelCauseFunc) (remove func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last++
	id := l.last
	l.queries[id] = activeEntry{ActiveQuery{ID: id, Kind: kind, Query: query, Start: start}, cancel}
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.queries, id)
	}
}

func (l *activeList) list() []ActiveQuery {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make([]ActiveQuery, 0, len(l.queries))
	for _, q := range l.queries {
		out = append(out, q.ActiveQuery)
	}
	// Ids are handed out in order of arrival.
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
