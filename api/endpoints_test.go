package api

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"halite/api/receiver/otlp"
	"halite/ingest"
	"halite/storage"
)

// endpointCase is a request that succeeds, and its body. If a body ends in "…", the test compares only the beginning,
// because the rest depends on the machine.
type endpointCase struct{ name, target, want string }

func ok(data string) string { return `{"status":"success","data":` + data + `}` }

func queryCases() []endpointCase {
	return []endpointCase{
		{"scalar", "query?query=1%2B1&time=0", ok(`{"resultType":"scalar","result":[0,"2"]}`)},
		{"string", "query?query=%22a%3Cb%22&time=1.5", ok(`{"resultType":"string","result":[1.5,"a\u003cb"]}`)},
		{
			"vector", `query?query=up{instance="a:9100"}&time=60`, ok(`{"resultType":"vector","result":[` +
				`{"metric":{"__name__":"up","instance":"a:9100","job":"node"},"value":[60,"1"]}]}`),
		},
		{"empty vector", "query?query=nothing", ok(`{"resultType":"vector","result":[]}`)},
		{"empty matrix", "query_range?query=nothing&start=0&end=60&step=15", ok(`{"resultType":"matrix","result":[]}`)},
		{
			"fractional step", `query_range?query=up{instance="a:9100"}&start=10&end=11&step=0.5`,
			ok(`{"resultType":"matrix","result":[{"metric":{"__name__":"up","instance":"a:9100","job":"node"},` +
				`"values":[[10,"1"],[10.500,"1"],[11,"1"]]}]}`),
		},
		{"exemplars", "query_exemplars?query=up", ok(`[]`)},
		{"format", "format_query?query=foo%20%2F%20bar", ok(`"foo / bar"`)},
		{"parse", "parse_query?query=1", ok(`{"type":"numberLiteral","val":"1"}`)},
		{"labels", "labels", ok(`["__name__","code","instance","job","label with space"]`)},
		{"labels of one", "labels?match[]=up", ok(`["__name__","instance","job"]`)},
		{"labels of two", "labels?match[]=up&match[]=requests_total", ok(`["__name__","code","instance","job"]`)},
		{"labels of none", "labels?match[]=nothing", ok(`[]`)},
		{"labels before time", "labels?end=-5", ok(`[]`)},
		{
			"labels cut", "labels?limit=1",
			`{"status":"success","data":["__name__"],"warnings":["results truncated due to limit"]}`,
		},
		{"labels unlimited", "labels?limit=0&match[]=up", ok(`["__name__","instance","job"]`)},
		{"values", "label/job/values", ok(`["node","web"]`)},
		{"values of nothing", "label/nothing/values", ok(`[]`)},
		{"values of an escaped name", "label/U__label_20_with_20_space/values", ok(`["ü\u003c\u0026\u003e"]`)},
		{"values of an encoded name", "label/label%20with%20space/values", ok(`["ü\u003c\u0026\u003e"]`)},
		{"values of a name with a slash", "label/a%2Fb/values", ok(`[]`)},
		{
			"series", `series?match[]={job="node",instance=~"a.*"}`,
			ok(`[{"__name__":"up","instance":"a:9100","job":"node"}]`),
		},
		{
			"series once", `series?match[]=up{instance="a:9100"}&match[]={instance="a:9100"}`,
			ok(`[{"__name__":"up","instance":"a:9100","job":"node"}]`),
		},
		{
			"series cut", `series?match[]=up&limit=1`, `{"status":"success","data":[{"__name__":"up",` +
				`"instance":"a:9100","job":"node"}],"warnings":["results truncated due to limit"]}`,
		},
	}
}

