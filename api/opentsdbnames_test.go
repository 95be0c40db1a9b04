package api_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/stretchr/testify/require"

	"halite/api/opentsdb"
	"halite/keyschema/tsuid"
	"halite/query"
	"halite/storage"
	"halite/storage/notes"
	"halite/storage/storagetest"
)

// tsdStack is a stack with data points of OpenTSDB's clients, and notes.
func tsdStack(t *testing.T) *stack {
	t.Helper()
	s := newStack(t)
	meta, err := storagetest.NewModel(time.Now).EnsureTable(t.Context(), storage.MetaSchema())
	require.NoError(t, err)
	s.notes = notes.New(meta, func(context.Context) error { return nil })
	s.Server = s.server(t, query.Options{})
	w := s.send("/api/put?details", `[
		{"metric":"sys.cpu.user","timestamp":1700000000,"value":1,"tags":{"host":"web01","dc":"lga"}},
		{"metric":"sys.cpu.user","timestamp":1700000000,"value":2,"tags":{"host":"web02"}},
		{"metric":"sys.cpu.nice","timestamp":1700000000,"value":3,"tags":{"host":"web02","dc":"fra"}},
		{"metric":"net.bytes","timestamp":1700000000,"value":4,"tags":{"iface":"web02"}}]`)
	require.Equal(t, http.StatusOK, w.Code, w.Body)
	return s
}

// request sends a request to the address of OpenTSDB's clients and returns its status and its body.
func (s *stack) request(method, path, body string) (int, string) {
	w := httptest.NewRecorder()
	opentsdb.Port(s.Handler()).ServeHTTP(w, httptest.NewRequest(method, path, strings.NewReader(body)))
	return w.Code, strings.TrimSpace(w.Body.String())
}

// require sends a request and compares the response. Times of look-ups count as 0.
func (s *stack) require(t *testing.T, request, body string, status int, want string) {
	t.Helper()
	method, path, _ := strings.Cut(request, " ")
	code, got := s.request(method, path, body)
	require.Equal(t, status, code, "%s: %s", request, got)
	if want == "" {
		require.Empty(t, got, request)
		return
	}
	require.JSONEq(t, want, regexp.MustCompile(`"time":[0-9.]+`).ReplaceAllString(got, `"time":0`), request)
}

func tsdError(status int, message, details string) string {
	text, err := json.Marshal(map[string]any{"error": map[string]any{"code": status, "message": message, "details": details}})
	if err != nil {
		panic(err)
	}
	return strings.Replace(string(text), `"details":"",`, "", 1)
}

func TestOpenTSDBSuggest(t *testing.T) {
	t.Parallel()
	s := tsdStack(t)
	for request, want := range map[string]string{
		"GET /api/suggest?type=metrics":             `["net.bytes","sys.cpu.nice","sys.cpu.user"]`,
		"GET /api/v1/suggest?type=metrics&q=sys.c":  `["sys.cpu.nice","sys.cpu.user"]`,
		"GET /suggest?type=metrics&q=sys&max=1":     `["sys.cpu.nice"]`,
		"GET /api/suggest?type=metrics&q=sys.*":     `[]`,
		"GET /api/suggest?type=tagk":                `["dc","host","iface"]`,
		"GET /api/suggest?type=tagk&q=h":            `["host"]`,
		"GET /api/suggest?type=tagv&q=web":          `["web01","web02"]`,
		"GET /api/suggest?type=tagv&max=2":          `["fra","lga"]`,
		"GET /api/suggest?type=tagv&q=no&max=0":     `[]`,
		"GET /api/suggest/ignored?type=tagk&q=host": `["host"]`,
	} {
		s.require(t, request, "", 200, want)
	}
	s.require(t, "POST /api/suggest", `{"type":"tagk","q":"d","max":"5"}`, 200, `["dc"]`)
	s.require(t, "POST /api/suggest", `{"type":"tagk","max":1}`, 200, `["dc"]`)
	s.require(t, "POST /api/suggest", ``, 400, tsdError(400, "Missing message content",
		"Supply valid JSON formatted data in the body of your request"))
	s.require(t, "GET /api/suggest", "", 400, tsdError(400, "Missing parameter <code>type</code>", ""))
	s.require(t, "POST /api/suggest", `{"q":"x"}`, 400, tsdError(400, "Missing 'type' parameter", ""))
	s.require(t, "GET /api/suggest?type=tagx", "", 400, tsdError(400, "Invalid 'type' parameter:tagx", ""))
	s.require(t, "GET /api/suggest?type=tagk&max=x", "", 400, tsdError(400, "Unable to parse 'max' as a number", ""))
	s.require(t, "DELETE /api/suggest", "", 405, tsdError(405, "Method not allowed",
		"The HTTP method [DELETE] is not permitted for this endpoint"))
}

