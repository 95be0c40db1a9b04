package comparison

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
)

// Request is one of the requests that Halite and Prometheus must answer alike.
type Request struct {
	Method, Path string
	// Query is the raw query string, Form the body of a POST.
	Query, Form string
}

func (r Request) String() string {
	return strings.TrimSpace(fmt.Sprintf("%s %s?%s %s", r.Method, r.Path, r.Query, r.Form))
}

// Send has a handler answer the request.
func (r Request) Send(h http.Handler) *httptest.ResponseRecorder {
	req := httptest.NewRequest(r.Method, "/api/v1/"+r.Path, strings.NewReader(r.Form))
	req.URL.RawQuery = r.Query
	if r.Method == http.MethodPost {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, req)
	return w
}

func form(pairs ...string) string {
	v := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		v.Add(pairs[i], pairs[i+1])
	}
	return v.Encode()
}

func get(path string, pairs ...string) Request {
	return Request{Method: http.MethodGet, Path: path, Query: form(pairs...)}
}

func post(path string, pairs ...string) Request {
	return Request{Method: http.MethodPost, Path: path, Form: form(pairs...)}
}

// Requests are all requests of the comparison.
func Requests() []Request {
	return slices.Concat(
		expressionRequests(), timeRequests(), badQueryRequests(), splitRequests(), lookupRequests(), badLookupRequests(),
		syntaxRequests(), otherRequests(),
	)
}

// expressionRequests evaluate expressions of all result types, at one time and over a range.
func expressionRequests() (list []Request) {
	for _, expr := range []string{
		`1`, `1+1`, `-1e30`, `NaN`, `Inf`, `1/0`, `"text <&> ü"`, `time()`, `vector(3)`, `scalar(vector(1e-9))`,
		`up`, `up{instance="a:9100"}`, `up{instance=~"a.*|b.*"}`, `up{instance!="a:9100"}`, `up{instance!~"a.*"}`,
		`{__name__=~"up|temperature"}`, `nothing`, `strange`, `temperature`, `temperature > 0`, `temperature > bool 0`,
		`build_info{empty=""}`, `{"utf8.metric"}`, `{"utf8.metric", "label with space"="x"}`,
		`sum(http_requests_total)`, `sum by (code) (http_requests_total)`, `sum without (code, job) (http_requests_total)`,
		`count by (instance) ({job="web"})`, `topk(2, http_requests_total)`, `quantile(0.9, http_requests_total)`,
		`count_values("v", up)`, `group(up)`, `stddev(temperature{room="hall"})`,
		`rate(http_requests_total[5m])`, `increase(http_requests_total{code="200"}[10m])`, `irate(http_requests_total[1m])`,
		`sum by (code) (rate(http_requests_total[5m]))`, `avg_over_time(temperature{room="hall"}[10m])`,
		`max_over_time(up[1h])`, `quantile_over_time(0.5, temperature[5m])`, `changes(up[30m])`,
		`resets(http_requests_total[1h])`,
		`histogram_quantile(0.9, sum by (le) (rate(http_request_duration_seconds_bucket[5m])))`,
		`http_requests_total / on (instance) group_left () up`, `http_requests_total and on (instance) up == 1`,
		`up or temperature`, `up unless on (instance) http_requests_total{code="500"}`,
		`label_replace(up, "host", "$1", "instance", "(.*):.*")`, `label_join(up, "x", "-", "job", "instance")`,
		`absent(nothing{a="b"})`, `absent_over_time(up[5m])`, `up offset 10m`, `up @ 1700001000`, `up @ start()`,
		`rate(http_requests_total[5m] offset 5m)`, `max_over_time(rate(http_requests_total[5m])[30m:1m])`,
		`sort_desc(temperature)`, `sort(http_requests_total)`, `abs(temperature)`, `clamp(temperature, 0, 10)`,
		`predict_linear(temperature[30m], 3600)`, `deriv(temperature[10m])`, `timestamp(up)`, `day_of_week()`,
		`rate(temperature[5m])`, `quantile(2, up)`, `http_requests_total{code="200"}[1m]`, `sum(nothing)`,
		`histogram_quantile(0.5, temperature)`, `-up`, `2 ^ up`, `temperature % 7`, `atan2(1, 2)`,
	} {
		list = append(list, get("query", "query", expr, "time", at(1800)))
		if !strings.Contains(expr, "[1m]`") {
			list = append(list, post("query_range", "query", expr, "start", at(600), "end", at(1800), "step", "300"))
		}
	}
	return list
}

