package loadtest

import (
	"cmp"
	"context"
	"math/rand/v2"
	"slices"

	"halite/loadtest/probe"
	"halite/loadtest/report"
)

const (
	// shortMs is the latency below which one round of requests measures little more than the background work of a server.
	shortMs = 10
	// shortRounds is the number of rounds for short queries. It is odd, so that one round is the median.
	shortRounds = 9
	// shortRepeats multiplies the requests in each round of a short query.
	shortRepeats = 10
)

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
		out.Queries = append(out.Queries, compareShape(ctx, contenders, &list[i], random, opts))
	}
	return out
}

// compareShape sends one query of the suite to all targets. It sends a query that is short on all of them in further rounds,
// and keeps each target's round of median CPU time.
func compareShape(
	ctx context.Context, contenders []*contender, q *probe.Query, random *rand.Rand, opts CompareOptions,
) report.QueryCompared {
	round := suiteRound{contenders: contenders, query: q, random: random, repeats: opts.QueryRepeats, tolerance: opts.Tolerance}
	out := round.send(ctx)
	if !short(&out) {
		return out
	}
	round.repeats *= shortRepeats
	rounds := make([]report.QueryCompared, 0, shortRounds)
	for len(rounds) < shortRounds && ctx.Err() == nil {
		rounds = append(rounds, round.send(ctx))
	}
	return medianRound(out, rounds)
}

// short reports whether no target needs more than shortMs for a query.
func short(q *report.QueryCompared) bool {
	return !slices.ContainsFunc(q.Targets, func(t report.QueryTarget) bool { return t.Latency.P50Ms > shortMs })
}

// medianRound returns the round of median CPU time of each target. It adds the errors of all rounds, and keeps the first
// difference.
func medianRound(first report.QueryCompared, rounds []report.QueryCompared) report.QueryCompared {
	for i := range first.Targets {
		t := &first.Targets[i]
		of := make([]report.QueryTarget, 0, len(rounds))
		errs, difference := t.Errors, t.Difference
		for _, r := range rounds {
			of = append(of, r.Targets[i])
			errs, difference = errs+r.Targets[i].Errors, cmp.Or(difference, r.Targets[i].Difference)
		}
		if len(of) > 0 {
			slices.SortStableFunc(of, func(a, b report.QueryTarget) int { return cmp.Compare(a.CPUMs, b.CPUMs) })
			*t = of[len(of)/2]
		}
		t.Errors, t.Difference = errs, difference
	}
	return first
}

// suiteRound sends the requests of one query to one target after the other.
type suiteRound struct {
	contenders []*contender
	query      *probe.Query
	random     *rand.Rand
	repeats    int   // requests in a round
	sent       int64 // requests to each target in earlier rounds
	tolerance  float64
}

// send sends one round. If a target fails every request, it gets the query with the old names of its functions.
func (r *suiteRound) send(ctx context.Context) report.QueryCompared {
	first := r.contenders[0]
	requests, oldRequests := make([]probe.Request, r.repeats), make([]probe.Request, r.repeats)
	old, renamed := r.query.WithOldNames()
	for n := range requests {
		// Each request evaluates a second earlier, so that no target answers from a result cache.
		seed, endMs := r.random.Uint64(), first.queryEndMs()-r.sent*1000
		requests[n] = r.query.Request(first.fleet, rand.New(rand.NewPCG(seed, 0)), endMs)
		oldRequests[n] = old.Request(first.fleet, rand.New(rand.NewPCG(seed, 0)), endMs)
		r.sent++
	}
	out := compareQuery(ctx, r.contenders, r.query, requests, r.tolerance)
	for i := range out.Targets {
		if t := &out.Targets[i]; renamed && t.Errors == int64(r.repeats) {
			*t = report.QueryTarget{Target: t.Target}
			r.contenders[i].runAll(ctx, &old, oldRequests, t)
		}
	}
	return out
}
