package query

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"halite/query/columnar"
	"halite/query/read"
	"halite/query/read/rollups"
	"halite/query/resultcache"
)

// Explain describes how a query was evaluated and what it cost. Reading counts the reads of columnar operators. Result.Stats
// counts the reads of Prometheus's engine.
type Explain struct {
	// Operators is the tree of operators, one per line, indented by two spaces per level. "engine" is everything that
	// Prometheus's engine evaluates. Columnar operators evaluated the parts below it for the engine. Operators is empty if
	// the cache had the whole result.
	Operators []string
	// Undecided means that columnar operators gave up, and the engine evaluated the whole query.
	Undecided bool
	// UndecidedReason is the reason, if Undecided is set.
	UndecidedReason string
	// Engine lists the parts of the expression that only the engine evaluates, with the reasons.
	Engine []EnginePart
	// Selectors lists the selectors of the query with their time ranges.
	Selectors []SelectorSpan
	// Reading counts series, rows and samples.
	Reading read.Figures
	// Tiers reports, for each selector with a window of several hours, whether rollup states replaced its samples.
	Tiers []rollups.Use
	// Cache describes the use of the result cache.
	Cache CacheUse
	// PlanTime, SelectTime, ReadTime and EvaluateTime are consecutive. ReadTime includes decoding rows and copying the head.
	// QueueTime is the wait for a slot. TotalTime begins with the request.
	PlanTime, SelectTime, ReadTime, EvaluateTime, QueueTime, TotalTime time.Duration
}

// CacheUse describes the use of the result cache for a query.
type CacheUse struct {
	// Outcome is hit, partial, miss, refused, bypassed or off.
	Outcome string
	// Reason is the reason why the result was refused or not cached. Whole is the reason why it can only be reused for the
	// same range. Each is empty if it does not apply.
	Reason, Whole string
	// StepsReused counts the steps from the cache, and StepsEvaluated counts the others.
	StepsReused, StepsEvaluated int
}

// explainer collects the explanation of a query. A nil explainer does nothing.
type explainer struct {
	began   time.Time
	queue   time.Duration
	explain Explain
}

func newExplainer(q request) *explainer {
	if !q.Explain {
		return nil
	}
	return &explainer{began: time.Now()}
}

// queued records how long the query has waited.
func (x *explainer) queued(took time.Duration) {
	if x != nil {
		x.queue = took
	}
}

// engineOnly records an evaluation without columnar operators.
func (x *explainer) engineOnly(took time.Duration) {
	if x != nil {
		x.explain.Operators = []string{"engine"}
		x.explain.EvaluateTime += took
	}
}

// add adds the explanation of the query or of a part of it.
func (x *explainer) add(part *Explain) {
	if x == nil {
		return
	}
	e, r := &x.explain, &part.Reading
	e.Operators = part.Operators
	e.Undecided = e.Undecided || part.Undecided
	e.UndecidedReason = cmp.Or(e.UndecidedReason, part.UndecidedReason)
	series := max(e.Reading.Series, r.Series) // each part selects the same series
	e.Reading.Add(r)
	e.Reading.Series, e.Reading.BytesPeak = series, max(e.Reading.BytesPeak, r.BytesPeak)
	e.Tiers = append(e.Tiers, part.Tiers...)
	e.PlanTime += part.PlanTime
	e.SelectTime += part.SelectTime
	e.ReadTime += part.ReadTime
	e.EvaluateTime += part.EvaluateTime
}

// finish completes the explanation. lookup may be nil.
func (x *explainer) finish(lookup *resultcache.Lookup) *Explain {
	e := &x.explain
	e.Cache = cacheUse(lookup)
	e.QueueTime = x.queue
	e.TotalTime = time.Since(x.began)
	return e
}

// cacheUse describes the use of the cache for a query. q is nil if the cache is off.
func cacheUse(q *resultcache.Lookup) CacheUse {
	if q == nil {
		return CacheUse{Outcome: resultcache.OutcomeOff}
	}
	u := CacheUse{Outcome: q.Outcome, Reason: string(q.Why)}
	if q.Outcome == resultcache.OutcomeRefused || q.Outcome == resultcache.OutcomeBypassed {
		return u
	}
	u.Whole = string(q.Shape.WhySliding)
	if !q.IsRange {
		u.Whole = "instant"
	}
	u.StepsReused, u.StepsEvaluated = q.Reused, q.Steps-q.Reused
	return u
}

// explainRun explains a run that took a time, without the planning.
func (q *columnarQuery) explainRun(run *columnar.Run, took time.Duration) {
	e := &q.explain
	e.Operators = q.plan.Operators()
	e.Reading = q.session.Figures()
	e.Tiers = q.rollups.Uses()
	e.PlanTime = q.planning
	e.SelectTime, e.ReadTime = run.Times()
	e.EvaluateTime = took - e.SelectTime - e.ReadTime
}

// String prints the tree and the figures.
func (e *Explain) String() string {
	var b strings.Builder
	for _, line := range e.Operators {
		b.WriteString(line + "\n")
	}
	if e.Undecided {
		fmt.Fprintf(&b, "given up; evaluated by the engine: %s\n", e.UndecidedReason)
	}
	for _, p := range e.Engine {
		fmt.Fprintf(&b, "engine: %s: %s\n", p.Expression, p.Reason)
	}
	for i := range e.Tiers {
		u := &e.Tiers[i]
		fmt.Fprintf(&b, "tiers: %s: %s: %s; states of %d days and %d hours, %d rows, %d series from rows alone\n",
			u.Selector, u.Tier(), u.Reason, u.Days, u.Hours, u.Rows, u.Fallbacks)
	}
	fmt.Fprintf(&b, "series %d, ranges %d, rows read %d, used %d, samples %d; cache %s, %d of %d steps\n",
		e.Reading.Series, e.Reading.Ranges, e.Reading.Rows, e.Reading.RowsUsed, e.Reading.Samples,
		e.Cache.Outcome, e.Cache.StepsReused, e.Cache.StepsReused+e.Cache.StepsEvaluated)
	fmt.Fprintf(&b, "queue %s, plan %s, select %s, read %s, evaluate %s, in all %s\n",
		e.QueueTime, e.PlanTime, e.SelectTime, e.ReadTime, e.EvaluateTime, e.TotalTime)
	return b.String()
}