// timeRequests have times, steps and durations in all their forms.
func timeRequests() []Request {
	return []Request{
		get("query", "query", "time()", "time", "2023-11-14T22:15:00Z"),
		get("query", "query", "time()", "time", "2023-11-14T23:15:00.5+01:00"),
		get("query", "query", "time()", "time", "1700000100.1239"), get("query", "query", "time()", "time", "0"),
		get("query", "query", "time()", "time", "-1.5"), get("query", "query", "time()", "time", "1.7e9"),
		get("query", "query", "up", "time", at(7200)), get("query", "query", "up", "time", at(3600+299)),
		get("query", "query", "up", "time", at(3600+301)), get("query", "query", "up", "time", at(-1)),
		get("query", "query", "up", "time", at(3900), "lookback_delta", "10m"),
		get("query", "query", "up", "time", at(1800), "lookback_delta", "1"),
		get("query", "query", "up", "time", at(1800), "timeout", "30s"),
		get("query", "query", "up", "time", at(1800), "timeout", "1m30s"),
		get("query", "query", "up", "time", at(1800), "limit", "2"),
		get("query", "query", "up", "time", at(1800), "limit", "3"),
		get("query", "query", "up", "time", at(1800), "limit", "0"), get("query", "query", "1", "time", "1", "limit", "1"),
		get("query", "query", "sum(rate(http_requests_total[5m]))", "time", at(1800), "stats", "true"),
		get("query", "query", "up", "time", at(1800), "stats", "all"),
		get("query_range", "query", "up", "start", at(0), "end", at(60), "step", "15s", "stats", "all"),
		get("query_range", "query", "up", "start", at(0), "end", at(60), "step", "0.5"),
		get("query_range", "query", "up", "start", at(0.25), "end", at(10.75), "step", "2.5"),
		get("query_range", "query", "time()", "start", at(0.001), "end", at(1), "step", "0.333"),
		get("query_range", "query", "up", "start", at(0), "end", at(0), "step", "1"),
		get("query_range", "query", "up", "start", at(0), "end", at(59), "step", "1m"),
		get("query_range", "query", "up", "start", at(0), "end", at(3600), "step", "1h"),
		get("query_range", "query", "up", "start", at(-7200), "end", at(-3600), "step", "60"),
		get("query_range", "query", "up", "start", "2023-11-14T22:15:00Z", "end", "2023-11-14T22:16:00Z", "step", "1m30s"),
		get("query_range", "query", "up", "start", at(0), "end", at(600), "step", "60", "limit", "1"),
		get("query_range", "query", "1", "start", at(0), "end", at(600), "step", "60", "limit", "1"),
		get("query_range", "query", "http_requests_total", "start", at(0), "end", at(3600), "step", "450", "timeout", "10s"),
		get("query_range", "query", "up", "start", "0", "end", "11000", "step", "1"),
	}
}

