package api_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/stretchr/testify/require"

	"halite/api"
	"halite/api/internal/comparison"
	"halite/ingest"
	"halite/ingest/deletion"
	"halite/query"
	"halite/query/opentsdb"
	"halite/storage"
	"halite/storage/notes"
	"halite/storage/principal"
	"halite/storage/storagetest"
	"halite/storage/tombstone"
)

// otsdbStart is the time of the first sample of otsdbSamples, in seconds.
const otsdbStart = comparison.End - 600

// otsdbSamples are ten integers a minute of two hosts, the second 20 s later, and fractions with a gap.
func otsdbSamples() (list []ingest.Sample) {
	add := func(tsMs int64, v float64, pairs ...string) {
		list = append(list, ingest.Sample{Labels: labels.FromStrings(pairs...), TsMs: tsMs, Value: v})
	}
	for i := range int64(10) {
		at := (otsdbStart + i*60) * 1000
		add(at, float64(10*i), "__name__", "sys.cpu", "host", "web01", "dc", "lga")
		add(at+20_000, float64(5*i+1), "__name__", "sys.cpu", "host", "web02", "dc", "lga")
		if i != 3 {
			add(at, float64(i)+0.5, "__name__", "mem", "host", "web01", "dc", "sjc")
		}
	}
	add(otsdbStart*1000+1, 1, "__name__", "fast", "host", "web01")
	add(otsdbStart*1000+2, 3, "__name__", "fast", "host", "web01")
	add(otsdbStart*1000, 7, "__name__", "sys.cpu", "host", "web03", "dc", "lga", "_rollup_interval", "1h",
		"_rollup_aggregator", "SUM")
	return list
}

// otsdb is a database with otsdbSamples, half of them flushed. Its deleter only records calls.
type otsdb struct {
	*stack
	deleted *notingDeleter
}

type notingDeleter struct {
	api.Deleter
	requests []deletion.Request
}

func (d *notingDeleter) DeleteSeries(_ context.Context, r deletion.Request) (int, error) {
	d.requests = append(d.requests, r)
	return 1, nil
}

func newOTSDB(t *testing.T, o query.Options) *otsdb {
	s := &otsdb{stack: newStack(t), deleted: &notingDeleter{}}
	meta, err := storagetest.NewModel(comparison.Now).EnsureTable(t.Context(), storage.MetaSchema())
	require.NoError(t, err)
	s.notes = notes.New(meta, func(context.Context) error { return nil })
	ctx, samples := context.Background(), otsdbSamples()
	for _, part := range [][]ingest.Sample{samples[:len(samples)/2], samples[len(samples)/2:]} {
		_, err := s.ingester.Write(ctx, ingest.SamplesInput(part))
		require.NoError(t, err)
		if len(part) == len(samples)/2 {
			require.NoError(t, s.ingester.Flush(ctx))
		}
	}
	o.Queryable = s.queryable
	engine, err := query.New(o)
	require.NoError(t, err)
	front, err := opentsdb.New(opentsdb.Options{Runner: engine, Names: s.index})
	require.NoError(t, err)
	s.Server, err = api.New(api.Options{
		Writer: s.ingester, Engine: engine, Index: s.index, Queryable: s.queryable, Now: comparison.Now, AdminAPI: true,
		OpenTSDB: front, Deleter: s.deleted, Auth: roles{}, Notes: s.notes, Aliases: s.aliases,
	})
	require.NoError(t, err)
	return s
}

// roles accepts every request as the principal in the header Authorization.
type roles struct{}

func (roles) Identify(r *http.Request) (*principal.Principal, error) {
	switch r.Header.Get("Authorization") {
	case "reader":
		return &principal.Principal{Name: "reader", Scopes: principal.Read}, nil
	case "part":
		return &principal.Principal{Name: "part", Scopes: principal.Every, Match: []*labels.Matcher{
			labels.MustNewMatcher(labels.MatchEqual, "host", "web01"),
		}}, nil
	}
	return &principal.Principal{Name: "admin", Scopes: principal.Every}, nil
}

func (s *otsdb) send(method, target, body string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, target, strings.NewReader(body))
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, r)
	return w
}