func statusCases() []endpointCase {
	return []endpointCase{
		{
			"metadata", "metadata", ok(`{"a_total":[{"type":"counter","unit":"","help":"A \u003c B"},` +
				`{"type":"gauge","unit":"","help":"other"}],"b":[{"type":"gauge","unit":"bytes","help":"B"}]}`),
		},
		{
			"metadata limited", "metadata?limit=1&limit_per_metric=1",
			ok(`{"a_total":[{"type":"counter","unit":"","help":"A \u003c B"}]}`),
		},
		{"metadata of one", "metadata?metric=b&limit=0", ok(`{"b":[{"type":"gauge","unit":"bytes","help":"B"}]}`)},
		{"metadata of none", "metadata?metric=c", ok(`{}`)},
		{"rules", "rules?type=alert&exclude_alerts=true&group_limit=5", ok(`{"groups":[]}`)},
		{"alerts", "alerts", ok(`{"alerts":[]}`)},
		{"alertmanagers", "alertmanagers", ok(`{"activeAlertmanagers":[],"droppedAlertmanagers":[]}`)},
		{"scrape pools", "scrape_pools", ok(`{"scrapePools":[]}`)},
		{"targets", "targets?state=active", ok(`{"activeTargets":[],"droppedTargets":[],"droppedTargetCounts":{}}`)},
		{"target metadata of none", "targets/metadata?match_target={job=%22x%22}", ok(`[]`)},
		{"target metadata of a metric", "targets/metadata?match_target=up", ok(`[]`)},
		{"notifications", "notifications", ok(`[]`)},
		{
			"buildinfo", "status/buildinfo", ok(`{"version":"` + DefaultAPIVersion + `","revision":"abc","branch":"",` +
				`"buildUser":"","buildDate":"","goVersion":"go1"}`),
		},
		{"config", "status/config", ok(`{"yaml":"global: {}\n"}`)},
		{"flags", "status/flags", ok(`{"web.x":"y"}`)},
		{"runtime", "status/runtimeinfo", `{"status":"success","data":{"startTime":"0001-01-01T00:00:00Z","CWD":"…`},
		{
			"tsdb", "status/tsdb?limit=1", ok(`{"headStats":{"numSeries":3,"numLabelPairs":4,"chunkCount":5,` +
				`"minTime":6,"maxTime":7},"seriesCountByMetricName":[{"name":"up","value":2}],` +
				`"labelValueCountByLabelName":[],"memoryInBytesByLabelName":[],"seriesCountByLabelValuePair":[]}`),
		},
		{"blocks", "status/tsdb/blocks", ok(`{"blocks":[]}`)},
		{
			"limits", "status/limits?limit=1", ok(`{"series":{"used":3,"warn":4,"max":5,"dryRun":true},` +
				`"memoryBytes":{"used":0,"warn":0,"max":0,"dryRun":false},"metrics":[{"metric":"m1","pattern":"m*","used":9,"warn":8,` +
				`"max":10,"dryRun":false}],"samplesPerSecond":{"used":0,"warn":0,"max":0,"dryRun":false},` +
				`"refused":[{"metric":"bomb","samples":7}],` +
				`"dryRun":[{"metric":"tried","samples":5}]}`),
		},
		{"query rules", "status/query_rules", ok(`{"rules":[]}`)},
		{"replay", "status/walreplay", ok(`{"min":1,"max":3,"current":2}`)},
	}
}

// TestEndpoints pins status and body of at least one request to every JSON endpoint.
func TestEndpoints(t *testing.T) {
	f := newFixture(t, func(o *Options) {
		o.Metadata = fakeMetadata{
			"a_total": {{Type: "counter", Help: "A < B", Unit: ""}, {Type: "gauge", Help: "other"}},
			"b":       {{Type: "gauge", Help: "B", Unit: "bytes"}},
		}
		o.Stats = fakeStats{}
		o.SeriesLimits = func(most int) ingest.SeriesLimitStatus {
			return ingest.SeriesLimitStatus{
				Series:  ingest.LimitUse{Used: 3, Warn: 4, Max: 5, DryRun: true},
				Metrics: []ingest.MetricLimitUse{{Metric: "m1", Pattern: "m*", LimitUse: ingest.LimitUse{Used: 9, Warn: 8, Max: 10}}}[:most],
				Refused: []ingest.RefusedSamples{{Metric: "bomb", Samples: 7}}[:most],
				DryRun:  []ingest.RefusedSamples{{Metric: "tried", Samples: 5}}[:most],
			}
		}
		o.Flags = map[string]string{"web.x": "y"}
		o.Config = func() string { return "global: {}\n" }
		o.Build = BuildInfo{Version: "9.9.9", Revision: "abc", GoVersion: "go1"}
		o.Ready = func() Readiness { return Readiness{Ready: true, ReplayMin: 1, ReplayMax: 3, ReplayCurrent: 2} }
	})
	for _, c := range slices.Concat(queryCases(), statusCases()) {
		t.Run(c.name, func(t *testing.T) {
			w := f.get("/api/v1/" + strings.ReplaceAll(c.target, " ", "%20"))
			got := body(t, w)
			require.Equal(t, http.StatusOK, w.Code, got)
			require.Equal(t, "application/json", w.Header().Get("Content-Type"))
			if want, cut := strings.CutSuffix(c.want, "…"); cut {
				require.True(t, strings.HasPrefix(got, want), got)
			} else {
				require.Equal(t, c.want, got)
			}
		})
	}
}

