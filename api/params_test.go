package api

import (
	"bytes"
	"math"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestParseTime(t *testing.T) {
	for text, want := range map[string]time.Time{
		"0":                                   time.Unix(0, 0).UTC(),
		"123":                                 time.Unix(123, 0).UTC(),
		"1.4567":                              time.Unix(1, 457e6).UTC(),
		"-1.5":                                time.Unix(-1, -500e6).UTC(),
		"1700000000.9999":                     time.Unix(1700000001, 0).UTC(),
		"1e3":                                 time.Unix(1000, 0).UTC(),
		"2015-06-03T13:21:58.555Z":            time.Unix(1433337718, 555e6).UTC(),
		"2015-06-03T14:21:58.555+01:00":       time.Unix(1433337718, 555e6).UTC(),
		"-292273086-05-16T16:47:06Z":          minTime,
		"292277025-08-18T07:12:54.999999999Z": maxTime,
	} {
		got, err := parseTime(text)
		require.NoError(t, err, text)
		require.True(t, want.Equal(got), "%s: %s", text, got)
	}
	for _, text := range []string{"", "x", "30s", "NaN", "Inf", "-Inf", "1e300", "1e16", "2015-06-03", "0x"} {
		_, err := parseTime(text)
		require.EqualError(t, err, `cannot parse "`+text+`" to a valid timestamp`)
	}
}

// TestTooManyParameters sends more parameters than net/url reads, in the URL and in the body.
func TestTooManyParameters(t *testing.T) {
	f := newFixture(t, func(o *Options) { o.AdminAPI = true })
	within := "query=up" + strings.Repeat("&a=1", paramsMax-1)
	over := within + "&match[]=up"
	require.Equal(t, http.StatusOK, f.get("/api/v1/query?"+within).Code)
	require.Equal(t, http.StatusOK, f.post("/api/v1/query", within).Code)
	want := bad("error parsing form values: more than 10000 parameters; send several requests")
	for _, path := range []string{
		"query", "query_range", "labels", "series", "query_exemplars", "format_query", "explain", "admin/tsdb/delete_series",
	} {
		w := f.post("/api/v1/"+path, over)
		require.Equal(t, http.StatusBadRequest, w.Code, path)
		require.JSONEq(t, want, body(t, w), path)
	}
	for _, path := range []string{"/api/v1/query", "/api/v1/status/tsdb", "/federate", "/api/suggest", "/query"} {
		w := f.get(path + "?" + over)
		require.Equal(t, http.StatusBadRequest, w.Code, path)
		require.Contains(t, body(t, w), "more than 10000 parameters", path)
	}
	for _, path := range []string{ImportPath, importTextPath, "/write", "/api/put"} {
		w := f.post(path+"?"+over, "up 1")
		require.Equal(t, http.StatusBadRequest, w.Code, path)
		require.Contains(t, body(t, w), "more than 10000 parameters", path)
	}
	require.Equal(t, http.StatusBadRequest, f.post("/query", over).Code, "InfluxDB's queries")

	var text bytes.Buffer
	parts := multipart.NewWriter(&text)
	for range 2000 { // more than mime/multipart reads
		require.NoError(t, parts.WriteField("match[]", "up"))
	}
	require.NoError(t, parts.Close())
	r := httptest.NewRequest(http.MethodPost, "/api/v1/series", &text)
	r.Header.Set("Content-Type", parts.FormDataContentType())
	w := f.do(r)
	require.Equal(t, http.StatusBadRequest, w.Code)
	require.Contains(t, body(t, w), "multipart: message too large")
}

func TestParseDuration(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"0": 0, "1": time.Second, "0.5": 500 * time.Millisecond, "-1": -time.Second, "15s": 15 * time.Second,
		"1m30s": 90 * time.Second, "5m": 5 * time.Minute, "1e3": 1000 * time.Second, "1d": 24 * time.Hour,
		"250ms": 250 * time.Millisecond,
	} {
		got, err := parseDuration(text)
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
	for _, text := range []string{"", "x", "NaN", "1x", "30s1m", "1e300", "-1e300", "Inf"} {
		_, err := parseDuration(text)
		require.ErrorContains(t, err, "to a valid duration", text)
	}
}

func TestUnixMs(t *testing.T) {
	require.Equal(t, int64(1500), unixMs(time.Unix(1, 500e6)))
	require.Equal(t, int64(-500), unixMs(time.Unix(-1, 500e6)))
	require.Negative(t, unixMs(minTime))
	require.Positive(t, unixMs(maxTime))
	require.Equal(t, int64(math.MaxInt64), unixMs(time.Unix(secondsMax, 0)))
	require.Equal(t, int64(math.MinInt64), unixMs(time.Unix(-secondsMax-5, 0)))
	mint, maxt, ok := storeBounds(minTime, maxTime)
	require.True(t, ok)
	require.Zero(t, mint)
	require.Positive(t, maxt)
	_, _, ok = storeBounds(minTime, time.Unix(-1, 0))
	require.False(t, ok)
	_, _, ok = storeBounds(maxTime, maxTime)
	require.False(t, ok)
}

func FuzzParseTime(f *testing.F) {
	for _, seed := range []string{"", "0", "1.5", "-1", "1e18", "NaN", "2015-06-03T13:21:58Z", "9223372036854775.807"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		at, err := parseTime(text)
		if err != nil {
			require.ErrorContains(t, err, "to a valid timestamp")
			return
		}
		ms := unixMs(at)
		if back := time.UnixMilli(ms); ms > math.MinInt64 && ms < math.MaxInt64 {
			require.LessOrEqual(t, at.Sub(back).Abs(), time.Millisecond, text)
		}
		if mint, maxt, ok := storeBounds(at, at); ok {
			require.Equal(t, mint, maxt)
			require.Equal(t, ms, mint)
		}
	})
}

func FuzzParseDuration(f *testing.F) {
	for _, seed := range []string{"", "0", "1.5", "-1", "1e18", "NaN", "1m30s", "5m", "9223372036.854775807"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		d, err := parseDuration(text)
		if err == nil && text[0] != '-' {
			require.GreaterOrEqual(t, d, time.Duration(0), text)
		}
	})
}

// FuzzParameters sends arbitrary query strings to the endpoints that read the most of them.
func FuzzParameters(f *testing.F) {
	fix := newFixture(f, nil)
	f.Add("query=up&time=60", "limit=1")
	f.Add("query=up&start=0&end=60&step=15s", "timeout=1s&stats=all&lookback_delta=1m")
	f.Add("match[]=up&match[]={job=~\"x.*\"}&start=1", "end=2015-06-03T13:21:58Z")
	f.Add("%zz;&&==", "\x00=\xff")
	f.Fuzz(func(t *testing.T, inURL, inBody string) {
		for _, path := range []string{"query", "query_range", "series", "labels", "parse_query", "format_query"} {
			// A query may run without end, which this test does not cover.
			target := &url.URL{Path: "/api/v1/" + path, RawQuery: "timeout=100ms&" + inURL}
			r := newRequest("POST", target, inBody)
			w := fix.do(r)
			require.Contains(t, []int{200, 400, 422, 499, 503}, w.Code, "%s: %s", path, w.Body)
			require.True(t, validJSON(w.Body.Bytes()), "%s", w.Body)
		}
		require.Zero(t, fix.metric(t, "tsdb_http_panics_total", map[string]string{}))
	})
}