// get sends parameters and returns the response.
func (s *otsdb) get(t *testing.T, params string, header ...string) string {
	t.Helper()
	// The tests write filters as they are.
	v, err := url.ParseQuery(params)
	require.NoError(t, err)
	w := s.send(http.MethodGet, fmt.Sprintf("/api/query?start=%d&end=%d&%s", otsdbStart, comparison.End, v.Encode()), "", header...)
	require.Equal(t, http.StatusOK, w.Code, w.Body.String())
	return w.Body.String()
}

// dps renders points as responses have them. Each pair is a time, in seconds after otsdbStart, and a value.
func dps(pairs ...any) string {
	var out []string
	for i := 0; i < len(pairs); i += 2 {
		out = append(out, fmt.Sprintf(`"%d":%v`, otsdbStart+pairs[i].(int), pairs[i+1]))
	}
	return "{" + strings.Join(out, ",") + "}"
}

// TestOpenTSDBShapes compares responses byte by byte.
func TestOpenTSDBShapes(t *testing.T) {
	t.Parallel()
	s := newOTSDB(t, query.Options{})
	cpu := func(tags, aggregated, points string) string {
		return fmt.Sprintf(`{"metric":"sys.cpu","tags":{%s},"aggregateTags":[%s],"dps":%s}`, tags, aggregated, points)
	}
	fast := func(points string) string {
		points = strings.ReplaceAll(points, "%d", fmt.Sprint(otsdbStart))
		return `[{"metric":"fast","tags":{"host":"web01"},"aggregateTags":[],"dps":` + points + "}]"
	}
	web01, web02 := `"dc":"lga","host":"web01"`, `"dc":"lga","host":"web02"`
	for params, want := range map[string]string{
		// Integers stay integers, also between points.
		"m=sum:sys.cpu{host=web01}": "[" + cpu(web01, "", dps(0, 0, 60, 10, 120, 20, 180, 30, 240, 40, 300, 50, 360, 60, 420, 70, 480,
			80, 540, 90)) + "]",
		"m=sum:5m-avg:sys.cpu": "[" + cpu(`"dc":"lga"`, `"host"`, dps(0, "31.0", 300, "106.0")) + "]",
		"m=none:5m-max:sys.cpu": "[" + cpu(web01, "", dps(0, "40.0", 300, "90.0")) + "," +
			cpu(web02, "", dps(0, "21.0", 300, "46.0")) + "]",
		"m=max:0all-max:sys.cpu{host=*}": "[" + cpu(web01, "", dps(0, "90.0")) + "," +
			cpu(web02, "", dps(0, "46.0")) + "]",
		"m=max:0all-max:sys.cpu{}{host=web02}":                  "[" + cpu(web02, "", dps(0, "46.0")) + "]",
		"m=max:0all-max:sys.cpu{host=not_key()}":                "[]",
		"m=max:0all-max:explicit_tags:sys.cpu{host=web01}":      "[]",
		"m=max:0all-max:explicit_tags:sys.cpu{host=web01,dc=*}": "[" + cpu(web01, "", dps(0, "90.0")) + "]",
		"m=max:0all-count:mem&m=sum:0all-last:sys.cpu{host=web01}": `[{"metric":"mem","tags":{"dc":"sjc","host":"web01"},` +
			`"aggregateTags":[],"dps":` + dps(0, "9.0") + "}," + cpu(web01, "", dps(0, "90.0")) + "]",
		"m=sum:150s-sum-null:mem{host=web01}&arrays": fmt.Sprintf(`[{"metric":"mem","tags":{"dc":"sjc","host":"web01"},`+
			`"aggregateTags":[],"dps":[[%d,4.5],[%d,4.5],[%d,19.5],[%d,18.0],[%d,null]]}]`, otsdbStart, otsdbStart+150, otsdbStart+300,
			otsdbStart+450, otsdbStart+600),
		"m=sum:rate:5m-sum:sys.cpu{host=web01}": "[" + cpu(web01, "", dps(300, "0.8333333333333334")) + "]",
		// An object has the last of two points in a second.
		"m=sum:fast":           fast(`{"%d":3}`),
		"m=sum:fast&arrays":    fast(`[[%d,1],[%d,3]]`),
		"m=sum:fast&ms":        fast(`{"%d001":1,"%d002":3}`),
		"m=sum:fast&ms&arrays": fast(`[[%d001,1],[%d002,3]]`),
	} {
		require.Equal(t, want, s.get(t, params), params)
	}
}