// TestStats checks the shape of the statistics block. Its times depend on the machine.
func TestStats(t *testing.T) {
	f := newFixture(t, nil)
	plain := body(t, f.get("/api/v1/query?query=up&time=60"))
	require.NotContains(t, plain, `"stats"`)
	for _, stats := range []string{"1", "true", "all"} {
		got := body(t, f.get("/api/v1/query?query=up&time=60&stats="+stats))
		require.Contains(t, got, `"stats":{"timings":{"evalTotalTime":`)
		require.Contains(t, got, `"totalQueryableSamples":2,`)
		require.Equal(t, stats == "all", strings.Contains(got, `"totalQueryableSamplesPerStep":[[60,2]]`), got)
	}
}

// TestSplitParameters sends parameters in the body, in the URL, and in both.
func TestSplitParameters(t *testing.T) {
	f := newFixture(t, nil)
	want := body(t, f.get("/api/v1/query?query=up&time=60&limit=1"))
	require.Equal(t, want, body(t, f.post("/api/v1/query", "query=up&time=60&limit=1")))
	require.Equal(t, want, body(t, f.post("/api/v1/query?query=up", "time=60&limit=1")))
	// Where both name a parameter the body wins.
	require.Equal(t, want, body(t, f.post("/api/v1/query?query=nonsense{&time=1", "query=up&time=60&limit=1")))

	want = body(t, f.get("/api/v1/labels?match[]=up&match[]=requests_total"))
	require.Equal(t, want, body(t, f.post("/api/v1/labels?match[]=up", "match[]=requests_total")))
	require.Equal(t, http.StatusOK, f.post("/api/v1/series", "match[]=up").Code)
	require.Equal(t, http.StatusOK, f.post("/api/v1/query_exemplars", "query=up").Code)
	require.Equal(t, http.StatusOK, f.post("/api/v1/format_query", "query=up").Code)
}

// TestLargeForms: a body of 100 KB is normal for Grafana, one over the limit is refused.
func TestLargeForms(t *testing.T) {
	f := newFixture(t, func(o *Options) { o.Limits.FormBytesMax = 200 << 10 })
	long := `up{instance!~"` + strings.Repeat("x|", 50<<10) + `x"}`
	w := f.post("/api/v1/query", "time=60&query="+strings.ReplaceAll(long, `"`, "%22"))
	require.Equal(t, http.StatusOK, w.Code, body(t, w))
	w = f.post("/api/v1/query", "query="+strings.Repeat("x", 200<<10))
	require.Equal(t, http.StatusRequestEntityTooLarge, w.Code)
	require.Contains(t, body(t, w), `"errorType":"bad_data"`)
}

type badCase struct{ target, want string }

func bad(message string) string {
	return `{"status":"error","errorType":"bad_data","error":"` + message + `"}`
}

