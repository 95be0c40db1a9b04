package api

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/stretchr/testify/require"

	"halite/query"
	"halite/query/limits"
	"halite/query/topqueries"
)

// watched is a server that counts the cost of queries and accepts query rules.
func watched(t *testing.T) *fixture {
	t.Helper()
	store := promqltest.LoadedStorage(t, world)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	control := limits.New(nil)
	top, err := topqueries.New(topqueries.Options{})
	require.NoError(t, err)
	engine, err := query.New(query.Options{Queryable: store, Limits: control, Top: top})
	require.NoError(t, err)
	return newFixture(t, func(o *Options) { o.Engine, o.QueryLimits, o.TopQueries, o.AdminAPI = engine, control, top, true })
}

// topOf gets the top queries.
func topOf(t *testing.T, f *fixture, params string) (list []topqueries.Query) {
	t.Helper()
	w := f.get("/api/v1/status/top_queries?" + params)
	require.Equal(t, http.StatusOK, w.Code, w.Body)
	var response struct {
		Data struct{ Queries []topqueries.Query }
	}
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &response))
	return response.Data.Queries
}

func TestTopQueries(t *testing.T) {
	f := watched(t)
	for _, expr := range []string{`up{job="node",instance="a:9100"}`, `up{ instance="a:9100", job="node" }`, `sum(up)`, `up{`} {
		f.get("/api/v1/query?query=" + url.QueryEscape(expr))
	}
	f.get("/api/v1/query_range?query=sum(up)&start=1&end=61&step=15")
	f.get("/api/v1/query?query=up+%2B+on()+up") // many-to-many fails
	require.Empty(t, topOf(t, watched(t), ""))
	list := topOf(t, f, "by=count")
	require.Len(t, list, 3)
	require.Equal(t, "sum(up)", list[0].Query)
	require.EqualValues(t, 2, list[0].Count)
	require.NotEmpty(t, list[0].Fingerprint)
	require.Len(t, topOf(t, f, "by=time&limit=1"), 1)
	failed := list[2]
	require.Equal(t, "up + on () up", failed.Query)
	require.EqualValues(t, 1, failed.Errors)
	for _, params := range []string{"by=size", "limit=0", "limit=x", "limit=10001", "what=x"} {
		require.Equal(t, http.StatusBadRequest, f.get("/api/v1/status/top_queries?"+params).Code, params)
	}
}

// TestDeepExpressions: every endpoint refuses an expression that is too deep before it parses it.
func TestDeepExpressions(t *testing.T) {
	f := watched(t)
	nested := func(depth int) string { return strings.Repeat("(", depth) + "up" + strings.Repeat(")", depth) }
	for _, c := range []struct {
		path  string
		depth int
		limit string
	}{
		{"query", 2000, "(query.max-depth)"}, {"query_range", 2000, "(query.max-depth)"}, {"explain", 2000, "(query.max-depth)"},
		{"parse_query", 2000, "(query.max-depth)"}, {"query_exemplars", 2000, "(query.max-depth)"},
		{"format_query", 300, "(query.max-format-depth)"},
	} {
		form := "start=1&end=61&step=15&time=60&query="
		require.Equal(t, http.StatusOK, f.post("/api/v1/"+c.path, form+nested(c.depth)).Code, c.path)
		w := f.post("/api/v1/"+c.path, form+nested(c.depth+1))
		require.Equal(t, http.StatusBadRequest, w.Code, c.path)
		require.Contains(t, body(t, w), c.limit, c.path)
	}
	for _, q := range topOf(t, f, "") {
		require.Zero(t, q.Errors, "a refused text was parsed")
	}
}

func TestAddedQueryRules(t *testing.T) {
	f := watched(t)
	const path = "/api/v1/admin/query_rules"
	statusOf := func(expr string) int { return f.get("/api/v1/query?query=" + url.QueryEscape(expr)).Code }
	require.Equal(t, http.StatusOK, statusOf("sum(up)"))
	print := topOf(t, f, "")[0].Fingerprint
	w := f.post(path, "reason=too+heavy&fingerprint="+print)
	require.Equal(t, `{"status":"success","data":{"id":"added-1"}}`, body(t, w))
	require.Equal(t, http.StatusUnprocessableEntity, statusOf("sum( up )"))
	require.Equal(t, http.StatusOK, statusOf("up"))
	require.Contains(t, body(t, f.get("/api/v1/status/query_rules")), `"source":"api","matches":1`)
	require.Equal(t, http.StatusOK, f.post(path, "reason=x&action=slow_lane&regexp=u.*").Code)
	remove := func(id string) int { return f.do(httptest.NewRequest(http.MethodDelete, path+"?id="+id, nil)).Code }
	require.Equal(t, http.StatusNoContent, remove("added-1"))
	require.Equal(t, http.StatusNotFound, remove("added-1"))
	require.Equal(t, http.StatusOK, statusOf("sum(up)"))
	for _, form := range []string{"", "query=up", "reason=x&regexp=(", "reason=x&query=sum(", "reason=x&query=up&action=drop",
		"reason=x&query=up&what=x"} {
		require.Equal(t, http.StatusBadRequest, f.post(path, form).Code, form)
	}
	for range 99 {
		require.Equal(t, http.StatusOK, f.post(path, "reason=x&token=y").Code)
	}
	require.Equal(t, http.StatusUnprocessableEntity, f.post(path, "reason=x&token=y").Code)
	off := newFixture(t, func(o *Options) { o.AdminAPI = true })
	require.Equal(t, http.StatusUnprocessableEntity, off.post(path, "reason=x&token=y").Code)
	require.Equal(t, http.StatusForbidden, newFixture(t, nil).post(path, "reason=x&token=y").Code)
}