func TestOpenTSDBLookup(t *testing.T) {
	t.Parallel()
	s := tsdStack(t)
	found := func(request, body string) (out []string) {
		t.Helper()
		method, path, _ := strings.Cut(request, " ")
		code, text := s.request(method, path, body)
		require.Equal(t, 200, code, text)
		var response struct {
			TotalResults int
			Results      []struct {
				TSUID, Metric string
				Tags          map[string]string
			}
		}
		require.NoError(t, json.Unmarshal([]byte(text), &response))
		require.Len(t, response.Results, response.TotalResults)
		for _, r := range response.Results {
			builder := labels.NewBuilder(labels.FromStrings("__name__", r.Metric))
			for k, v := range r.Tags {
				builder.Set(k, v)
			}
			require.Equal(t, tsuid.Text(builder.Labels()), r.TSUID)
			out = append(out, r.Metric+"/"+r.Tags["host"])
		}
		slices.Sort(out)
		return out
	}
	for m, want := range map[string][]string{
		"sys.cpu.user":                        {"sys.cpu.user/web01", "sys.cpu.user/web02"},
		"sys.cpu.user{}":                      {"sys.cpu.user/web01", "sys.cpu.user/web02"},
		"sys.cpu.user{dc=*}":                  {"sys.cpu.user/web01"},
		"sys.cpu.user{dc=}":                   {"sys.cpu.user/web01"},
		"{host=web02}":                        {"sys.cpu.nice/web02", "sys.cpu.user/web02"},
		"*{host=web02,dc=fra}":                {"sys.cpu.nice/web02"},
		"{dc=fra,dc=lga}":                     {"sys.cpu.nice/web02", "sys.cpu.user/web01"},
		"{=web02}":                            {"net.bytes/", "sys.cpu.nice/web02", "sys.cpu.user/web02"},
		"{*=web02,*=fra}":                     {"sys.cpu.nice/web02"},
		"sys.cpu.user{*=web02}":               {"sys.cpu.user/web02"},
		"sys.cpu.user{host=web02,dc=lga}":     nil,
		"sys.cpu.user{host=web01}&limit=1000": {"sys.cpu.user/web01"},
	} {
		require.Equal(t, want, found("GET /api/search/lookup?m="+m, ""), m)
	}
	require.Len(t, found("GET /api/search/lookup?m=sys.cpu.user&limit=1", ""), 1)
	require.Equal(t, []string{"sys.cpu.user/web01"}, found("POST /api/search/lookup",
		`{"metric":"sys.cpu.user","tags":[{"key":"dc","value":"*"}],"limit":2,"useMeta":true}`))
	s.require(t, "GET /api/search/lookup?m=net.bytes", "", 200, `{"type":"LOOKUP","metric":"net.bytes","tags":[],"limit":25,"time":0,
		"startIndex":0,"totalResults":1,"results":[{"tsuid":"`+
		tsuid.Text(labels.FromStrings("__name__", "net.bytes", "iface", "web02"))+`","metric":"net.bytes","tags":{"iface":"web02"}}]}`)
	const unresolved = "Unable to resolve one or more UIDs"
	for request, want := range map[string]string{
		"/api/search/lookup?m=x":            tsdError(404, unresolved, "No such name for 'metrics': 'x'"),
		"/api/search/lookup?m={x=*}":        tsdError(404, unresolved, "No such name for 'tagk': 'x'"),
		"/api/search/lookup?m={host=x}":     tsdError(404, unresolved, "No such name for 'tagv': 'x'"),
		"/api/search/lookup":                tsdError(400, "Missing parameter <code>m</code>", ""),
		"/api/search/lookup?m={}":           tsdError(400, "Missing metric and tags. Please supply at least one value.", ""),
		"/api/search/lookup?m=a{b":          tsdError(400, "Unable to parse query", "Missing '}' at the end of: a{b"),
		"/api/search/lookup?m=a{=}":         tsdError(400, "Unable to parse query", "When parsing tag '=': invalid tag: ="),
		"/api/search/lookup?m=a&limit=x":    tsdError(400, "Unable to convert 'limit' to a valid number", ""),
		"/api/search/tsmeta?query=name:sys": tsdError(400, "Searching is not enabled", ""),
		"/api/search/x":                     tsdError(400, "Invalid search query type supplied", ""),
	} {
		code := 400
		if strings.Contains(want, "404") {
			code = 404
		}
		s.require(t, "GET "+request, "", code, want)
	}
}