func badQueryCases() []badCase {
	return []badCase{
		{"query?query=up{", bad(`invalid parameter \"query\": 1:4: parse error: unexpected end of input inside braces`)},
		{"query", bad(`invalid parameter \"query\": unknown position: parse error: no expression found in input`)},
		{
			"query?query=up&time=x",
			bad(`invalid parameter \"time\": invalid time value for 'time': cannot parse \"x\" to a valid timestamp`),
		},
		{"query?query=up&timeout=x", bad(`invalid parameter \"timeout\": cannot parse \"x\" to a valid duration`)},
		{"query?query=up&explain=x", bad(`invalid parameter \"explain\": cannot parse \"x\" to a valid boolean, use 1 or 0`)},
		{"query?query=up&tiers=hours", bad(`invalid parameter \"tiers\": is \"hours\": use auto or raw`)},
		{"query?query=up&nocache=x", bad(`invalid parameter \"nocache\": cannot parse \"x\" to a valid boolean, use 1 or 0`)},
		{"explain?query=up&start=1", bad(`invalid parameter \"end\": cannot parse \"\" to a valid timestamp`)},
		{"query?query=up&limit=x", bad(`invalid parameter \"limit\": strconv.Atoi: parsing \"x\": invalid syntax`)},
		{"query?query=up&limit=-1", bad(`invalid parameter \"limit\": limit must be non-negative`)},
		{
			"query?query=up&lookback_delta=x",
			bad(`error parsing lookback delta duration: cannot parse \"x\" to a valid duration`),
		},
		{
			"query_range?query=up&end=1&step=1",
			bad(`invalid parameter \"start\": cannot parse \"\" to a valid timestamp`),
		},
		{
			"query_range?query=up&start=2&end=1&step=1",
			bad(`invalid parameter \"end\": end timestamp must not be before start time`),
		},
		{
			"query_range?query=up&start=0&end=1&step=0",
			bad(`invalid parameter \"step\": zero or negative query resolution step widths are not accepted. ` +
				`Try a positive integer`),
		},
		{
			"query_range?query=up&start=0&end=11001&step=1",
			bad(`exceeded maximum resolution of 11,000 points per timeseries. ` +
				`Try decreasing the query resolution (?step=2)`),
		},
		{
			"query_range?query=up&start=0&end=1&step=1e30",
			bad(`invalid parameter \"step\": cannot parse \"1e30\" to a valid duration. It overflows int64`),
		},
	}
}

func badLookupCases() []badCase {
	return []badCase{
		{"query_exemplars?query=up&start=2&end=1", bad(`end timestamp must not be before start timestamp`)},
		{"query_exemplars?query=up{", bad(`1:4: parse error: unexpected end of input inside braces`)},
		{"series", bad(`no match[] parameter provided`)},
		{"series?match[]=up;&limit=1", bad(`error parsing form values: invalid semicolon separator in query`)},
		{
			"series?match[]={x=%22%22}",
			bad(`invalid parameter \"match[]\": match[] must contain at least one non-empty matcher`),
		},
		{"labels?match[]={x=%22%22}", bad(`match[] must contain at least one non-empty matcher`)},
		{
			"labels?start=x",
			bad(`invalid parameter \"start\": invalid time value for 'start': cannot parse \"x\" to a valid timestamp`),
		},
		{"label/%ff/values", bad(`invalid label name: \"\\xff\"`)},
		{"metadata?limit=x", bad(`limit must be a number`)},
		{"metadata?limit_per_metric=x", bad(`limit_per_metric must be a number`)},
		{"rules?type=x", bad(`invalid parameter \"type\": not supported value \"x\"`)},
		{
			"rules?group_next_token=x", bad(`invalid parameter \"group_next_token\": ` +
				`group_limit needs to be present in order to paginate over the groups`),
		},
		{
			"rules?group_limit=0",
			bad(`invalid parameter \"group_limit\": group_limit needs to be greater than 0`),
		},
		{"status/tsdb?limit=0", bad(`limit must be a positive number`)},
		{"status/tsdb?limit=10001", bad(`limit must not exceed 10000`)},
		{"status/limits?limit=x", bad(`limit must be a positive number`)},
	}
}

// TestBadParameters pins the errors of wrong requests.
func TestBadParameters(t *testing.T) {
	f := newFixture(t, nil)
	for _, c := range slices.Concat(badQueryCases(), badLookupCases()) {
		w := f.get("/api/v1/" + c.target)
		require.Equal(t, http.StatusBadRequest, w.Code, c.target)
		require.Equal(t, c.want, body(t, w), c.target)
	}
}