// TestOpenTSDBExtras: flags add fields to a response.
func TestOpenTSDBExtras(t *testing.T) {
	t.Parallel()
	s := newOTSDB(t, query.Options{})
	var response []map[string]any
	text := s.get(t, "m=avg:rate{counter,100}:1m-sum:sys.cpu{host=*}{dc=lga}&show_query&show_tsuids&show_summary&show_stats")
	require.NoError(t, json.Unmarshal([]byte(text), &response))
	require.Len(t, response, 3)
	shown, ok := response[0]["query"].(map[string]any)
	require.True(t, ok)
	require.Equal(t, map[string]any{"host": "wildcard(*)"}, shown["tags"])
	require.Equal(t, map[string]any{"counter": true, "counterMax": 100.0, "resetValue": 0.0, "dropResets": false},
		shown["rateOptions"])
	require.Equal(t, 8.0, response[0]["stats"].(map[string]any)["emittedDPs"].(float64)/2-1)
	require.Contains(t, response[2], "statsSummary")
	require.Equal(t, []any{}, response[2]["warnings"], "each group has one series")
	ids, ok := response[0]["tsuids"].([]any)
	require.True(t, ok)

	// A tsuid selects its series.
	text = s.get(t, fmt.Sprintf("tsuid=sum:0all-last:%s,%s", ids[0], response[1]["tsuids"].([]any)[0]))
	require.Contains(t, text, `"aggregateTags":["host"],"dps":`+dps(0, "136.0"))
	text = s.get(t, "m=sum:sys.cpu&show_summary")
	require.Contains(t, text, `"warnings":["some values are interpolated`)
}

// TestOpenTSDBPortQueries: like OpenTSDB, the own address ignores unknown endpoints below /api/query, and the case of known ones.
// Equal sub-queries have one response. Errors of bodies have details.
func TestOpenTSDBPortQueries(t *testing.T) {
	t.Parallel()
	s := newOTSDB(t, query.Options{})
	at := fmt.Sprintf("?start=%d&end=%d&m=sum:mem", otsdbStart, comparison.End)
	code, want := s.request("GET", "/api/query"+at, "")
	require.Equal(t, 200, code, want)
	last := strings.Replace(at, "?", "?start=7&", 1) // the last one counts
	for _, path := range []string{
		"/api/query/x" + at, "/api/v1/Query/" + at, "/API/QUERY" + at, "/api/query" + at + "&m=sum:mem", "/api/query" + last,
		"/api/query" + strings.ReplaceAll(at, "&", ";"),
	} {
		s.require(t, "GET "+path, "", 200, want)
	}
	for _, path := range []string{
		"/api/query" + at, "/api/query/gexp?start=1&exp=scale(sum:mem,2)", "/api/query/last?timeseries=mem",
	} {
		want := tsdError(400, `Bad query string: invalid URL escape "%zz"`, "")
		s.require(t, "GET "+path+"&m=sum:%zz", "", 400, want)
		require.JSONEq(t, want, s.send("GET", path+"&m=sum:%zz", "").Body.String())
	}
	code, text := s.request("GET", "/api/query/LAST?timeseries=mem", "")
	require.Equal(t, 200, code, text)
	require.Contains(t, text, `"tsuid"`)
	for _, path := range []string{"/api/query", "/api/query/last", "/api/query/exp"} {
		s.require(t, "POST "+path, " ", 400,
			tsdError(400, "Missing message content", "Supply valid JSON formatted data in the body of your request"))
		s.require(t, "POST "+path, "{", 400, tsdError(400, "Unable to parse the given JSON", "unexpected end of JSON input"))
	}
}