// TestOpenTSDBLookupOfValues: missing parts of a search are missing or null in the response.
func TestOpenTSDBLookupOfValues(t *testing.T) {
	t.Parallel()
	s := tsdStack(t)
	code, text := s.request("GET", "/api/search/lookup?m=*&limit=3", "")
	require.Equal(t, 200, code, text)
	require.Contains(t, text, `"totalResults":3`)
	s.require(t, "POST /api/search/lookup", `{"tags":[{"value":"fra"}],"limit":"25"}`, 200, `{"type":"LOOKUP",
		"tags":[{"key":null,"value":"fra"}],"limit":25,"time":0,"startIndex":0,"totalResults":1,"results":[{"tsuid":"`+
		tsuid.Text(labels.FromStrings("__name__", "sys.cpu.nice", "host", "web02", "dc", "fra"))+
		`","metric":"sys.cpu.nice","tags":{"host":"web02","dc":"fra"}}]}`)
}

func TestOpenTSDBUIDs(t *testing.T) {
	t.Parallel()
	s := tsdStack(t)
	metric := tsuid.Derive(tsuid.Metric, "net.bytes").String()
	series := tsuid.Text(labels.FromStrings("__name__", "net.bytes", "iface", "web02"))
	fresh := tsuid.Derive(tsuid.Metric, "new").String()
	s.require(t, "GET /api/uid/assign?metric=new", "", 200, `{"metric":{"new":"`+fresh+`"}}`)
	s.require(t, "POST /api/uid/assign", `{"metric":["new","net.bytes","b!"],"tagk":["host"]}`, 400, `{"metric":{"new":"`+fresh+`"},
		"metric_errors":{"net.bytes":"Name already exists with UID: `+metric+`","b!":"Invalid metric (\"b!\"): illegal character: !"},
		"tagk":{},"tagk_errors":{"host":"Name already exists with UID: `+tsuid.Derive(tsuid.Key, "host").String()+`"}}`)
	s.require(t, "GET /api/uid/assign", "", 400, tsdError(400, "Missing values to assign UIDs", ""))

	at := "/api/uid/uidmeta?uid=" + strings.ToLower(metric) + "&type=metric"
	s.require(t, "GET "+at, "", 200, `{"uid":"`+metric+`","type":"METRIC","name":"net.bytes","displayName":"","description":"",
		"notes":"","custom":null,"created":0}`)
	code, text := s.request("POST", "/api/uid/uidmeta", `{"uid":"`+metric+`","type":"metric","notes":"n","custom":{"a":"b"}}`)
	require.Equal(t, 200, code, text)
	s.require(t, "GET "+at+"&method_override=post&notes=n", "", 304, "")
	code, text = s.request("PUT", at+"&display_name=D", "")
	require.Equal(t, 200, code, text)
	require.Contains(t, text, `"displayName":"D","description":"","notes":"","custom":null`)
	code, text = s.request("GET", "/api/uid/tsmeta?tsuid="+series, "")
	require.Equal(t, 200, code, text)
	require.Contains(t, text, `"displayName":"D"`)
	s.require(t, "DELETE "+at, "", 204, "")
	code, text = s.request("GET", "/api/uid/tsmeta?m=net.bytes{iface=web02}", "")
	require.Equal(t, 200, code, text)
	require.Contains(t, text, `[{"tsuid":"`+series+`","metric":{"uid":"`+metric+
		`","type":"METRIC","name":"net.bytes","displayName":""`)
	code, text = s.request("POST", "/api/uid/tsmeta?m=net.bytes{iface=web02}", `{"description":"d"}`)
	require.Equal(t, 200, code, text)
	require.Contains(t, text, `"description":"d"`)
	s.require(t, "DELETE /api/uid/tsmeta?tsuid="+series, "", 204, "")

	s.require(t, "GET /api/uid/uidmeta?uid=00&type=metric", "", 400,
		tsdError(400, `UID "00" has 2 digits instead of 16: wrong length`, ""))
	s.require(t, "GET /api/uid/uidmeta?uid="+fresh+"&type=metric", "", 404, tsdError(404, "Could not find the requested UID", ""))
	s.require(t, "GET /api/uid/uidmeta?uid="+metric+"&type=x", "", 400, tsdError(400, "Unknown type requested: x", ""))
	s.require(t, "GET /api/uid/tsmeta?tsuid="+fresh, "", 404, tsdError(404, "Could not find Timeseries meta data", ""))
	s.require(t, "GET /api/uid/x", "", 501, tsdError(501, "Other UID endpoints have not been implemented yet", ""))
	s.require(t, "GET /api/uid/uidmeta?method_override=patch", "", 405, tsdError(405,
		"Unknown or unsupported method override value", ""))
}