// TestAdmin checks that the admin endpoints are closed unless opened, and what each does then.
func TestAdmin(t *testing.T) {
	disabled := `{"status":"error","errorType":"unavailable","error":"admin APIs disabled"}`
	flusher := &fakeFlusher{}
	closed := newFixture(t, func(o *Options) { o.Flusher = flusher })
	for _, path := range []string{"cancel_query", "flush", "tsdb/delete_series", "tsdb/clean_tombstones", "tsdb/snapshot"} {
		w := closed.post("/api/v1/admin/"+path, "")
		require.Equal(t, http.StatusForbidden, w.Code, path)
		require.Equal(t, disabled, body(t, w))
		require.Equal(t, http.StatusMethodNotAllowed, closed.get("/api/v1/admin/"+path).Code)
	}
	require.Zero(t, flusher.calls)

	open := newFixture(t, func(o *Options) { o.Flusher, o.AdminAPI = flusher, true })
	require.Equal(t, http.StatusNoContent, open.post("/api/v1/admin/flush", "").Code)
	put := httptest.NewRequest(http.MethodPut, "/api/v1/admin/flush", nil)
	require.Equal(t, http.StatusNoContent, open.do(put).Code)
	require.Equal(t, 2, flusher.calls)
	flusher.err = http.ErrBodyNotAllowed
	require.Equal(t, http.StatusInternalServerError, open.post("/api/v1/admin/flush", "").Code)

	for path, code := range map[string]int{
		"tsdb/delete_series":              http.StatusBadRequest,
		"tsdb/delete_series?match[]=up{":  http.StatusBadRequest,
		"tsdb/delete_series?match[]=up":   http.StatusUnprocessableEntity,
		"tsdb/clean_tombstones":           http.StatusUnprocessableEntity,
		"tsdb/snapshot?skip_head=perhaps": http.StatusBadRequest,
		"tsdb/snapshot":                   http.StatusUnprocessableEntity,
		"cancel_query":                    http.StatusBadRequest,
		"cancel_query?id=77":              http.StatusNotFound,
	} {
		require.Equal(t, code, open.post("/api/v1/admin/"+path, "").Code, path)
	}
}

// TestSnapshot pins the responses in Prometheus's form, and the report for tsdb backup.
func TestSnapshot(t *testing.T) {
	var err error
	f := newFixture(t, func(o *Options) {
		o.AdminAPI = true
		o.Snapshot = func(context.Context) (Snapshot, error) { return Snapshot{Name: "n", Path: "/d/n", Tables: true}, err }
	})
	const path = "/api/v1/admin/tsdb/snapshot"
	w := f.post(path+"?skip_head=true", "")
	require.Equal(t, http.StatusBadRequest, w.Code)
	require.Contains(t, body(t, w), "does not open tables without their log")
	w = f.post(path+"?skip_head=false", "")
	require.Equal(t, http.StatusOK, w.Code)
	require.Equal(t, `{"status":"success","data":{"name":"n"}}`, body(t, w))
	require.Contains(t, body(t, f.post(path+"?report=true", "")), `"data":{"name":"n","path":"/d/n","tables":true}`)
	require.Equal(t, http.StatusBadRequest, f.post(path+"?report=perhaps", "").Code)
	for fault, code := range map[error]int{
		storage.ErrUnavailable: http.StatusServiceUnavailable, syscall.ENOSPC: http.StatusServiceUnavailable,
		io.ErrUnexpectedEOF: http.StatusInternalServerError,
	} {
		err = fault
		require.Equal(t, code, f.post(path, "").Code, fault)
	}
}

// TestNoBackends: optional dependencies may be absent.
func TestNoBackends(t *testing.T) {
	f := newFixture(t, func(o *Options) { o.AdminAPI = true })
	require.Contains(t, body(t, f.get("/api/v1/metadata")), `"data":{}`)
	require.Contains(t, body(t, f.get("/api/v1/status/tsdb")), `"numSeries":0`)
	require.Contains(t, body(t, f.get("/api/v1/status/flags")), `"data":{}`)
	require.Contains(t, body(t, f.get("/api/v1/status/config")), `"yaml":""`)
	require.Equal(t, http.StatusUnprocessableEntity, f.post("/api/v1/admin/flush", "").Code)

	_, err := New(Options{Limits: Limits{ReadTimeout: -1}})
	for _, fault := range []string{"Writer", "Engine", "Index", "Queryable", "ReadTimeout"} {
		require.ErrorContains(t, err, fault)
	}
	_, err = New(Options{Writer: f.writer, Limits: Limits{WriteBytesMax: 10, WriteInflightBytesMax: 5}})
	require.ErrorContains(t, err, "WriteInflightBytesMax")
}

