package probe

import (
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"halite/loadtest/client"
	"halite/loadtest/fleet"
	"halite/loadtest/measure"
)

// ConcurrencyMax bounds the queries of a QueryMix that run at the same time.
const ConcurrencyMax = 16

// errorsMax bounds the distinct errors that a report shows.
const errorsMax = 5

// QueryClass has the outcomes of one class of queries.
type QueryClass struct {
	Class  string `json:"class"`
	Errors int64  `json:"errors"`
	// Latency is the time to the last byte of successful responses.
	Latency measure.Quantiles `json:"latency"`
}

// Queries has the outcomes of all queries.
type Queries struct {
	All     QueryClass   `json:"all"`
	Classes []QueryClass `json:"classes"`
	// Skipped queries were due while ConcurrencyMax others were running.
	Skipped       int64    `json:"skipped"`
	ErrorExamples []string `json:"error_examples,omitempty"`
}

// QueryMix sends dashboard queries at a rate.
type QueryMix struct {
	querier *client.Querier
	fleet   *fleet.Fleet
	rate    float64 // queries per second
	endMs   func() int64
	now     func() time.Time

	mu      sync.Mutex
	classes map[string]*classTally
	skipped int64
	errors  []string
}

type classTally struct {
	latency measure.Histogram
	errors  int64
}

// NewQueryMix returns a mix of rate queries per second. endMs returns the end of the time range of the next query.
func NewQueryMix(q *client.Querier, f *fleet.Fleet, rate float64, endMs func() int64, now func() time.Time) *QueryMix {
	return &QueryMix{querier: q, fleet: f, rate: rate, endMs: endMs, now: now, classes: make(map[string]*classTally)}
}

// Run sends queries until ctx ends. Then it waits for the responses to running queries.
func (m *QueryMix) Run(ctx context.Context) {
	list := Dashboards()
	random := rand.New(rand.NewPCG(m.fleet.Options().Seed, 77))
	began := m.now()
	slots := make(chan struct{}, ConcurrencyMax)
	var running sync.WaitGroup
	for n := 0; ctx.Err() == nil; n++ {
		client.Sleep(ctx, began.Add(time.Duration(float64(n)/m.rate*1e9)).Sub(m.now()))
		if ctx.Err() != nil {
			break
		}
		q := list[n%len(list)]
		request := q.Request(m.fleet, random, m.endMs())
		select {
		case slots <- struct{}{}:
			running.Go(func() {
				m.send(ctx, q.Class, request)
				<-slots
			})
		default:
			m.mu.Lock()
			m.skipped++
			m.mu.Unlock()
		}
	}
	running.Wait()
}

func (m *QueryMix) send(ctx context.Context, class string, r Request) {
	began := m.now()
	body, err := m.querier.Get(context.WithoutCancel(ctx), r.Path, r.Params)
	took := m.now().Sub(began)
	if err == nil {
		_, err = client.OpenEnvelope(body)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	t := m.classes[class]
	if t == nil {
		t = &classTally{}
		m.classes[class] = t
	}
	if err != nil {
		t.errors++
		if text := err.Error(); len(m.errors) < errorsMax && !slices.Contains(m.errors, text) {
			m.errors = append(m.errors, text)
		}
		return
	}
	t.latency.Observe(took)
}

// Report returns the outcomes so far.
func (m *QueryMix) Report() *Queries {
	m.mu.Lock()
	defer m.mu.Unlock()
	q := &Queries{Skipped: m.skipped, ErrorExamples: m.errors, All: QueryClass{Class: "all"}}
	var all measure.Histogram
	for _, name := range slices.Sorted(maps.Keys(m.classes)) {
		t := m.classes[name]
		q.Classes = append(q.Classes, QueryClass{name, t.errors, t.latency.Quantiles()})
		q.All.Errors += t.errors
		all.Merge(&t.latency)
	}
	q.All.Latency = all.Quantiles()
	return q
}