func TestOpenTSDBAnnotations(t *testing.T) {
	t.Parallel()
	s := tsdStack(t)
	series := tsuid.Text(labels.FromStrings("__name__", "net.bytes", "iface", "web02"))
	one := `{"tsuid":"` + series + `","startTime":1369141261,"endTime":0,"description":"d","notes":"n","custom":{"a":"b"}}`
	s.require(t, "POST /api/annotation", `{"startTime":"1369141261","tsuid":"`+strings.ToLower(series)+
		`","description":"d","notes":"n","custom":{"a":"b"}}`, 200, one)
	s.require(t, "POST /api/annotation", one, 304, "")
	s.require(t, "GET /api/annotation?start_time=1369141261&tsuid="+series, "", 200, one)
	s.require(t, "PUT /api/annotation", `{"startTime":1369141261,"tsuid":"`+series+`","endTime":1369141262}`, 200,
		`{"tsuid":"`+series+`","startTime":1369141261,"endTime":1369141262,"description":"","notes":""}`)
	all := `{"tsuid":"","startTime":1369141263,"endTime":0,"description":"all","notes":""}`
	ms := `{"tsuid":"","startTime":1369141264500,"endTime":0,"description":"ms","notes":""}`
	s.require(t, "GET /api/annotation?start_time=1369141263&description=all&method_override=post", "", 200, all)
	s.require(t, "POST /api/annotation/bulk", `[{"startTime":1369141264500,"description":"ms"},`+all+`]`, 200, `[`+ms+`,`+all+`]`)
	s.require(t, "GET /api/annotations?start_time=1369141200", "", 200, `[`+all+`,`+ms+`]`)
	s.require(t, "DELETE /api/annotation/bulk", `{"global":true,"tsuids":["`+series+
		`"],"startTime":1369141200,"endTime":1369141263}`, 200,
		`{"tsuids":["`+series+`"],"global":true,"startTime":1369141200000,"endTime":1369141263000,"totalDeleted":2}`)
	s.require(t, "GET /api/annotations?start_time=1369141200", "", 200, `[`+ms+`]`)
	s.require(t, "DELETE /api/annotation?start_time=1369141264500", "", 204, "")
	s.require(t, "GET /api/annotation?start_time=1369141264500", "", 404,
		tsdError(404, "Unable to locate annotation in storage", ""))
	const wrongLength = " digits instead of 16 and 32 for each tag: wrong length"
	for request, want := range map[string]string{
		"POST /api/annotation":                                  "Missing start time",
		"GET /api/annotation?start_time=0":                      "The start timestamp has not been set",
		"GET /api/annotation?start_time=x":                      "Invalid time: x. Invalid character 'x' in x",
		"GET /api/annotation?start_time=1&tsuid=00":             `tsuid "00" has 2` + wrongLength,
		"POST /api/annotation?start_time=2&end_time=1":          "The end timestamp cannot be less than the start timestamp",
		"DELETE /api/annotation/bulk":                           "Missing the start time value",
		"DELETE /api/annotation/bulk?start_time=1":              "Missing the TSUIDs or global annotations flag",
		"DELETE /api/annotation/bulk?start_time=1&tsuids=x":     `tsuid "X" has 1` + wrongLength,
		"GET /api/annotations?start_time=1369141200&end_time=5": "The end timestamp cannot be less than the start timestamp",
	} {
		s.require(t, request, "", 400, tsdError(400, want, ""))
	}
	code, text := s.request("POST", "/api/annotation", `{"startTime":7,"notes":"`+strings.Repeat("x", notes.DocumentBytesMax)+`"}`)
	require.Equal(t, http.StatusRequestEntityTooLarge, code)
	require.Contains(t, text, "at most 65536 are allowed")
}

