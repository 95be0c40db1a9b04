package api

import (
	"context"
	"errors"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"halite/keyschema"
)

func TestReload(t *testing.T) {
	f := newFixture(t, nil)
	w := f.post("/-/reload", "")
	require.Equal(t, http.StatusForbidden, w.Code)
	require.Equal(t, "Lifecycle API is not enabled.\n", body(t, w))

	var reason error
	ready := false
	f = newFixture(t, func(o *Options) {
		o.Reload = func(context.Context) error { return reason }
		o.Ready = func() Readiness { return Readiness{Ready: ready, Reason: "replaying the log"} }
	})
	require.Equal(t, http.StatusServiceUnavailable, f.post("/-/reload", "").Code)
	ready = true
	w = f.post("/-/reload", "")
	require.Equal(t, http.StatusOK, w.Code)
	require.Empty(t, body(t, w))
	reason = errors.New("rules.json is not there")
	w = f.post("/-/reload", "")
	require.Equal(t, http.StatusInternalServerError, w.Code)
	require.Equal(t, "failed to reload config: rules.json is not there\n", body(t, w))
	require.Equal(t, http.StatusMethodNotAllowed, f.get("/-/reload").Code)
}

func TestQuit(t *testing.T) {
	f := newFixture(t, nil)
	w := f.post("/-/quit", "")
	require.Equal(t, http.StatusForbidden, w.Code)
	require.Equal(t, "Lifecycle API is not enabled.\n", body(t, w))

	quits := 0
	f = newFixture(t, func(o *Options) { o.Quit = func() { quits++ } })
	require.Equal(t, http.StatusMethodNotAllowed, f.get("/-/quit").Code)
	require.Zero(t, quits)
	w = f.post("/-/quit", "")
	require.Equal(t, http.StatusOK, w.Code)
	require.Equal(t, "Requesting termination... Goodbye!", body(t, w))
	require.Equal(t, 1, quits)
}

func TestSchemaRules(t *testing.T) {
	f := newFixture(t, func(o *Options) {
		o.Rules = func() []keyschema.Rule {
			return []keyschema.Rule{{Pattern: "m", Salts: 4, Promoted: []string{"route"}, Basis: keyschema.BasisPromoted}}
		}
	})
	require.Contains(t, body(t, f.get("/api/v1/status/schema")),
		`"rules":[{"pattern":"m","from_hour":0,"salts":4,"promoted":["route"],"basis":"promoted"}]`)
	require.Contains(t, body(t, newFixture(t, nil).get("/api/v1/status/schema")), `"rules":[]`)
}
