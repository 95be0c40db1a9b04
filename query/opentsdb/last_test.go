package opentsdb_test

import (
	"errors"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/stretchr/testify/require"

	"halite/query"
	"halite/query/opentsdb"
	"halite/query/opentsdb/request"
	"halite/query/promadapter"
	"halite/query/read/readtest"
)

// TestLastFailsWithItsReads: after a failed read there is no response, instead of one without some points.
func TestLastFailsWithItsReads(t *testing.T) {
	w := readtest.NewWorld(t)
	w.Add(labels.FromStrings("__name__", "m", "host", "a")).Table[readtest.Base] = 1
	w.Add(labels.FromStrings("__name__", "m", "host", "b")).Head[readtest.Base] = 2
	w.Store(readtest.NewRand(t))
	runner, err := query.New(query.Options{Queryable: promadapter.New(w.Reader(nil))})
	require.NoError(t, err)
	e, err := opentsdb.New(opentsdb.Options{Runner: runner, Names: w})
	require.NoError(t, err)
	last := func() (*opentsdb.LastResponse, error) {
		q := &request.Last{Subs: []request.LastSub{{Metric: "m"}}}
		return e.Last(t.Context(), q, readtest.Base+1, opentsdb.Client{})
	}

	response, err := last()
	require.NoError(t, err)
	require.Len(t, response.Points, 2)
	response.Close()

	for _, fail := range []func(err error){
		func(err error) { w.HeadErr = err },
		func(err error) { w.FailRow, w.FailErr, w.HeadErr = 1, err, nil },
	} {
		broken := errors.New("the disk is broken")
		fail(broken)
		_, err = last()
		require.ErrorIs(t, err, broken)
		var typed *query.Error
		require.ErrorAs(t, err, &typed)
		require.Equal(t, query.ErrorInternal, typed.Type)
	}
}
