package loadtest

import (
	"context"
	"math/rand/v2"

	"halite/loadtest/probe"
	"halite/loadtest/report"
)

// instantRepeats multiplies the repeats of instant queries and look-ups in the suite, because each takes little time.
const instantRepeats = 10

// compareSuite sends each query of the suite to all targets, one target after the other.
func compareSuite(ctx context.Context, contenders []*contender, opts CompareOptions) *report.Suite {
	first := contenders[0]
	random := rand.New(rand.NewPCG(first.opts.Load.Fleet.Seed, 79))
	list := probe.Suite()
	out := &report.Suite{Bound: opts.Bound}
	stop := first.progress.phase("queries", func() (float64, float64, string) {
		return float64(len(out.Queries)), float64(len(list)), " of the suite"
	})
	defer stop()
	for i := range list {
		if ctx.Err() != nil {
			break
		}
		repeats := opts.QueryRepeats
		if list[i].Class != probe.ClassRange {
			repeats *= instantRepeats
		}
		out.Queries = append(out.Queries, compareShape(ctx, contenders, &list[i], random, repeats, opts.Tolerance))
	}
	return out
}

// compareShape sends one query of the suite. If a target fails every request, it gets the query with
// the old names of its functions.
func compareShape(
	ctx context.Context, contenders []*contender, q *probe.Query, random *rand.Rand, repeats int, tolerance float64,
) (out report.QueryCompared) {
	first := contenders[0]
	requests, oldRequests := make([]probe.Request, repeats), make([]probe.Request, repeats)
	old, renamed := q.WithOldNames()
	for n := range requests {
		// Each repeat evaluates a second earlier, so that no target answers from a result cache.
		seed, endMs := random.Uint64(), first.queryEndMs()-int64(n)*1000
		requests[n] = q.Request(first.fleet, rand.New(rand.NewPCG(seed, 0)), endMs)
		oldRequests[n] = old.Request(first.fleet, rand.New(rand.NewPCG(seed, 0)), endMs)
	}
	out = compareQuery(ctx, contenders, q, requests, tolerance)
	for i := range out.Targets {
		if t := &out.Targets[i]; renamed && t.Errors == int64(repeats) {
			*t = report.QueryTarget{Target: t.Target}
			contenders[i].runAll(ctx, &old, oldRequests, t)
		}
	}
	return out
}
