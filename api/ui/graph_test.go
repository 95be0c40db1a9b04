package ui

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/util/strutil"
	"github.com/stretchr/testify/require"
)

// TestGraph follows links as Prometheus writes them to the page of queries.
func TestGraph(t *testing.T) {
	const expr = `sum(rate(x{a="1&2 + 3"}[5m])) > 2`
	for _, c := range []struct {
		link string
		want url.Values
	}{
		{strutil.TableLinkForExpression(expr), url.Values{"expr": {expr}, "tab": {"table"}}},
		{strutil.GraphLinkForExpression(expr), url.Values{"expr": {expr}}},
		{
			"/graph?g0.expr=a&g0.tab=graph&g0.range_input=2h&g0.step_input=15&g0.end_input=2023-11-14+22%3A13%3A20&g1.expr=b&g3.expr=d",
			url.Values{"expr": {"a", "b"}, "range": {"2h"}, "step": {"15s"}, "end": {"1700000000000"}},
		},
		{"/graph?g0.expr=a&g0.step_input=1m&g0.end_input=soon&g0.tab=9&%zz", url.Values{"expr": {"a"}, "step": {"1m"}}},
		{"/graph", url.Values{}},
		{"/graph?" + strings.Repeat("g0.expr=a&", 2*graphsMax), url.Values{"expr": {"a"}}},
	} {
		w := httptest.NewRecorder()
		Graph(w, httptest.NewRequest(http.MethodGet, c.link, nil))
		require.Equal(t, http.StatusFound, w.Code)
		base, err := url.Parse("https://proxy/prefix" + c.link)
		require.NoError(t, err)
		to, err := base.Parse(w.Header().Get("Location"))
		require.NoError(t, err)
		require.Equal(t, "https://proxy/prefix/", to.Scheme+"://"+to.Host+to.Path)
		// The page parses what follows the question mark as a form.
		page, query, _ := strings.Cut(w.Header().Get("Location"), "?")
		require.Equal(t, "./#/query", page)
		got, err := url.ParseQuery(query)
		require.NoError(t, err)
		require.Equal(t, c.want, got, c.link)
	}
}
