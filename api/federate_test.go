package api

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/promql/promqltest"
	promstorage "github.com/prometheus/prometheus/storage"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protodelim"
)

// federation holds series that end at different times before minute 10, where the clock of a fixture stands.
const federation = `
load 1m
	temperature{room="hall", instance="a:9100"} 1 2 3 4 5 6 7 8 9.5
	temperature{room="a\"\\b\nc"} _ _ _ _ _ -Inf
	ended{job="x"} 1 1 1 1 1 1 1 1 stale
	silent{job="x"} 1 1 1 1 1
	odd{job="x"} _ _ _ _ _ NaN
	{"utf8.metric", "label.dotted"="ü"} _ _ _ _ _ _ 7
`

func newFederation(t *testing.T, change func(*Options)) *fixture {
	store := promqltest.LoadedStorage(t, federation)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	return newFixture(t, func(o *Options) {
		o.Queryable = store
		if change != nil {
			change(o)
		}
	})
}

func selecting(selectors ...string) string {
	return "/federate?" + url.Values{"match[]": selectors}.Encode()
}

// TestFederate compares with what Prometheus answers for these series.
func TestFederate(t *testing.T) {
	f := newFederation(t, nil)
	w := f.get(selecting(`{__name__=~".+"}`, "temperature"))
	require.Equal(t, http.StatusOK, w.Code)
	require.Equal(t, "text/plain; version=0.0.4; charset=utf-8; escaping=underscores", w.Header().Get("Content-Type"))
	require.Equal(t, `# TYPE odd untyped
odd{job="x",instance=""} NaN 300000
# TYPE temperature untyped
temperature{instance="a:9100",room="hall"} 9.5 480000
temperature{room="a\"\\b\nc",instance=""} -Inf 300000
# TYPE utf8_metric untyped
utf8_metric{label_dotted="ü",instance=""} 7 360000
`, body(t, w))
	for _, nothing := range []string{selecting(), selecting("nothing"), selecting("{}"), selecting("ended"), selecting("silent")} {
		w := f.get(nothing)
		require.Equal(t, http.StatusOK, w.Code)
		require.Empty(t, body(t, w), nothing)
	}
	// A longer look-back finds the series that have ended.
	f = newFederation(t, func(o *Options) { o.Lookback = 7 * time.Minute })
	require.Contains(t, body(t, f.get(selecting("silent"))), `silent{job="x",instance=""} 1 240000`)
}

// TestFederateFormats: clients that accept UTF-8 names get them, and scrapers get protobuf.
func TestFederateFormats(t *testing.T) {
	f := newFederation(t, nil)
	get := func(accept string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(http.MethodGet, selecting(`{"utf8.metric"}`, "odd"), nil)
		r.Header.Set("Accept", accept)
		return f.do(r)
	}
	require.Contains(t, body(t, get("text/plain;version=1.0.0;escaping=allow-utf-8")),
		`{"utf8.metric","label.dotted"="ü",instance=""} 7 360000`)
	w := get("application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited;escaping=allow-utf-8")
	families := bytes.NewReader(w.Body.Bytes())
	var odd, dotted dto.MetricFamily
	require.NoError(t, protodelim.UnmarshalFrom(families, &odd))
	require.NoError(t, protodelim.UnmarshalFrom(families, &dotted))
	require.Equal(t, "utf8.metric", dotted.GetName())
	require.Equal(t, dto.MetricType_UNTYPED, dotted.GetType())
	require.EqualValues(t, 360_000, dotted.Metric[0].GetTimestampMs())
	require.True(t, math.IsNaN(odd.Metric[0].GetUntyped().GetValue()))
	require.Equal(t, model.InstanceLabel, odd.Metric[0].Label[1].GetName())
}

// TestReadTimeouts: the errors of the limits of reads name their flags.
func TestReadTimeouts(t *testing.T) {
	f := newFederation(t, func(o *Options) { o.Limits.ReadTimeout = time.Nanosecond })
	w := f.get(selecting("temperature"))
	require.Equal(t, http.StatusServiceUnavailable, w.Code)
	require.Contains(t, body(t, w), "query.max-reads")
	err := readFailure(fmt.Errorf("read rows: %w", context.DeadlineExceeded))
	require.Equal(t, http.StatusServiceUnavailable, err.code())
	require.EqualError(t, err.err,
		"read rows: context deadline exceeded (query.read-timeout): select fewer series or a shorter range")
}

func TestFederateRefuses(t *testing.T) {
	f := newFederation(t, func(o *Options) { o.Limits.ReadSamplesMax = 1 })
	for target, says := range map[string]string{
		"/federate?match[]={":                      "parse error",
		"/federate?match[]=a&x=%zz":                "error parsing form values",
		selecting("odd", "temperature", `{a="b"}`): "exceeded sample limit (1)",
		selecting("temperature"):                   "exceeded sample limit (1)",
	} {
		w := f.get(target)
		require.Equal(t, http.StatusBadRequest, w.Code, target)
		require.Contains(t, body(t, w), says, target)
	}
	require.Equal(t, http.StatusMethodNotAllowed, f.post("/federate", "match[]=up").Code)
	f = newFixture(t, func(o *Options) { o.Queryable = deaf{} })
	w := f.get(selecting("up"))
	require.Equal(t, http.StatusInternalServerError, w.Code)
	require.Equal(t, "no disk\n", body(t, w))
	_, err := New(Options{Lookback: -1})
	require.ErrorContains(t, err, "option Lookback is -1ns")
}

// deaf is a store that cannot be read.
type deaf struct {
	promstorage.SampleAndChunkQueryable
}

func (deaf) Querier(int64, int64) (promstorage.Querier, error) { return nil, errors.New("no disk") }
