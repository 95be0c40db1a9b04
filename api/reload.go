package api

import (
	"fmt"
	"net/http"

	"halite/keyschema"
)

// reload answers /-/reload: the configuration is read again. It answers 403 unless that is switched on, 500 with the
// reason if the former configuration had to stay.
func (s *Server) reload(w http.ResponseWriter, r *http.Request) {
	if s.opts.Reload == nil {
		s.noLifecycle(w, r)
		return
	}
	if !s.opts.Ready().Ready {
		s.ready(w, r) // says why not
		return
	}
	if err := s.opts.Reload(r.Context()); err != nil {
		s.text(w, r, http.StatusInternalServerError, fmt.Sprintf("failed to reload config: %s\n", err))
		return
	}
	w.WriteHeader(http.StatusOK)
}

// quit answers /-/quit: the server stops as on SIGTERM, this request's answer included in those it still finishes. It
// answers 403 unless that is switched on.
func (s *Server) quit(w http.ResponseWriter, r *http.Request) {
	if s.opts.Quit == nil {
		s.noLifecycle(w, r)
		return
	}
	s.text(w, r, http.StatusOK, "Requesting termination... Goodbye!")
	s.opts.Quit()
}

func (s *Server) noLifecycle(w http.ResponseWriter, r *http.Request) {
	s.text(w, r, http.StatusForbidden, "Lifecycle API is not enabled.\n")
}

// schemaRules answers /api/v1/status/schema: the rules that say how row keys are made, in the form of the rules file, the
// default rule last; and the hour that it is, to which from_hour compares. Prometheus has no such endpoint.
func (s *Server) schemaRules(*http.Request) (reply, *apiError) {
	rules := []keyschema.Rule{}
	if s.opts.Rules != nil {
		rules = s.opts.Rules()
	}
	return document(map[string]any{"rules": rules, "hour": keyschema.HourOf(s.opts.Now().UnixMilli())})
}
