package api

import (
	"context"

	promstorage "github.com/prometheus/prometheus/storage"

	"halite/api/netlimit"
	readers "halite/query/promql"
)

// held counts the memory of an answer against the memory of queries until the last byte is written. Without Budgets it
// counts nothing.
type held struct{ budget *readers.Budget }

// hold begins to count. The caller ends it after the answer is written.
func (s *Server) hold() held {
	if s.opts.Budgets == nil {
		return held{}
	}
	return held{s.opts.Budgets.Budget()}
}

// take counts bytes in, or fails with a *readers.LimitError.
func (h held) take(bytes int) error {
	if h.budget == nil {
		return nil
	}
	return h.budget.Take(int64(bytes))
}

// settle counts bytes instead of everything before.
func (h held) settle(bytes int) error {
	if h.budget == nil {
		return nil
	}
	return h.budget.Settle(int64(bytes))
}

// sending says that the answer is being written; queries that need its memory may end it when the client is slow.
func (h held) sending(a readers.Answer) {
	if h.budget != nil {
		h.budget.Sending(a)
	}
}

// metered has look-ups in the catalogue count the memory that they take.
func (h held) metered(ctx context.Context) context.Context {
	if h.budget == nil {
		return ctx
	}
	metered, _ := h.budget.Metered(ctx)
	return metered
}

func (h held) end() {
	if h.budget != nil {
		h.budget.End()
	}
}

// readUnder is the store, whose reads count with the answer where that is possible.
func (s *Server) readUnder(h held) promstorage.SampleAndChunkQueryable {
	if q, ok := s.opts.Queryable.(*readers.Queryable); ok && h.budget != nil {
		return q.Under(h.budget)
	}
	return s.opts.Queryable
}

// answerOf returns the transfer of the answer to a request; nil if the request did not come through package netlimit.
func answerOf(ctx context.Context) readers.Answer {
	if c, ok := netlimit.FromContext(ctx); ok {
		return c
	}
	return nil
}
