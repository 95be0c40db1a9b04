package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/gorilla/mux"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"

	"halite/api/netlimit"
	"halite/api/ui"
	"halite/storage"
	"halite/storage/principal"
)

// healthy answers /-/healthy: 200 while the process answers requests, and 503 once only a restart helps. It does not report
// readiness.
func (s *Server) healthy(w http.ResponseWriter, r *http.Request) {
	if err := s.refusing(); errors.Is(err, storage.ErrFailed) {
		s.text(w, r, http.StatusServiceUnavailable, fmt.Sprintf("Service Unavailable: %s\n", err))
		return
	}
	s.text(w, r, http.StatusOK, s.opts.Build.Name+" is Healthy.\n")
}

// ready answers /-/ready: 200 while the server answers requests and accepts writes, otherwise 503 with the reason.
func (s *Server) ready(w http.ResponseWriter, r *http.Request) {
	state := s.opts.Ready()
	if err := s.refusing(); state.Ready && err != nil {
		state.Ready, state.Reason = false, "writes are refused, reads are answered: "+err.Error()
	}
	if state.Ready {
		s.text(w, r, http.StatusOK, s.opts.Build.Name+" is Ready.\n")
		return
	}
	setStopping(w, state)
	s.setRetryAfter(w, state.RetryAfter)
	s.text(w, r, http.StatusServiceUnavailable, fmt.Sprintf("Service Unavailable: %s\n", state.Reason))
}

// refusing returns the error with which writes are refused now, or nil.
func (s *Server) refusing() error {
	if s.opts.Refusing == nil {
		return nil
	}
	return s.opts.Refusing()
}

// text answers with plain text; a HEAD request gets only the header.
func (s *Server) text(w http.ResponseWriter, r *http.Request, code int, message string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(code)
	if r.Method != http.MethodHead {
		// A failed write means that the client is gone, so there is nobody to notify.
		_, _ = w.Write([]byte(message))
	}
}

// reload answers /-/reload: the server reads its configuration again. It answers 403 unless reloads are enabled, and 500
// with the reason if the previous configuration stays.
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

// quit answers /-/quit: the server stops like on SIGTERM, after it has finished running requests and this one. It answers
// 403 unless that is enabled.
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

// gatheredBytes estimates the memory of all metrics while they are written.
const gatheredBytes = 1 << 20

// ownMetrics returns the handler of /metrics. It bounds the requests at once, and counts the memory of a response. It answers
// even above the memory limit, because an operator needs the metrics most when memory is short.
func (s *Server) ownMetrics() http.HandlerFunc {
	exposition := promhttp.HandlerFor(s.opts.Gatherer, promhttp.HandlerOpts{
		ErrorHandling: promhttp.HTTPErrorOnError, MaxRequestsInFlight: s.opts.Limits.MetricsRequestsMax,
	})
	return func(w http.ResponseWriter, r *http.Request) {
		budget := s.newBudget(r.Context())
		defer budget.end()
		if budget.reserve(gatheredBytes) == nil {
			budget.sending(netlimit.ResponseOf(r.Context()))
		}
		exposition.ServeHTTP(w, r)
	}
}

// overviewWait bounds the look-up of samples for the overview.
const overviewWait = time.Second

// overview answers /api/v1/status/overview: whether the server is ready, whether samples arrive, what it refused, and its
// address for users. Prometheus has no such endpoint.
func (s *Server) overview(r *http.Request) (reply, *apiError) {
	state, build := s.opts.Ready(), &s.opts.Build
	arriving, known := s.receivesSamples(r.Context(), state.Ready)
	url := s.opts.ExternalURL
	if url == "" {
		url = s.hosts.URL(r) + s.opts.RoutePrefix
	}
	return document(ui.Overview{
		Name: build.Name, Version: build.Version, APIVersion: build.APIVersion, DocsURL: build.DocsURL,
		Ready: state.Ready, Reason: state.Reason, Arriving: arriving, Waiting: known && !arriving, OwnJob: s.opts.OwnJob,
		Refused: s.refusals(), URL: url,
	})
}

// refusals describes the refusals of the past hour.
func (s *Server) refusals() []ui.Refusal {
	list := []ui.Refusal{}
	for _, f := range s.opts.Senders.Refusals() {
		fix := f.Fix()
		from := f.From.Address
		if f.From.UserAgent != "" {
			from += " (" + f.From.UserAgent + ")"
		}
		list = append(list, ui.Refusal{
			What: f.What(), Why: fix.Words, From: from, Example: f.Last.Message, AtMs: f.Last.Time.UnixMilli(),
			Line: fix.Line, Where: fix.Where,
		})
	}
	return list
}

// self answers /api/v1/status/self: the name and the rights of the sender. Prometheus has no such endpoint.
func (s *Server) self(r *http.Request) (reply, *apiError) {
	p := principal.From(r.Context())
	return document(struct {
		Name       string   `json:"name"`
		Scopes     []string `json:"scopes"`
		Restricted bool     `json:"restricted"`
		Tenants    []string `json:"tenants"`
		// ReadsSeries reports whether the sender may read series. On a server with tenants it needs one for that.
		ReadsSeries bool `json:"readsSeries"`
		// Admin reports whether the server has the admin endpoints.
		Admin bool `json:"adminApi"`
	}{
		p.Name, strings.Split(p.Scopes.String(), ","), p.Restricted(), append([]string{}, p.Tenants...),
		s.opts.Tenancy == nil || len(p.Tenants) > 0, s.opts.AdminAPI,
	})
}

// uiAsset answers with a file of the web interface.
func uiAsset(files *ui.Files) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) { files.Asset(w, r, mux.Vars(r)["name"]) }
}

// receivesSamples reports whether samples other than the server's own have arrived within the past hour. known is false if
// the look-up fails or takes too long.
func (s *Server) receivesSamples(ctx context.Context, ready bool) (arriving, known bool) {
	if !ready {
		return false, false
	}
	ctx, cancel := context.WithTimeout(ctx, overviewWait)
	defer cancel()
	var others []*labels.Matcher
	if s.opts.OwnJob != "" {
		others = append(others, labels.MustNewMatcher(labels.MatchNotEqual, "job", s.opts.OwnJob))
	}
	nowMs := s.opts.Now().UnixMilli()
	names, err := s.opts.Index.LabelValues(ctx, model.MetricNameLabel, nowMs-time.Hour.Milliseconds(), nowMs, 1, others...)
	return len(names) > 0, err == nil
}
