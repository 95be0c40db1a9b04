package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// Suite is the outcome of the queries of a suite. The last target is compared with the better one of the others, its peers.
type Suite struct {
	Bound   float64         `json:"bound"`
	Queries []QueryCompared `json:"queries"`
}

// failed reports whether the last target failed to answer a query that a peer answers. Peers need not know all of the
// language.
func (s *Suite) failed() bool {
	return s != nil && slices.ContainsFunc(s.Queries, func(q QueryCompared) bool {
		own, peers := q.split()
		return own.Errors > 0 && slices.ContainsFunc(peers, func(t QueryTarget) bool { return t.Errors == 0 })
	})
}

func (q *QueryCompared) split() (own QueryTarget, peers []QueryTarget) {
	last := len(q.Targets) - 1
	return q.Targets[last], q.Targets[:last]
}

// ratio is the figure of the last target divided by the lowest figure of its peers. It is 0 if either figure is missing.
func (q *QueryCompared) ratio(figure func(t QueryTarget) float64) float64 {
	own, peers := q.split()
	least := math.Inf(1)
	for _, t := range peers {
		if v := figure(t); v > 0 && t.Errors == 0 {
			least = min(least, v)
		}
	}
	if own.Errors > 0 || math.IsInf(least, 1) {
		return 0
	}
	return figure(own) / least
}

func cpuMs(t QueryTarget) float64 { return t.CPUMs }

func p50Ms(t QueryTarget) float64 { return t.Latency.P50Ms }

// writeText writes a table for each class, and the geometric means.
func (s *Suite) writeText(p *printer) {
	if len(s.Queries) == 0 {
		return
	}
	for _, class := range s.classes() {
		s.writeClass(p, class)
		p.line("")
	}
	s.writeMeans(p)
	p.line("")
	above := 0
	for i := range s.Queries {
		if s.Queries[i].ratio(cpuMs) > s.Bound {
			above++
		}
	}
	p.line("%d of %d queries take more than %g times the CPU time of the better peer.", above, len(s.Queries), s.Bound)
	s.writeFaults(p)
}

// classes are the classes of the queries, in the order in which they come.
func (s *Suite) classes() (names []string) {
	for i := range s.Queries {
		if class := s.Queries[i].Class; !slices.Contains(names, class) {
			names = append(names, class)
		}
	}
	return names
}

// writeClass writes a row for each query of a class, the highest ratio of CPU time first.
func (s *Suite) writeClass(p *printer, class string) {
	queries := slices.DeleteFunc(slices.Clone(s.Queries), func(q QueryCompared) bool { return q.Class != class })
	slices.SortStableFunc(queries, func(a, b QueryCompared) int { return cmp.Compare(b.ratio(cpuMs), a.ratio(cpuMs)) })
	line, rule := "| "+class, "|---"
	for _, t := range queries[0].Targets {
		line, rule = line+" | "+t.Target+" p50 ms | CPU ms", rule+"|--:|--:"
	}
	p.line("%s | ratio p50 | CPU |", line)
	p.line("%s|--:|--:|", rule)
	for i := range queries {
		q := &queries[i]
		text := "| `" + q.Name + "`"
		for _, t := range q.Targets {
			ok := t.Errors == 0
			text += fmt.Sprintf(" | %s | %s", cell("%.2f", t.Latency.P50Ms, ok), cell("%.2f", t.CPUMs, ok && t.CPUMs > 0))
		}
		p.line("%s | %s | %s |", text, ratioText(q.ratio(p50Ms)), ratioText(q.ratio(cpuMs)))
	}
}

// writeMeans writes the geometric means of all queries and of each class.
func (s *Suite) writeMeans(p *printer) {
	type means struct{ p50, cpu geometricMean }
	classes := append([]string{"all"}, s.classes()...)
	byClass := map[string]*means{}
	for _, class := range classes {
		byClass[class] = new(means)
	}
	for i := range s.Queries {
		q := &s.Queries[i]
		for _, class := range []string{"all", q.Class} {
			byClass[class].p50.add(q.ratio(p50Ms))
			byClass[class].cpu.add(q.ratio(cpuMs))
		}
	}
	p.line("| geometric mean to the better peer | queries | p50 | CPU |")
	p.line("|---|--:|--:|--:|")
	for _, class := range classes {
		m := byClass[class]
		p.line("| %s | %d | %s | %s |", class, m.p50.n, m.p50.text(), m.cpu.text())
	}
}

// writeFaults lists the queries that a target did not answer.
func (s *Suite) writeFaults(p *printer) {
	for _, q := range s.Queries {
		for _, t := range q.Targets {
			if t.Errors > 0 {
				p.line("%s, %s: no response from %s: %.160s", q.Name, q.Class, t.Target, t.Difference)
			}
		}
	}
}

func ratioText(ratio float64) string { return cell("%.2f", ratio, ratio > 0) }