// badQueryRequests are query requests that are refused.
func badQueryRequests() []Request {
	return []Request{
		get("query"), get("query", "query", ""), get("query", "query", "up{"), get("query", "query", "up and"),
		get("query", "query", "foo bar"), get("query", "query", "sum("), get("query", "query", `up{a="b"`),
		get("query", "query", "rate(up)"), get("query", "query", "up[5m] + 1"), get("query", "query", "nofunc(up)"),
		get("query", "query", `{a=""}`), get("query", "query", `{__name__=~".*"}`), get("query", "query", `up{a=~"("}`),
		get("query", "query", "1 + \"a\""), get("query", "query", "up\nand\n)"), get("query", "query", "\xff"),
		get("query", "query", "up", "time", "x"), get("query", "query", "up", "time", "2023-11-14"),
		get("query", "query", "up", "timeout", "x"), get("query", "query", "up", "timeout", "1y1x"),
		get("query", "query", "up", "limit", "x"), get("query", "query", "up", "limit", "-1"),
		get("query", "query", "up", "limit", "1.5"), get("query", "query", "up", "lookback_delta", "x"),
		get("query", "query", "http_requests_total / up", "time", at(1800)),
		get("query", "query", `label_replace(up, "a", "$1", "job", "(")`, "time", at(1800)),
		get("query", "query", `label_join(up, "", "-", "job")`, "time", at(1800)),
		get("query", "query", `label_replace({__name__=~"up|temperature"}, "__name__", "x", "", "")`, "time", at(1800)),
		get("query_range"), get("query_range", "query", "up"),
		get("query_range", "query", "up", "start", "x", "end", "1", "step", "1"),
		get("query_range", "query", "up", "start", "0", "step", "1"),
		get("query_range", "query", "up", "start", "0", "end", "1"),
		get("query_range", "query", "up", "start", "2", "end", "1", "step", "1"),
		get("query_range", "query", "up", "start", "0", "end", "1", "step", "0"),
		get("query_range", "query", "up", "start", "0", "end", "1", "step", "-1"),
		get("query_range", "query", "up", "start", "0", "end", "1", "step", "x"),
		get("query_range", "query", "up", "start", "0", "end", "1", "step", "9.3e9"),
		get("query_range", "query", "up", "start", "0", "end", "11001", "step", "1"),
		get("query_range", "query", "up{", "start", "0", "end", "1", "step", "1"),
		get("query_range", "query", "up[5m]", "start", "0", "end", "1", "step", "1"),
		get("query_range", "query", `"a"`, "start", "0", "end", "1", "step", "1"),
		get("query_range", "query", "up", "start", "0", "end", "1", "step", "1", "limit", "x"),
		get("query_range", "query", "up", "start", "0", "end", "1", "step", "1", "timeout", "x"),
		get("query_exemplars", "query", "up{"), get("query_exemplars", "query", "up", "start", "x"),
		get("query_exemplars", "query", "up", "start", "2", "end", "1"), get("query_exemplars"),
	}
}

// splitRequests have their parameters in the URL and in the body.
func splitRequests() []Request {
	both := func(path, query, body string) Request {
		return Request{Method: http.MethodPost, Path: path, Query: query, Form: body}
	}
	return []Request{
		both("query", "query=up", "time="+at(1800)), both("query", "time="+at(1800), "query=up"),
		both("query", "query=down&time=1", "query=up&time="+at(1800)), both("query", "", "query=up;&time=1"),
		both("query", "query=up&x=%zz", "time="+at(1800)), both("query", "query=%zz", ""),
		both("query_range", "query=up&step=60", "start="+at(0)+"&end="+at(600)),
		both("labels", "match[]=up", "match[]=temperature"), both("labels", "start="+at(0), "end="+at(10)),
		both("series", "match[]=up", "match[]=temperature"), both("series", "", "match[]=up"),
		both("series", "x=%zz", "match[]=up"), both("series", "", "match[]=up&x=%zz"),
		both("query_exemplars", "query=up", "start=1&end=2"), both("format_query", "", "query=sum(up)"),
		both("parse_query", "query=up", ""),
		{Method: http.MethodGet, Path: "query", Query: "query=1&time=1", Form: "query=2"},
	}
}

// lookupRequests ask for names, values and series.
func lookupRequests() (list []Request) {
	for _, pairs := range [][]string{
		{}, {"match[]", "up"}, {"match[]", "up", "match[]", "temperature"}, {"match[]", `{job="web"}`},
		{"match[]", `{job=~".+"}`}, {"match[]", `{code!="",le=""}`}, {"match[]", "nothing"},
		{"match[]", "nothing", "match[]", "up"}, {"limit", "2"}, {"limit", "0"}, {"limit", "1000"},
		{"limit", "1", "match[]", "up", "match[]", "temperature"}, {"start", at(0), "end", at(3600)},
		{"start", at(3*3600 + 3600)}, {"end", at(-3 * 3600)}, {"start", "2030-01-01T00:00:00Z"},
		{"start", "-292273086-05-16T16:47:06Z", "end", "292277025-08-18T07:12:54.999999999Z"},
		{"match[]", `{"utf8.metric"}`}, {"match[]", `{__name__="up",instance!~"a.*"}`},
	} {
		list = append(list, get("labels", pairs...), post("labels", pairs...))
		if limited := len(pairs) > 1 && pairs[0] == "limit" && len(pairs[1]) == 1 && pairs[1] != "0"; !limited {
			// The order of Prometheus's maps decides which values it drops.
			list = append(list, get("label/instance/values", pairs...), get("label/__name__/values", pairs...))
		}
		if slices.Contains(pairs, "match[]") {
			list = append(list, get("series", pairs...), post("series", pairs...))
		}
	}
	for _, name := range []string{
		"job", "nothing", "path", "text", "empty", "U__label_20_with_20_space", "U__dot_2e_ted", "U__job",
	} {
		list = append(list, get("label/"+name+"/values"))
	}
	return append(list,
		get("series", "match[]", `{__name__=~".+"}`), get("series", "match[]", `{job="node"}`, "limit", "5"),
		get("series", "match[]", `up`, "match[]", `up{instance="a:9100"}`),
		get("label/label%20with%20space/values"), get("label/dot.ted/values"))
}

