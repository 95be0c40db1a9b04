package probe

import (
	"fmt"
	"math/rand/v2"
	"net/url"
	"strconv"
	"strings"
	"time"

	"halite/loadtest/client"
	"halite/loadtest/fleet"
)

// Query is one query of a dashboard. In its expression, $I is replaced by the instance of a host, $J by the job and $S by
// a service.
type Query struct {
	Name, Class string
	expr        string
	span, step  time.Duration // of a range query; an instant query has no span
	label       string        // if set, the query lists the values of this label on the selected series
}

// LabelValues reports whether the response is a list of label values instead of samples.
func (q *Query) LabelValues() bool { return q.label != "" }

// Dashboards returns all queries.
func Dashboards() []Query {
	const h = time.Hour
	const minute, day = time.Minute, 24 * h
	return []Query{
		{"inst_one", "instant", `node_load1{instance="$I",job="$J"}`, 0, 0, ""},
		{"inst_host", "instant", `{instance="$I",job="$J"}`, 0, 0, ""},
		{"inst_errors", "instant", `sum by (service) (rate(app_requests_total{job="$J",code="500"}[5m]))`, 0, 0, ""},
		{"1h_cpu", "range 1h", `sum by (mode) (rate(node_cpu_seconds_total{instance="$I",job="$J"}[5m]))`, h, 15 * time.Second, ""},
		{"1h_service", "range 1h", `sum by (code) (rate(app_requests_total{service="$S",job="$J"}[5m]))`, h, 15 * time.Second, ""},
		{"1h_p99", "range 1h",
			`histogram_quantile(0.99, sum by (le) (rate(app_request_duration_seconds_bucket{service="$S",job="$J"}[5m])))`,
			h, 15 * time.Second, ""},
		{"6h_heap", "range 6h", `max by (service) (app_heap_bytes{job="$J",region="eu-west-1"})`, 6 * h, minute, ""},
		{"6h_load", "range 6h", `avg by (region) (node_load5{job="$J"})`, 6 * h, minute, ""},
		{"24h_network", "range 24h",
			`topk(5, sum by (instance) (rate(node_network_receive_bytes_total{job="$J",cluster="us-east-1-k1"}[10m])))`,
			day, 5 * minute, ""},
		{"24h_disk", "range 24h", `min by (mountpoint) (node_filesystem_avail_bytes{instance="$I",job="$J"})`, day, 5 * minute, ""},
		{"values_instance", "label values", `up{job="$J"}`, 0, 0, "instance"},
		{"values_service", "label values", `app_build_info{job="$J"}`, 0, 0, "service"},
	}
}

// Request is a query with all placeholders replaced.
type Request struct {
	Path   string
	Params url.Values
}

// String returns the path and the expression.
func (r Request) String() string {
	return fmt.Sprintf("%s %s", r.Path, r.Params.Get("query")+r.Params.Get("match[]"))
}

// Request returns a request that ends at endMs, for a random host and service.
func (q *Query) Request(f *fleet.Fleet, r *rand.Rand, endMs int64) Request {
	service := ""
	if names := f.Services(); len(names) > 0 {
		service = names[r.IntN(len(names))]
	}
	instance := f.Instance(r.IntN(max(f.Options().Hosts, 1)), 0)
	expr := strings.NewReplacer("$I", instance, "$J", f.Options().Job, "$S", service).Replace(q.expr)
	end := client.Seconds(endMs)
	switch {
	case q.label != "":
		return Request{"/api/v1/label/" + q.label + "/values",
			url.Values{"match[]": {expr}, "start": {client.Seconds(endMs - 3_600_000)}, "end": {end}}}
	case q.span > 0:
		return Request{"/api/v1/query_range", url.Values{
			"query": {expr}, "start": {client.Seconds(endMs - q.span.Milliseconds())}, "end": {end},
			"step": {strconv.FormatFloat(q.step.Seconds(), 'f', -1, 64)},
		}}
	}
	return Request{"/api/v1/query", url.Values{"query": {expr}, "time": {end}}}
}
