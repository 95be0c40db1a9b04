package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/pprof"
	"strings"
	"sync/atomic"

	"halite/api"
	"halite/api/auth"
	"halite/ingest"
	"halite/storage/principal"
)

// gate answers requests before the store is open and after the server has begun to stop. It answers 503 with Retry-After, so that
// a sender keeps its samples and retries.
type gate struct {
	handler  atomic.Pointer[http.Handler]
	stopping atomic.Bool
	// replay is the progress of the replay of the log; nil before it begins.
	replay atomic.Pointer[ingest.ReplayProgress]
	// waiting names the resource that the start lacks; nil if it lacks none.
	waiting atomic.Pointer[string]
	// profiles answers below /debug/pprof/; nil hides it.
	profiles http.Handler
}

// newGate returns a closed gate.
func newGate() *gate { return &gate{} }

// profile serves the Go runtime's profiles to administrators, even before the store is open.
func (g *gate) profile(a *auth.Authenticator) {
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	g.profiles = a.Require(principal.Admin, mux)
}

// open lets requests through to h.
func (g *gate) open(h http.Handler) { g.handler.Store(&h) }

// wait sets the error that readiness reports for the start; nil means none.
func (g *gate) wait(lack error) {
	if lack == nil {
		g.waiting.Store(nil)
		return
	}
	why := lack.Error()
	g.waiting.Store(&why)
}

// stop makes readiness report that the server is shutting down.
func (g *gate) stop() { g.stopping.Store(true) }

// replaying sets the progress of the replay that readiness reports.
func (g *gate) replaying(now ingest.ReplayProgress) { g.replay.Store(&now) }

func (g *gate) readiness() api.Readiness {
	switch {
	case g.stopping.Load():
		return api.Readiness{Stopping: true, Reason: "the server is shutting down"}
	case g.handler.Load() == nil:
		return api.Readiness{Reason: g.startReason()}
	}
	return api.Readiness{Ready: true}
}

// startReason returns the reason why a starting server is not ready.
func (g *gate) startReason() string {
	if why := g.waiting.Load(); why != nil {
		return "the server cannot start yet: " + *why
	}
	now := g.replay.Load()
	if now == nil {
		return "the server is starting: it replays its log"
	}
	return fmt.Sprintf("the server is starting: it has replayed %d %% of its log (%d of %d MiB; %d series, %d samples)",
		now.Percent(), now.Bytes>>20, now.TotalBytes>>20, now.Series, now.Samples)
}

func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if g.profiles != nil && strings.HasPrefix(r.URL.Path, "/debug/pprof/") {
		g.profiles.ServeHTTP(w, r)
		return
	}
	if h := g.handler.Load(); h != nil {
		(*h).ServeHTTP(w, r)
		return
	}
	if r.URL.Path == "/-/healthy" {
		io.WriteString(w, "Halite is healthy.\n")
		return
	}
	w.Header().Set("Retry-After", "2")
	http.Error(w, g.readiness().Reason, http.StatusServiceUnavailable)
}
