package api

import (
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/prompb"
	"github.com/stretchr/testify/require"

	"halite/keyschema"
	"halite/query/read"
	"halite/storage"
)

// budgets makes budgets with a limit in bytes.
func budgets(t *testing.T, bytesMax int64) *read.Reader { return poolOf(t, bytesMax, math.MaxInt64) }

// poolOf makes budgets with a limit in bytes for each of them and for all together.
func poolOf(t *testing.T, bytesMax, totalBytesMax int64) *read.Reader {
	t.Helper()
	type nothing struct {
		read.Index
		read.Head
		storage.Table
	}
	q, err := read.New(read.Options{
		Index: nothing{}, Head: nothing{}, Data: nothing{}, Schema: new(keyschema.Schema), BytesMax: bytesMax,
		TotalBytesMax: totalBytesMax,
	})
	require.NoError(t, err)
	return q
}

// TestResponsesAreCounted: the memory of responses has the same limit as the memory of queries.
func TestResponsesAreCounted(t *testing.T) {
	all := matcher(prompb.LabelMatcher_EQ, "job", "node")
	request := &prompb.ReadRequest{Queries: []*prompb.Query{readQuery(0, 600_000, all)}}
	for _, c := range []struct {
		bytesMax int64
		code     int
	}{{1000, http.StatusBadRequest}, {1 << 20, http.StatusOK}} {
		f := newFixture(t, func(o *Options) { o.Budgets = budgets(t, c.bytesMax) })
		w := f.read(t, request)
		require.Equal(t, c.code, w.Code)
		federated := f.get("/federate?match[]=requests_total")
		require.Equal(t, c.code, federated.Code)
		if c.code != http.StatusOK {
			require.Contains(t, body(t, w), "(query.max-bytes or ")
			require.Contains(t, body(t, federated), "(query.max-bytes or ")
		}
	}
}

// TestBodiesAreCounted: forms and bodies have the same limit as the memory of queries.
func TestBodiesAreCounted(t *testing.T) {
	long := strings.Repeat("x", 100<<10)
	form := "match[]=up&query=up&a=" + long
	send := func(f *fixture) map[string]*httptest.ResponseRecorder {
		document := strings.NewReader(`{"metric": "up", "x": "` + long + `"}`)
		return map[string]*httptest.ResponseRecorder{
			"query": f.post("/api/v1/query", form), "series": f.post("/api/v1/series", form),
			"export": f.post("/api/v1/export", form), "influx": f.post("/query", "q=SHOW+DATABASES&a="+long),
			"opentsdb": f.do(httptest.NewRequest(http.MethodPost, "/api/search/lookup", document)),
		}
	}
	f := newFixture(t, func(o *Options) { o.Budgets = budgets(t, 10<<20) })
	for name, w := range send(f) {
		require.Equal(t, http.StatusOK, w.Code, name)
	}
	full := poolOf(t, 10<<20, 10<<20)
	for full.BudgetOf(t.Context()).Reserve(1<<20) == nil {
	}
	f = newFixture(t, func(o *Options) { o.Budgets = full })
	for name, w := range send(f) {
		require.Equal(t, http.StatusServiceUnavailable, w.Code, name)
		require.Contains(t, body(t, w), "(query.max-total-bytes)", name)
	}
}
