package api

import (
	"net/http"
	"testing"

	"github.com/prometheus/prometheus/prompb"
	"github.com/stretchr/testify/require"

	"halite/keyschema"
	"halite/query/read"
	"halite/storage"
)

// budgets makes budgets with a limit in bytes.
func budgets(t *testing.T, bytesMax int64) *read.Reader {
	t.Helper()
	type nothing struct {
		read.Index
		read.Head
		storage.Table
	}
	q, err := read.New(read.Options{
		Index: nothing{}, Head: nothing{}, Data: nothing{}, Schema: new(keyschema.Schema), BytesMax: bytesMax,
	})
	require.NoError(t, err)
	return q
}

// TestAnswersAreCounted: the memory of answers has the same limit as the memory of queries.
func TestAnswersAreCounted(t *testing.T) {
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
