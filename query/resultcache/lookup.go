package resultcache

import (
	"encoding/binary"
	"math"
	"time"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"

	"halite/query/expression"
)

// Find looks a query up. It returns the whole result, or nil; then Parts lists the steps that the cache has and those that the
// caller evaluates.
func (q *Lookup) Find() (value parser.Value) {
	if q == nil || q.Outcome != "" {
		return nil
	}
	q.Outcome = outcomeMiss
	q.Parts = []part{{From: 0, To: q.Steps}}
	b := q.cache.entries.GetBig(nil, q.key[:])
	if len(b) == 0 {
		return nil
	}
	s, ok := parseStored(b)
	if !ok || s.stepMs != q.stepMs {
		return nil
	}
	if !q.sliding() {
		if _, _, changed := q.cache.changes.ChangedSince(s.generation, q.mintMs, q.maxtMs); changed {
			return nil
		}
		q.Outcome, q.Reused = outcomeHit, q.Steps
		if q.IsRange {
			return s.slice(0, s.steps)
		}
		return s.vector()
	}
	q.divide(s)
	return q.wholeHit()
}

// wholeHit returns the value of a query whose result the cache holds completely.
func (q *Lookup) wholeHit() parser.Value {
	for _, p := range q.Parts {
		if !p.Cached && p.To > p.From {
			return nil
		}
	}
	q.Outcome = outcomeHit
	matrices := make([]promql.Matrix, 0, len(q.Parts))
	for _, p := range q.Parts {
		if p.To > p.From {
			matrices = append(matrices, p.Matrix)
		}
	}
	return Merged(matrices)
}

// Partial reports whether the cache has some of the steps, so that the caller evaluates the others.
func (q *Lookup) Partial() bool { return q != nil && q.Outcome == outcomePartial }

// EvaluateAll discards the cached steps, so that the caller evaluates all.
func (q *Lookup) EvaluateAll() { q.Outcome, q.Parts, q.Reused = outcomeMiss, nil, 0 }

// Demote records that the expression is not sliding. The current result can still answer the same query.
func (q *Lookup) Demote(why SkipReason) {
	if q == nil || !q.sliding() {
		return
	}
	q.Shape = q.cache.demote(q.Text, q.Shape, why)
	q.makeKey()
}

// validSteps is a range of steps of an entry that is still valid. It counts in steps of the query, so it may be negative or go
// beyond the query.
type validSteps struct{ from, to int }

// divide splits the steps of the query into those that the entry has and those to evaluate. extend handles the steps of the
// entry outside the query.
func (q *Lookup) divide(s *stored) {
	kept := q.validOf(s)
	parts := make([]part, 0, 2*len(kept)+1)
	next, evaluated := 0, 0
	offset := int((s.startMs - q.startMs) / q.stepMs)
	for _, k := range kept {
		from, to := max(k.from, 0), min(k.to, q.Steps)
		if from >= to {
			continue
		}
		if from > next {
			parts = append(parts, part{From: next, To: from})
			evaluated += from - next
		}
		parts = append(parts, part{From: from, To: to, Cached: true, Matrix: s.slice(from-offset, to-offset)})
		q.Reused += to - from
		next = to
	}
	if next < q.Steps {
		parts = append(parts, part{From: next, To: q.Steps})
		evaluated += q.Steps - next
	}
	// Each evaluated part selects and reads the series again. That pays only if the cache saves a quarter of the steps.
	if evaluated > 0 && 4*q.Reused < q.Steps {
		q.Reused = 0
		return
	}
	q.Parts = parts
	if evaluated > 0 {
		q.Outcome = outcomePartial
	}
}

// validOf returns the steps of an entry that are still valid: those whose samples lie before or after all changes.
func (q *Lookup) validOf(s *stored) []validSteps {
	offset := int((s.startMs - q.startMs) / q.stepMs)
	all := validSteps{offset, offset + s.steps}
	mint, maxt := s.startMs-q.beforeMs, s.lastMs()+q.afterMs
	from, to, changed := q.cache.changes.ChangedSince(s.generation, mint, maxt)
	if !changed {
		return []validSteps{all}
	}
	var kept []validSteps
	// The first step that reads the first change, and the first step that no longer reads the last change.
	first := stepsUpTo(from-q.afterMs-1-q.startMs, q.stepMs)
	last := stepsUpTo(to+q.beforeMs-q.startMs, q.stepMs)
	if first > all.from {
		kept = append(kept, validSteps{all.from, min(first, all.to)})
	}
	if last < all.to {
		kept = append(kept, validSteps{max(last, all.from), all.to})
	}
	return kept
}

// stepsUpTo returns the number of steps up to a time. It is negative if the time is before the first step.
func stepsUpTo(ms, stepMs int64) int {
	n := ms / stepMs
	if ms < 0 && ms%stepMs != 0 {
		n--
	}
	return int(max(math.MinInt32, min(math.MaxInt32, n))) + 1
}

// Keep stores the joined value of a query. clean is false if the value has warnings; Keep then stores nothing.
func (q *Lookup) Keep(value parser.Value, clean bool) {
	if q == nil || q.Outcome != outcomeMiss && q.Outcome != outcomePartial {
		return
	}
	if !clean {
		q.refused(refusedAnnotations)
		return
	}
	if why := q.store(value); why != SkipNone {
		q.refused(why)
	}
}