// TestFeatures checks that the server has the features that it lists.
func TestFeatures(t *testing.T) {
	var response struct{ Data map[string]map[string]bool }
	f := newFixture(t, func(o *Options) {
		o.AdminAPI, o.OTLP = true, func() otlp.Options { return otlp.Options{StoreDelta: true} }
	})
	require.NoError(t, json.Unmarshal(f.get("/api/v1/features").Body.Bytes(), &response))
	require.True(t, response.Data["api"]["admin"])
	require.False(t, response.Data["api"]["lifecycle"])
	require.True(t, response.Data["api"]["otlp_write_receiver"])
	require.Equal(t, map[string]bool{"delta_conversion": false, "native_delta_ingestion": true}, response.Data["otlp_receiver"])
	require.True(t, response.Data["promql_operators"]["topk"])
	for name, has := range response.Data["promql_functions"] {
		_, err := f.opts.Engine.Parse(name + "()")
		missing := err != nil && (strings.Contains(err.Error(), "is not enabled") || strings.Contains(err.Error(), "unknown function"))
		require.Equal(t, has, !missing, "%s: %v", name, err)
	}
	require.False(t, response.Data["promql_functions"]["info"])
	require.True(t, response.Data["promql_functions"]["rate"])
}

// TestTargetMetadata: a target has the metadata of the metrics with its job and instance.
func TestTargetMetadata(t *testing.T) {
	f := newFixture(t, func(o *Options) {
		o.Metadata = fakeMetadata{
			"up": {{Type: "gauge", Help: "Up."}}, "requests": {{Type: "counter", Help: "R.", Unit: "req"}}, "b": {{Type: "gauge"}},
		}
	})
	up := func(instance, metric string) string {
		return `{"target":{"instance":"` + instance + `:9100","job":"node"},` + metric + `"type":"gauge","help":"Up.","unit":""}`
	}
	const all = `"metric":"up",`
	for query, want := range map[string]string{
		"":                                     up("a", all) + "," + up("b", all),
		"?limit=1":                             up("a", all),
		"?limit=0":                             "",
		"?match_target={instance=~`b.*`}":      up("b", all),
		"?match_target=up":                     "",
		"?match_target={__name__!=`x`}":        up("a", all) + "," + up("b", all),
		"?metric=up&match_target={job=`node`}": up("a", "") + "," + up("b", ""),
		"?metric=requests":                     "",
		"?metric=u.":                           "",
		"?match_target={job=`web`}":            "",
	} {
		require.Equal(t, ok("["+want+"]"), body(t, f.get("/api/v1/targets/metadata"+strings.ReplaceAll(query, "`", "%22"))), query)
	}
	family, m, known := f.familyOf(t.Context(), "requests_total", "web", "x")
	require.True(t, known)
	require.Equal(t, "requests", family)
	require.Equal(t, "req", m.Unit)
	_, _, known = f.familyOf(t.Context(), "x_total", "web", "x")
	require.False(t, known)
}

// TestRankingMax: the bound of the parameter limit is an option, and its error names it.
func TestRankingMax(t *testing.T) {
	f := newFixture(t, func(o *Options) { o.Limits.RankingMax = 5 })
	for _, path := range []string{"tsdb", "limits", "senders"} {
		require.Equal(t, http.StatusOK, f.get("/api/v1/status/"+path+"?limit=5").Code, path)
		w := f.get("/api/v1/status/" + path + "?limit=6")
		require.Equal(t, http.StatusBadRequest, w.Code, path)
		require.Contains(t, body(t, w), "limit must not exceed 5", path)
	}
	o := Limits{RankingMax: -1}
	require.ErrorContains(t, o.Validate(), "RankingMax")
}