// TestOpenTSDBLines: /q?ascii answers lines with times in seconds, without NaN. The server draws no graphs.
func TestOpenTSDBLines(t *testing.T) {
	t.Parallel()
	s := newOTSDB(t, query.Options{})
	code, text := s.request("GET", "/api/query?ascii&start=1500000000&end=1500000060&m=sum:fast", "")
	require.Equal(t, 200, code, text)
	require.Equal(t, "[", text[:1], "only the path without /api/ answers lines")
	at := fmt.Sprintf("/q?start=%d&end=%d&m=", otsdbStart, otsdbStart+10)
	require.Equal(t, 404, first(s.request("GET", at+"sum:fast", "")))
	for m, want := range map[string]string{
		"sum:fast&ascii":            fmt.Sprintf("fast %d 1 host=web01\nfast %d 3 host=web01", otsdbStart, otsdbStart),
		"sum:5s-sum-nan:fast&ascii": fmt.Sprintf("fast %d 4.0 host=web01", otsdbStart),
		"sum:rate:fast&ascii":       fmt.Sprintf("fast %d 2000.0 host=web01", otsdbStart),
	} {
		code, text := s.request("GET", at+m, "")
		require.Equal(t, 200, code, text)
		require.Equal(t, want, text, m)
	}
	s.require(t, "GET "+at+"sum:none&ascii", "", 400, tsdError(400, "No such name for 'metrics': 'none'", ""))
}

func first[A, B any](a A, _ B) A { return a }

// TestOpenTSDBErrors: errors are OpenTSDB's.
func TestOpenTSDBErrors(t *testing.T) {
	t.Parallel()
	s := newOTSDB(t, query.Options{SamplesMax: 1000})
	refused := func(status int, message string, w *httptest.ResponseRecorder) {
		t.Helper()
		require.Equal(t, status, w.Code, w.Body.String())
		var response struct {
			Error struct {
				Code    int
				Message string
			}
		}
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), &response))
		require.Equal(t, status, response.Error.Code)
		require.Contains(t, response.Error.Message, message)
	}
	at := fmt.Sprintf("/api/query?start=%d&end=%d&m=", otsdbStart, comparison.End)
	for spec, want := range map[string]string{
		"sum:nosuch":                   "No such name for 'metrics': 'nosuch'",
		"sum:sys.cpu{host=web01|web9}": "No such name for 'tagv': 'web9'",
		"sum:sys.cpu{hostess=*}":       "No such name for 'tagk': 'hostess'",
		"sum:sys.cpu{host=":            "Missing '}' at the end of",
	} {
		refused(400, want, s.send(http.MethodGet, at+url.QueryEscape(spec), ""))
	}
	refused(413, "too many samples", s.send(http.MethodGet, at+"sum:1ms-sum-nan:mem", ""))
	ids := at[:len(at)-2] + "tsuid=sum:"
	refused(400, "No such unique ID for 'metrics': 0000000000000001", s.send(http.MethodGet, ids+"0000000000000001", ""))
	refused(400, "tsuid \"01\" has 2 digits", s.send(http.MethodGet, ids+"01", ""))
	refused(400, "Unable to parse the given JSON", s.send(http.MethodPost, "/api/query", `{"start":`))
	refused(400, "reading the body: gzip", s.send(http.MethodPost, "/api/query", `{}`, "Content-Encoding", "gzip"))
	refused(415, "content encoding is not accepted", s.send(http.MethodPost, "/api/query", `{}`, "Content-Encoding", "br"))
	require.Equal(t, 405, s.send(http.MethodPut, "/api/query", "").Code)
	// A name that exists elsewhere selects nothing.
	require.Equal(t, "[]", s.send(http.MethodGet, at+url.QueryEscape("sum:fast{dc=lga}"), "").Body.String())
	require.Equal(t, "[]", s.send(http.MethodGet, "/api/query?start=1000000000&end=1000000001&m=sum:mem", "").Body.String())
}

