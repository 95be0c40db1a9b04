package status

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"

	"halite/query/limits"
	"halite/query/topqueries"
)

// TopQueries is the response to /api/v1/status/top_queries.
type TopQueries struct {
	By      topqueries.By      `json:"by"`
	Queries []topqueries.Query `json:"queries"`
	// Evicted counts queries whose costs were evicted to make room for others.
	Evicted uint64 `json:"evicted"`
}

// TopQueries answers /api/v1/status/top_queries: what queries have cost since the start, by their normalised text.
func (h *Handler) TopQueries(r *http.Request) (any, error) {
	if err := onlyParams(r, "by", "limit"); err != nil {
		return nil, err
	}
	most, err := h.limitOf(r)
	if err != nil {
		return nil, err
	}
	out := TopQueries{By: topqueries.By(cmp.Or(r.FormValue("by"), string(topqueries.ByTime)))}
	if out.Queries, out.Evicted, err = h.opts.TopQueries.List(out.By, most); err != nil {
		return nil, badParam("by", err)
	}
	return out, nil
}

// Rule is the response to an added query rule.
type Rule struct {
	ID string `json:"id"`
}

// ChangeQueryRules answers /api/v1/admin/query_rules: POST and PUT add a rule, DELETE removes one that was added so.
func (h *Handler) ChangeQueryRules(r *http.Request) (any, error) {
	if h.opts.QueryLimits == nil {
		return nil, fmt.Errorf("%w: query rules", ErrOff)
	}
	if r.Method == http.MethodDelete {
		return nil, h.removeRule(r)
	}
	rule, err := ruleOf(r)
	if err != nil {
		return nil, err
	}
	id, err := h.opts.QueryLimits.AddRule(rule)
	switch {
	case errors.Is(err, limits.ErrBadRule):
		return nil, fmt.Errorf("%w: %w", ErrBadRequest, err)
	case errors.Is(err, limits.ErrTooManyRules):
		return nil, fmt.Errorf("%w: %w", ErrFull, err)
	case err != nil:
		return nil, err
	}
	return Rule{id}, nil
}

func (h *Handler) removeRule(r *http.Request) error {
	if err := onlyParams(r, "id"); err != nil {
		return err
	}
	if err := h.opts.QueryLimits.RemoveRule(r.FormValue("id")); err != nil {
		return fmt.Errorf("%w: %w", ErrUnknown, err)
	}
	return nil
}

// ruleOf reads a rule from the parameters of a request. The action is refuse unless given.
func ruleOf(r *http.Request) (rule limits.Rule, err error) {
	if err := onlyParams(r, "query", "regexp", "fingerprint", "token", "action", "reason"); err != nil {
		return rule, err
	}
	rule = limits.Rule{
		Text: r.FormValue("query"), Fingerprint: r.FormValue("fingerprint"), Token: r.FormValue("token"), Reason: r.FormValue("reason"),
	}
	if text := r.FormValue("regexp"); text != "" {
		if rule.Regexp, err = limits.CompileRegexp(text); err != nil {
			return rule, badParam("regexp", err)
		}
	}
	if text := r.FormValue("action"); text != "" {
		if err := rule.Action.UnmarshalText([]byte(text)); err != nil {
			return rule, badParam("action", err)
		}
	}
	return rule, nil
}
