package loadtest

import (
	"context"
	"fmt"
	"math/rand/v2"

	"halite/loadtest/measure"
	"halite/loadtest/probe"
	"halite/loadtest/report"
)

// compareQueries sends each dashboard query to all targets, one target after the other.
func compareQueries(ctx context.Context, contenders []*contender, opts CompareOptions) []report.QueryCompared {
	first := contenders[0]
	random := rand.New(rand.NewPCG(first.opts.Load.Fleet.Seed, 78))
	list := probe.Dashboards()
	out := make([]report.QueryCompared, 0, len(list))
	stop := first.progress.phase("queries", func() (float64, float64, string) { return 0, 0, "" })
	defer stop()
	for i := range list {
		requests := make([]probe.Request, opts.QueryRepeats)
		for n := range requests {
			requests[n] = list[i].Request(first.fleet, random, first.queryEndMs()-int64(n)*1000)
		}
		out = append(out, compareQuery(ctx, contenders, &list[i], requests, opts.Tolerance))
	}
	return out
}

// compareQuery sends all requests of one query to each target. It compares the responses with the responses of the first
// target.
func compareQuery(ctx context.Context, contenders []*contender, q *probe.Query, requests []probe.Request,
	tolerance float64,
) report.QueryCompared {
	out := report.QueryCompared{Name: q.Name, Class: q.Class, Targets: make([]report.QueryTarget, len(contenders))}
	var reference []any
	for i, c := range contenders {
		t := &out.Targets[i]
		t.Target = c.target.Name
		responses := c.runAll(ctx, q, requests, t)
		if i == 0 {
			reference = responses
			continue
		}
		for n := range responses {
			if text := describeDifference(reference[n], responses[n], tolerance); text != "" && t.Difference == "" {
				t.Difference = fmt.Sprintf("%s (%s)", text, requests[n])
			}
		}
	}
	return out
}

// runAll sends all requests of a query and returns the parsed responses. The response to a request that failed is nil.
func (c *contender) runAll(ctx context.Context, q *probe.Query, requests []probe.Request, t *report.QueryTarget) []any {
	var latency measure.Histogram
	var responses []any
	before, errBefore := measure.ReadProcess(c.target.PID)
	for _, r := range requests {
		began := c.opts.Now()
		body, err := c.querier.Get(ctx, r.Path, r.Params)
		took := c.opts.Now().Sub(began)
		var response any
		if err == nil {
			response, err = parseResponse(body, q.LabelValues())
		}
		responses = append(responses, response)
		if err != nil {
			t.Errors++
			t.Difference = err.Error()
			continue
		}
		latency.Observe(took)
		series, points := responseSize(response)
		t.Series, t.Points = t.Series+series, t.Points+points
	}
	if after, err := measure.ReadProcess(c.target.PID); c.target.PID > 0 && err == nil && errBefore == nil {
		t.CPUMs = (after.CPUSeconds - before.CPUSeconds) * 1e3 / float64(len(requests))
	}
	t.Latency = latency.Quantiles()
	return responses
}
