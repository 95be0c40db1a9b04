package api_test

import (
	"context"
	"net/http/httptest"
	"testing"
	"time"

	client "github.com/prometheus/client_golang/api"
	v1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"

	"halite/api/internal/comparison"
)

// newClient is Prometheus' own Go client of the whole database. Its address ends in a slash, as people write it.
func newClient(t *testing.T) v1.API {
	s := newStack(t)
	s.load(t)
	web := httptest.NewServer(s.Handler())
	t.Cleanup(web.Close)
	c, err := client.NewClient(client.Config{Address: web.URL + "/"})
	require.NoError(t, err)
	return v1.NewAPI(c)
}

// TestGoClientQueries sends the queries of Prometheus' client and reads the responses with it.
func TestGoClientQueries(t *testing.T) {
	ctx, c := context.Background(), newClient(t)
	start, end := time.Unix(comparison.Start, 0), time.Unix(comparison.End, 0)
	value, warnings, err := c.Query(ctx, `up{instance=~"a.*|b.*"}`, end, v1.WithTimeout(time.Minute), v1.WithLimit(1),
		v1.WithLookbackDelta(time.Minute), v1.WithStats(v1.AllStatsValue))
	require.NoError(t, err)
	require.Len(t, value.(model.Vector), 1)
	require.Equal(t, v1.Warnings{"results truncated due to limit"}, warnings)
	value, _, err = c.QueryRange(ctx, "sum by (code) (rate(http_requests_total[5m]))",
		v1.Range{Start: start, End: end, Step: time.Minute})
	require.NoError(t, err)
	require.Len(t, value.(model.Matrix), 3)
	require.Len(t, value.(model.Matrix)[0].Values, 60) // none at the start
	_, _, err = c.Query(ctx, "up{", end)
	var fault *v1.Error
	require.ErrorAs(t, err, &fault)
	require.Equal(t, v1.ErrBadData, fault.Type)
	_, _, err = c.Query(ctx, "http_requests_total / on (instance) up", end)
	require.ErrorAs(t, err, &fault)
	require.Equal(t, v1.ErrExec, fault.Type)

	names, _, err := c.LabelNames(ctx, []string{"up"}, start, end)
	require.NoError(t, err)
	require.Equal(t, model.LabelNames{"__name__", "instance", "job"}, names)
	values, warnings, err := c.LabelValues(ctx, "instance", []string{"up"}, start, end, v1.WithLimit(2))
	require.NoError(t, err)
	require.Len(t, values, 2)
	require.NotEmpty(t, warnings)
	values, _, err = c.LabelValues(ctx, "label with space", nil, start, end)
	require.NoError(t, err)
	require.Equal(t, model.LabelValues{"x"}, values)
	series, _, err := c.Series(ctx, []string{"up", `{"utf8.metric"}`}, start, end)
	require.NoError(t, err)
	require.Len(t, series, 4)
	exemplars, err := c.QueryExemplars(ctx, "up", start, end)
	require.NoError(t, err)
	require.Empty(t, exemplars)
	text, err := c.FormatQuery(ctx, "sum(up)by(job)")
	require.NoError(t, err)
	require.Equal(t, `"sum by (job) (up)"`, text) // the client leaves it as JSON
}

// TestGoClientStatus: Prometheus' client can read the responses to all its other calls.
func TestGoClientStatus(t *testing.T) {
	ctx, c := context.Background(), newClient(t)
	for name, call := range map[string]func() (any, error){
		"alerts":           func() (any, error) { return c.Alerts(ctx) },
		"alertmanagers":    func() (any, error) { return c.AlertManagers(ctx) },
		"rules":            func() (any, error) { return c.Rules(ctx, []string{"up"}) },
		"targets":          func() (any, error) { return c.Targets(ctx) },
		"targets metadata": func() (any, error) { return c.TargetsMetadata(ctx, `{job="x"}`, "up", "1") },
		"metadata":         func() (any, error) { return c.Metadata(ctx, "", "10") },
		"config":           func() (any, error) { return c.Config(ctx) },
		"flags":            func() (any, error) { return c.Flags(ctx) },
		"tsdb":             func() (any, error) { return c.TSDB(ctx, v1.WithLimit(3)) },
		"blocks":           func() (any, error) { return c.TSDBBlocks(ctx) },
		"log replay":       func() (any, error) { return c.WalReplay(ctx) },
	} {
		_, err := call()
		require.NoError(t, err, name)
	}
	build, err := c.Buildinfo(ctx)
	require.NoError(t, err)
	require.Equal(t, "3.15.0", build.Version)
	runtime, err := c.Runtimeinfo(ctx)
	require.NoError(t, err)
	require.Positive(t, runtime.GoroutineCount)
	_, err = c.Snapshot(ctx, false)
	require.ErrorContains(t, err, "this server cannot make snapshots")
}