// badLookupRequests are look-up requests that are refused.
func badLookupRequests() (list []Request) {
	for _, pairs := range [][]string{
		{"match[]", "up{"}, {"match[]", `{a=""}`}, {"match[]", `{a=~".*"}`}, {"match[]", `{}`}, {"match[]", ""},
		{"match[]", "up", "match[]", `{a=~".*"}`}, {"match[]", "up", "limit", "x"}, {"match[]", "up", "limit", "-1"},
		{"match[]", "up", "start", "x"}, {"match[]", "up", "end", "x"}, {"match[]", "up[5m]"}, {"match[]", "sum(up)"},
	} {
		list = append(list, get("labels", pairs...), get("label/job/values", pairs...), get("series", pairs...))
	}
	return append(list, get("series"), post("series"), get("label/%FF/values"), get("label/U__/values"))
}

// syntaxRequests only parse expressions.
func syntaxRequests() (list []Request) {
	for _, expr := range []string{
		"up", "1", "1.5e300", "-up", `"s<>"`, "(up)", "sum by(a,b)(up)", "topk(3,up)", "sum without(a)(rate(up[5m]))",
		"a+on(x)group_left(y)b", "a/ignoring(x)group_right()b", "a==bool b", "a and b", "up offset 5m", "up offset -5m",
		"up @ 1.5", "up @ end()", "rate(up[5m:30s] offset 1m)", "up[5m:]", `{"a.b", c!~"d"}`, "time()",
		"label_replace(up, \"a\", \"$1\", \"b\", \"(.*)\")", "histogram_quantile(0.9, sum by (le) (rate(x_bucket[5m])))",
		"sum(rate(http_requests_total{job=\"a\",instance=~\"b.*\"}[5m])) / sum(rate(http_requests_total[5m])) > 0.5",
		"up[5m+5m]", "count_values(\"x\", up)", "a or b unless c", "2^3^4", "", "up{", "sum(", "rate(up)", "a +",
		`{a=""}`,
	} {
		list = append(list, get("format_query", "query", expr), get("parse_query", "query", expr),
			post("format_query", "query", expr))
	}
	return list
}

// otherRequests are requests for the small endpoints that both sides answer the same.
func otherRequests() []Request {
	return []Request{
		get("query_exemplars", "query", "up"), post("query_exemplars", "query", "up", "start", at(0), "end", at(10)),
		get("rules"), get("rules", "type", "alert"), get("rules", "type", "x"), get("rules", "exclude_alerts", "x"),
		get("rules", "group_limit", "x"), get("rules", "group_limit", "0"), get("rules", "group_next_token", "x"),
		get("rules", "group_limit", "1", "group_next_token", "x"), get("rules", "match[]", "up{"), get("alerts"),
		get("scrape_pools/config"), get("scrape_pools/config", "scrapePool", "x"), get("targets/relabel_steps"),
		get("targets/relabel_steps", "scrapePool", "x"), get("targets/relabel_steps", "scrapePool", "x", "labels", "x"),
		get("targets/relabel_steps", "scrapePool", "x", "labels", `{"a":"b"}`),
		get("alertmanagers"), get("scrape_pools"), get("targets/metadata"), get("targets/metadata", "limit", "x"),
		get("targets/metadata", "match_target", "{"), get("metadata", "metric", "nothing"), get("metadata", "limit", "x"),
		get("metadata", "limit_per_metric", "x"), get("status/tsdb", "limit", "0"), get("status/tsdb", "limit", "x"),
		get("status/tsdb", "limit", "10001"), {Method: http.MethodPut, Path: "query"},
		{Method: http.MethodDelete, Path: "series"},
		{Method: http.MethodPost, Path: "label/job/values"}, get("nothing"), get("label/a/b/values"),
		{Method: http.MethodOptions, Path: "query"},
	}
}
