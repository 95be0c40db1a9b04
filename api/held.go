package api

import (
	"context"

	readers "halite/query/promql"
)

// held counts what an answer holds, against what it and all queries under way may. Without Budgets it counts nothing.
type held struct{ budget *readers.Budget }

// hold begins to count. End it once the answer was written.
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

// metered has look-ups in the catalogue count what they make.
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