func (q *Lookup) refused(why SkipReason) {
	q.Why = why
	q.cache.metrics.refusals.WithLabelValues(string(why)).Inc()
}

func (q *Lookup) store(value parser.Value) SkipReason {
	steps := q.Steps
	if r := q.cache.recentMs; r > 0 {
		finalMs := q.cache.now().UnixMilli() - r
		if !q.sliding() {
			if q.maxtMs > finalMs {
				return refusedRecent
			}
		} else if steps = min(steps, stepsUpTo(finalMs-q.afterMs-q.startMs, q.stepMs)); steps <= 0 {
			return refusedRecent
		}
	}
	switch v := value.(type) {
	case promql.Matrix:
		if !q.IsRange {
			return refusedKind
		}
		if steps < q.Steps {
			v = within(v, q.startMs, q.startMs+int64(steps-1)*q.stepMs)
		}
		return q.put(v, steps)
	case promql.Vector:
		return q.putVector(v)
	}
	return refusedKind
}

// put stores the first steps of a query under its key, together with the valid steps of the entry outside the matrix.
func (q *Lookup) put(m promql.Matrix, steps int) SkipReason {
	startMs := q.startMs
	if q.sliding() && steps == q.Steps {
		m, startMs, steps = q.extend(m)
	}
	points := 0
	for _, s := range m {
		points += len(s.Floats)
	}
	if tooLarge(int64(points)*8+int64(len(m))*256, q.cache.bytesMax) {
		return refusedSize
	}
	b, ok := appendStored(make([]byte, 0, storedHeaderBytes+points*8+len(m)*256), q.generation, startMs, q.stepMs, steps, m)
	if !ok {
		return refusedKind
	}
	if tooLarge(int64(len(b)), q.cache.bytesMax) {
		return refusedSize
	}
	q.cache.entries.SetBig(q.key[:], b)
	return SkipNone
}

func tooLarge(bytes, cacheBytes int64) bool { return bytes > cacheBytes/entryShareMax }

// extend joins the entry's steps before and after a result to the result. So dashboards of different lengths share an entry.
// If the entry becomes too large, extend drops the most distant steps.
func (q *Lookup) extend(m promql.Matrix) (_ promql.Matrix, startMs int64, steps int) {
	startMs, steps = q.startMs, q.Steps
	b := q.cache.entries.GetBig(nil, q.key[:])
	if len(b) == 0 {
		return m, startMs, steps
	}
	s, ok := parseStored(b)
	if !ok || s.stepMs != q.stepMs {
		return m, startMs, steps
	}
	spare := (keepMax - 1) * q.Steps
	offset := int((s.startMs - q.startMs) / q.stepMs)
	parts := []promql.Matrix{m}
	for _, k := range q.validOf(s) {
		if k.from < 0 && k.to >= 0 {
			n := min(spare, -k.from)
			spare -= n
			parts = append([]promql.Matrix{s.slice(-n-offset, -offset)}, parts...)
			startMs -= int64(n) * q.stepMs
			steps += n
		}
		if k.to > q.Steps && k.from <= q.Steps {
			n := min(spare, k.to-q.Steps)
			spare -= n
			parts = append(parts, s.slice(q.Steps-offset, q.Steps+n-offset))
			steps += n
		}
	}
	return Merged(parts), startMs, steps
}

// putVector stores the result of an instant query, in its order.
func (q *Lookup) putVector(v promql.Vector) SkipReason {
	m := make(promql.Matrix, len(v))
	points := make([]promql.FPoint, len(v))
	for i, s := range v {
		if s.H != nil || s.T != q.startMs {
			return refusedKind
		}
		points[i] = promql.FPoint{T: s.T, F: s.F}
		m[i] = promql.Series{Metric: s.Metric, Floats: points[i : i+1 : i+1]}
	}
	return q.put(m, 1)
}

// vector is the result of an instant query.
func (s *stored) vector() promql.Vector {
	out := make(promql.Vector, len(s.series))
	for i := range s.series {
		c := &s.series[i]
		out[i] = promql.Sample{
			Metric: c.labels, T: s.startMs, F: math.Float64frombits(binary.LittleEndian.Uint64(c.values)),
		}
	}
	return out
}

// Finish counts the outcome of the look-up.
func (q *Lookup) Finish() {
	if q == nil {
		return
	}
	q.cache.metrics.requests.WithLabelValues(q.Outcome).Inc()
	if q.Outcome == OutcomeRefused {
		q.cache.metrics.refusals.WithLabelValues(string(q.Why)).Inc()
		return
	}
	if q.IsRange && q.Outcome != OutcomeBypassed {
		q.cache.metrics.steps.WithLabelValues("cache").Add(float64(q.Reused))
		q.cache.metrics.steps.WithLabelValues("evaluation").Add(float64(q.Steps - q.Reused))
	}
}

// Uncached shortens the range of an expression by the cached steps, to estimate the cost of the others.
func (q *Lookup) Uncached(s expression.Expression) expression.Expression {
	if !q.Partial() {
		return s
	}
	steps := 0
	for _, p := range q.Parts {
		if !p.Cached {
			steps += p.To - p.From
		}
	}
	s.End = s.Start.Add(time.Duration(max(0, steps-1)) * s.Step)
	return s
}
