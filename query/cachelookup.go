package query

import (
	"encoding/binary"
	"math"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
)

// look finds what the cache has for a query and decides what is left to evaluate.
func (q *inquiry) look() (value parser.Value) {
	if q == nil || q.outcome != "" {
		return nil
	}
	q.outcome = cacheMiss
	q.parts = []part{{from: 0, to: q.steps}}
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
		q.outcome, q.reused = cacheHit, q.steps
		if q.isRange {
			return s.cut(0, s.steps)
		}
		return s.vector()
	}
	q.divide(s)
	return q.wholeHit()
}

// wholeHit is the value of a query of which nothing is left to evaluate.
func (q *inquiry) wholeHit() parser.Value {
	for _, p := range q.parts {
		if !p.cached && p.to > p.from {
			return nil
		}
	}
	q.outcome = cacheHit
	matrices := make([]promql.Matrix, 0, len(q.parts))
	for _, p := range q.parts {
		if p.to > p.from {
			matrices = append(matrices, p.matrix)
		}
	}
	return merged(matrices)
}

// partial reports whether only a part has to be evaluated.
func (q *inquiry) partial() bool { return q != nil && q.outcome == cachePartial }

// evaluateAll forgets what was found.
func (q *inquiry) evaluateAll() { q.outcome, q.parts, q.reused = cacheMiss, nil, 0 }

// demote notes that the expression is not sliding after all. The result at hand can still answer the same question.
func (q *inquiry) demote(why refusal) {
	if q == nil || !q.sliding() {
		return
	}
	q.shape = q.cache.demote(q.text, q.shape, why)
	q.makeKey()
}

// keptStretch is a stretch of an entry that is still right, in steps of the query: they may be negative, or beyond it.
type keptStretch struct{ from, to int }

// divide cuts the steps asked for into those that the entry has and those to evaluate. Steps of the entry beside the
// query's are not used here; extend takes them over.
func (q *inquiry) divide(s *stored) {
	kept := q.keptOf(s)
	parts := make([]part, 0, 2*len(kept)+1)
	next, evaluated := 0, 0
	offset := int((s.startMs - q.startMs) / q.stepMs)
	for _, k := range kept {
		from, to := max(k.from, 0), min(k.to, q.steps)
		if from >= to {
			continue
		}
		if from > next {
			parts = append(parts, part{from: next, to: from})
			evaluated += from - next
		}
		parts = append(parts, part{from: from, to: to, cached: true, matrix: s.cut(from-offset, to-offset)})
		q.reused += to - from
		next = to
	}
	if next < q.steps {
		parts = append(parts, part{from: next, to: q.steps})
		evaluated += q.steps - next
	}
	// Each part that is evaluated finds and reads the series again: that pays only where it saves most of the steps.
	if evaluated > 0 && 4*q.reused < q.steps {
		q.reused = 0
		return
	}
	q.parts = parts
	if evaluated > 0 {
		q.outcome = cachePartial
	}
}

// keptOf tells which steps of an entry are still right: those before and those after all that has changed since.
func (q *inquiry) keptOf(s *stored) []keptStretch {
	offset := int((s.startMs - q.startMs) / q.stepMs)
	all := keptStretch{offset, offset + s.steps}
	mint, maxt := s.startMs-q.beforeMs, s.lastMs()+q.afterMs
	from, to, changed := q.cache.changes.ChangedSince(s.generation, mint, maxt)
	if !changed {
		return []keptStretch{all}
	}
	var kept []keptStretch
	// The first step that looks at the first change, and the first that does not look at the last one any more.
	first := stepsUpTo(from-q.afterMs-1-q.startMs, q.stepMs)
	last := stepsUpTo(to+q.beforeMs-q.startMs, q.stepMs)
	if first > all.from {
		kept = append(kept, keptStretch{all.from, min(first, all.to)})
	}
	if last < all.to {
		kept = append(kept, keptStretch{max(last, all.from), all.to})
	}
	return kept
}