// TestOpenTSDBInformation: the other paths answer, or fail with OpenTSDB's error text.
func TestOpenTSDBInformation(t *testing.T) {
	t.Parallel()
	s := tsdStack(t)
	for request, want := range map[string]string{
		"GET /api/aggregators": `"zimsum"`, "GET /aggregators": `"zimsum"`, "GET /api/config": `"tsd.mode":"rw"`,
		"GET /api/config/filters": `"not_key":{"examples":`, "GET /api/version": `"version":"2.4.1"`,
		"GET /version": "Halite unknown built at revision \nBuilt on ", "GET /version?json": `"short_revision"`,
		"GET /api/stats/x": `[]`, "GET /API/Config/Filters": `"not_key":{"examples":`, "GET /api/config/x": `"tsd.mode":"rw"`,
		"DELETE /api/dropcaches": `"Caches dropped"`, "GET /api/version?serializer=json": `"version":"2.4.1"`,
		"GET /api/dropcaches": `{"message":"Caches dropped","status":"200"}`, "GET /api/serializers": `"serializer":"json"`,
		"GET /api/status": `{"status":"ok"}`, "GET /api/stats": `[]`, "GET /api/stats/jvm": `"heapMemoryUsage"`,
		"GET /api/stats/threads": `[]`, "GET /api/stats/region_clients": `[]`, "GET /api/tree": `[]`,
	} {
		method, path, _ := strings.Cut(request, " ")
		code, text := s.request(method, path, "")
		require.Equal(t, 200, code, request)
		require.Contains(t, text, want, request)
	}
	for request, status := range map[string]int{
		"GET /": 404, "GET /q": 404, "GET /s/x.js": 404, "GET /logs": 404, "GET /api": 404, "GET /api/v1": 404, "GET /api/x": 404,
		"GET /api/v2/version": 501, "GET /api/v1/labels": 404, "GET /api/tree?treeid=7": 404,
		"POST /api/tree": 501, "DELETE /api/tree?treeid=1": 404, "GET /api/tree/branch": 400, "GET /api/tree/branch?treeid=1": 404,
		"GET /api/tree/rule?treeid=1": 404, "GET /api/tree/x": 404, "GET /api/tree?treeid=x": 400, "GET /metrics": 404,
	} {
		method, path, _ := strings.Cut(request, " ")
		code, text := s.request(method, path, "")
		require.Equal(t, status, code, "%s: %s", request, text)
		require.Contains(t, text, `{"error":{"code":`, request)
	}
	s.require(t, "GET /api/version?serializer=xml", "", 400,
		tsdError(400, "Requested serializer was not found", "Could not find a serializer with the name: xml"))
	s.require(t, "GET /api/v1x/version", "", 400,
		tsdError(400, "Invalid API version format supplied", "API version [1x] cannot be parsed to an integer"))
	w := httptest.NewRecorder() // on the main address, a version is Prometheus's
	s.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/api/v1/version", nil))
	require.Equal(t, http.StatusNotFound, w.Code)
	require.Contains(t, w.Body.String(), `"errorType":"not_found"`)
}
