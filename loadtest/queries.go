package loadtest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"halite/loadtest/fleet"
)

// queryLoopsMax bounds the queries under way at a time.
const queryLoopsMax = 16

// query is one question of a dashboard. In expr, $I stands for the instance and $J for the job of a host, $S for a
// service.
type query struct {
	name, class string
	expr        string
	// span and step of a range query; no span means an instant one.
	span, step time.Duration
	// label is set for a look-up of the values of a label on the series that expr selects.
	label string
}

// dashboards are the queries of the mix.
func dashboards() []query {
	const h = time.Hour
	const minute, day = time.Minute, 24 * h
	return []query{
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

// asked is a query with everything filled in.
type asked struct {
	path   string
	params url.Values
}

// fill makes a query about a host and a service that r picks, with its end at endMs.
func (q *query) fill(f *fleet.Fleet, r *rand.Rand, endMs int64) asked {
	service := ""
	if names := f.Services(); len(names) > 0 {
		service = names[r.IntN(len(names))]
	}
	instance := f.Instance(r.IntN(max(f.Options().Hosts, 1)), 0)
	expr := strings.NewReplacer("$I", instance, "$J", f.Options().Job, "$S", service).Replace(q.expr)
	switch {
	case q.label != "":
		return asked{"/api/v1/label/" + q.label + "/values",
			url.Values{"match[]": {expr}, "start": {seconds(endMs - 3_600_000)}, "end": {seconds(endMs)}}}
	case q.span > 0:
		return asked{"/api/v1/query_range", url.Values{
			"query": {expr}, "start": {seconds(endMs - q.span.Milliseconds())}, "end": {seconds(endMs)},
			"step": {strconv.FormatFloat(q.step.Seconds(), 'f', -1, 64)},
		}}
	}
	return asked{"/api/v1/query", url.Values{"query": {expr}, "time": {seconds(endMs)}}}
}

// QueryClass is what became of the queries of one class.
type QueryClass struct {
	Class  string `json:"class"`
	Errors int64  `json:"errors"`
	// Took is the time to the last byte.
	Took Quantiles `json:"took"`
}

// Queries is what became of the queries.
type Queries struct {
	All     QueryClass   `json:"all"`
	Classes []QueryClass `json:"classes"`
	// Skipped counts queries that were not asked because all loops were still waiting for earlier ones.
	Skipped int64    `json:"skipped"`
	Samples []string `json:"error_samples,omitempty"`
}

// queryMix asks dashboard queries at a rate.
type queryMix struct {
	reader *reader
	fleet  *fleet.Fleet
	rate   float64
	endMs  func() int64
	now    func() time.Time

	mu      sync.Mutex
	classes map[string]*queryTally
	skipped int64
	errors  []string
}

type queryTally struct {
	took   latencies
	errors int64
}

// run asks until ctx ends, then waits for the answers under way.
func (m *queryMix) run(ctx context.Context) {
	list := dashboards()
	random := rand.New(rand.NewPCG(m.fleet.Options().Seed, 77))
	began := m.now()
	places := make(chan struct{}, queryLoopsMax)
	var under sync.WaitGroup
	for n := 0; ctx.Err() == nil; n++ {
		sleep(ctx, began.Add(time.Duration(float64(n)/m.rate*1e9)).Sub(m.now()))
		if ctx.Err() != nil {
			break
		}
		q := list[n%len(list)]
		question := q.fill(m.fleet, random, m.endMs())
		select {
		case places <- struct{}{}:
			under.Go(func() {
				m.ask(ctx, q.class, question)
				<-places
			})
		default:
			m.mu.Lock()
			m.skipped++
			m.mu.Unlock()
		}
	}
	under.Wait()
}

func (m *queryMix) ask(ctx context.Context, class string, q asked) {
	began := m.now()
	body, err := m.reader.get(context.WithoutCancel(ctx), q.path, q.params)
	took := m.now().Sub(began)
	if err == nil {
		_, err = openEnvelope(body)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	t := m.classes[class]
	if t == nil {
		t = &queryTally{}
		m.classes[class] = t
	}
	if err != nil {
		t.errors++
		if text := err.Error(); len(m.errors) < errorsMax && !slices.Contains(m.errors, text) {
			m.errors = append(m.errors, text)
		}
		return
	}
	t.took.add(took)
}

func (m *queryMix) report() *Queries {
	m.mu.Lock()
	defer m.mu.Unlock()
	q := &Queries{Skipped: m.skipped, Samples: m.errors, All: QueryClass{Class: "all"}}
	var all latencies
	var names []string
	for name := range m.classes {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		t := m.classes[name]
		q.Classes = append(q.Classes, QueryClass{name, t.errors, t.took.quantiles()})
		q.All.Errors += t.errors
		all.merge(&t.took)
	}
	q.All.Took = all.quantiles()
	return q
}

// describe names a question in reports.
func (a asked) describe() string {
	return fmt.Sprintf("%s %s", a.path, a.params.Get("query")+a.params.Get("match[]"))
}
