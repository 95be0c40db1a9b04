package api

import (
	"context"

	promstorage "github.com/prometheus/prometheus/storage"

	"halite/api/netlimit"
	"halite/query/budget"
	"halite/query/promadapter"
	"halite/storage/index"
)

// responseBudget counts the memory of an answer against the memory of queries until the last byte is written. Without
// Options.Budgets it counts nothing.
type responseBudget struct{ budget *budget.Budget }

// newBudget begins to count. The caller ends it after the answer is written.
func (s *Server) newBudget() responseBudget {
	if s.opts.Budgets == nil {
		return responseBudget{}
	}
	return responseBudget{s.opts.Budgets.Budget()}
}

// take adds bytes, or fails with a *budget.LimitError.
func (b responseBudget) take(bytes int) error {
	if b.budget == nil {
		return nil
	}
	return b.budget.Reserve(int64(bytes))
}

// settle replaces what was counted before by bytes.
func (b responseBudget) settle(bytes int) error {
	if b.budget == nil {
		return nil
	}
	return b.budget.Reset(int64(bytes))
}

// sending reports that the answer is being written. If the client is slow, a query that needs the memory may end it.
func (b responseBudget) sending(r budget.Response) {
	if b.budget != nil {
		b.budget.StartSending(r)
	}
}

// forLookup returns the budget of look-ups in the index.
func (b responseBudget) forLookup() index.Budget {
	if b.budget == nil {
		return nil
	}
	return b.budget.Reserve
}

func (b responseBudget) end() {
	if b.budget != nil {
		b.budget.Close()
	}
}

// readUnder returns the store. Its reads count in b if the store supports that.
func (s *Server) readUnder(b responseBudget) promstorage.SampleAndChunkQueryable {
	if q, ok := s.opts.Queryable.(*promadapter.Queryable); ok && b.budget != nil {
		return q.WithBudget(b.budget)
	}
	return s.opts.Queryable
}

// answerOf returns the transfer of the answer to a request, or nil if the request did not come through package netlimit.
func answerOf(ctx context.Context) budget.Response {
	if c, ok := netlimit.FromContext(ctx); ok {
		return c
	}
	return nil
}