// TestOpenTSDBDeletes: deletions are exact. They need the scope admin, and pages of other origins cannot send them.
func TestOpenTSDBDeletes(t *testing.T) {
	t.Parallel()
	s := newOTSDB(t, query.Options{})
	at := fmt.Sprintf("/api/query?start=%d.123&end=%d.456&m=sum:sys.cpu{host=web01}", otsdbStart, comparison.End)
	require.Equal(t, 403, s.send(http.MethodDelete, at, "", "Authorization", "reader").Code)
	require.Equal(t, 403, s.send(http.MethodGet, at+"&delete=true", "", "Authorization", "reader").Code)
	require.Equal(t, 403, s.send(http.MethodGet, at+"&method_override=delete", "", "Sec-Fetch-Site", "cross-site").Code)
	require.Equal(t, 200, s.send(http.MethodGet, at, "", "Sec-Fetch-Site", "cross-site").Code)
	require.Empty(t, s.deleted.requests)

	w := s.send(http.MethodDelete, at, "")
	require.Equal(t, 200, w.Code)
	require.Contains(t, w.Body.String(), `"host":"web01"`)
	require.Len(t, s.deleted.requests, 1)
	d := s.deleted.requests[0]
	require.EqualValues(t, otsdbStart*1000+123, d.FromMs)
	require.EqualValues(t, comparison.End*1000+456, d.ToMs)
	require.Equal(t, `{__name__="sys.cpu",host!="",host=~"web01",_rollup_interval="",_rollup_aggregator="",_aggregate=""}`,
		tombstone.SelectorsText(d.Selectors))

	body := fmt.Sprintf(`{"start":%d,"end":%d,"delete":true,"queries":[{"aggregator":"none","metric":"mem","explicitTags":true,
		"tags":{"host":"*","dc":"*"}}]}`, otsdbStart, comparison.End)
	require.Equal(t, 200, s.send(http.MethodPost, "/api/query", body, "Authorization", "part").Code)
	require.Equal(t, `{__name__="mem",dc="sjc",host="web01",host="web01"}`, tombstone.SelectorsText(s.deleted.requests[1].Selectors),
		"a restricted principal deletes within its matchers")
	require.Equal(t, 400, s.send(http.MethodDelete, strings.Replace(at, "sys.cpu", "nosuch", 1), "").Code)
	require.Len(t, s.deleted.requests, 2)
}

// TestOpenTSDBRestricted: a principal reads only series that its matchers select.
func TestOpenTSDBRestricted(t *testing.T) {
	t.Parallel()
	s := newOTSDB(t, query.Options{})
	require.Contains(t, s.get(t, "m=sum:0all-last:sys.cpu"), dps(0, "136.0"))
	require.Contains(t, s.get(t, "m=sum:0all-last:sys.cpu", "Authorization", "part"), dps(0, "90.0"))
	w := s.send(http.MethodGet, "/api/query?start=1&m=sum:sys.cpu{host=web02}", "", "Authorization", "part")
	require.Equal(t, 400, w.Code)
	require.Contains(t, w.Body.String(), "No such name for 'tagv': 'web02'")
}

// TestOpenTSDBReadsAll: random samples in the head and in rows give the sums that plain addition gives.
func TestOpenTSDBReadsAll(t *testing.T) {
	t.Parallel()
	s := newOTSDB(t, query.Options{})
	rng := rand.New(rand.NewPCG(1, 2))
	from := comparison.End - 3*86_400
	totals := map[string]int{}
	var all []ingest.Sample
	for i := range 20_000 {
		host := fmt.Sprint("h", rng.IntN(50))
		all = append(all, ingest.Sample{
			Labels: labels.FromStrings("__name__", "counts", "host", host),
			TsMs:   int64(from)*1000 + int64(i)*12_000, Value: float64(i % 97),
		})
		totals[host] += i % 97
	}
	for part := range slices.Chunk(all, 9000) {
		_, err := s.ingester.Write(context.Background(), ingest.SamplesInput(part))
		require.NoError(t, err)
		if len(part) == 9000 {
			require.NoError(t, s.ingester.Flush(context.Background()))
		}
	}
	w := s.send(http.MethodGet, fmt.Sprintf("/api/query?start=%d&end=%d&m=sum:0all-sum:counts{host=*}", from, comparison.End+1), "")
	require.Equal(t, http.StatusOK, w.Code)
	var response []struct {
		Tags map[string]string
		Dps  map[string]float64
	}
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &response))
	require.Len(t, response, len(totals))
	for _, a := range response {
		require.Equal(t, map[string]float64{fmt.Sprint(from): float64(totals[a.Tags["host"]])}, a.Dps, a.Tags)
	}
}
