package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"halite/keyschema"
	"halite/storage/retention"
)

// RetentionSource says what each tier of each rule takes on disk, and what other ages would free.
type RetentionSource func(ctx context.Context, try retention.WhatIf) ([]retention.Cost, error)

// retention answers /api/v1/status/retention: see retention.Cost. The parameters raw, hours and days name ages to try, rule
// the pattern of the only rule to change. Prometheus has no such endpoint.
func (s *Server) retention(r *http.Request) (reply, *apiError) {
	if s.opts.Retention == nil {
		return document(map[string]any{"costs": []retention.Cost{}})
	}
	try := retention.WhatIf{Pattern: r.FormValue("rule")}
	for t := keyschema.Raw; t < keyschema.TierCount; t++ {
		text := r.FormValue(t.String())
		if text == "" {
			continue
		}
		age, err := keyschema.ParseAge(text)
		if err != nil {
			return reply{}, &apiError{typ: errBadData, err: fmt.Errorf("invalid parameter %q: %w", t.String(), err)}
		}
		try.Ages[t] = &age
	}
	costs, err := s.opts.Retention(r.Context(), try)
	switch {
	case errors.Is(err, retention.ErrBadWhatIf):
		return reply{}, &apiError{typ: errBadData, err: err}
	case err != nil:
		return reply{}, &apiError{typ: errInternal, err: fmt.Errorf("weigh what is kept: %w", err)}
	}
	return document(map[string]any{"costs": costs})
}