// stepsUpTo is the number of steps at or before a time after the first step's; negative if it lies before.
func stepsUpTo(ms, stepMs int64) int {
	n := ms / stepMs
	if ms < 0 && ms%stepMs != 0 {
		n--
	}
	return int(max(math.MinInt32, min(math.MaxInt32, n))) + 1
}

// keep stores the value of a query that was evaluated, or completed, by parts, unless it came with warnings.
func (q *inquiry) keep(value parser.Value, clean bool) {
	if q == nil || q.outcome != cacheMiss && q.outcome != cachePartial {
		return
	}
	if !clean {
		q.refused(refusedAnnotations)
		return
	}
	if why := q.store(value); why != refusedNone {
		q.refused(why)
	}
}

func (q *inquiry) refused(why refusal) {
	q.why = why
	q.cache.metrics.refusals.WithLabelValues(string(why)).Inc()
}

func (q *inquiry) store(value parser.Value) refusal {
	steps := q.steps
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
		if !q.isRange {
			return refusedKind
		}
		if steps < q.steps {
			v = within(v, q.startMs, q.startMs+int64(steps-1)*q.stepMs)
		}
		return q.put(v, q.startMs, steps)
	case promql.Vector:
		return q.putVector(v)
	}
	return refusedKind
}

// put stores a matrix under the query's key, with what the entry has beside it and is still right.
func (q *inquiry) put(m promql.Matrix, startMs int64, steps int) refusal {
	if q.sliding() && steps == q.steps {
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
	return refusedNone
}

func tooLarge(bytes, cacheBytes int64) bool { return bytes > cacheBytes/entryShareMax }

// extend joins to a result what the entry has before and after it, so that dashboards of different lengths, or moved
// back and forth, share an entry. What lies furthest away goes when it becomes too much.
func (q *inquiry) extend(m promql.Matrix) (_ promql.Matrix, startMs int64, steps int) {
	startMs, steps = q.startMs, q.steps
	b := q.cache.entries.GetBig(nil, q.key[:])
	if len(b) == 0 {
		return m, startMs, steps
	}
	s, ok := parseStored(b)
	if !ok || s.stepMs != q.stepMs {
		return m, startMs, steps
	}
	spare := (keepMax - 1) * q.steps
	offset := int((s.startMs - q.startMs) / q.stepMs)
	parts := []promql.Matrix{m}
	for _, k := range q.keptOf(s) {
		if k.from < 0 && k.to >= 0 {
			n := min(spare, -k.from)
			spare -= n
			parts = append([]promql.Matrix{s.cut(-n-offset, -offset)}, parts...)
			startMs -= int64(n) * q.stepMs
			steps += n
		}
		if k.to > q.steps && k.from <= q.steps {
			n := min(spare, k.to-q.steps)
			spare -= n
			parts = append(parts, s.cut(q.steps-offset, q.steps+n-offset))
			steps += n
		}
	}
	return merged(parts), startMs, steps
}

// putVector stores the result of an instant query, in its order.
func (q *inquiry) putVector(v promql.Vector) refusal {
	m := make(promql.Matrix, len(v))
	points := make([]promql.FPoint, len(v))
	for i, s := range v {
		if s.H != nil || s.T != q.startMs {
			return refusedKind
		}
		points[i] = promql.FPoint{T: s.T, F: s.F}
		m[i] = promql.Series{Metric: s.Metric, Floats: points[i : i+1 : i+1]}
	}
	return q.put(m, q.startMs, 1)
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

// finish counts what the cache has done for a query.
func (q *inquiry) finish() {
	if q == nil {
		return
	}
	q.cache.metrics.requests.WithLabelValues(q.outcome).Inc()
	if q.outcome == cacheRefused {
		q.cache.metrics.refusals.WithLabelValues(string(q.why)).Inc()
		return
	}
	if q.isRange && q.outcome != cacheBypassed {
		q.cache.metrics.steps.WithLabelValues("cache").Add(float64(q.reused))
		q.cache.metrics.steps.WithLabelValues("evaluation").Add(float64(q.steps - q.reused))
	}
}
