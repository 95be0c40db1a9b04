package report

import (
	"fmt"
	"halite/loadtest/client"
	"halite/loadtest/measure"
	"halite/loadtest/verify"
	"io"
	"math"
	"strings"
)

// WriteText writes Markdown tables with a column for each target. Ratios are relative to the first target.
func (c *Comparison) WriteText(w io.Writer) error {
	p := &printer{w: w}
	if len(c.Targets) == 0 {
		return nil
	}
	l := &c.Targets[0].Load
	p.line("%s series every %s from %s to %s, %d senders × %d samples, seed %d%s", Grouped(int64(l.Series)),
		intervalText(l.IntervalSeconds), l.From.Format("2006-01-02T15:04:05Z"), l.To.Format("2006-01-02T15:04:05Z"), l.Senders,
		l.RequestSamples, l.Seed, disorderText(l))
	p.line("")
	c.writeLoads(p)
	if len(c.Queries) > 0 {
		p.line("")
		c.writeQueries(p)
	}
	if c.Suite != nil {
		p.line("")
		c.Suite.writeText(p)
	}
	for _, r := range c.Targets {
		for _, e := range r.Writes.Errors {
			p.line("%s: error: %s", r.Target, e)
		}
		if r.Verification != nil {
			for _, f := range r.Verification.Examples {
				p.line("%s: %s", r.Target, f)
			}
			if r.Verification.Error != "" {
				p.line("%s: verification is incomplete: %s", r.Target, r.Verification.Error)
			}
		}
		for _, n := range r.Notes {
			p.line("%s: %s", r.Target, n)
		}
	}
	return p.err
}

// figure is a row of the table: the function that reads it from a report, and whether ratios are useful.
type figure struct {
	name   string
	format string
	ratio  bool
	value  func(r *Report) (float64, bool)
}

func figures() []figure {
	server := func(f func(s *measure.ServerUsage) float64) func(r *Report) (float64, bool) {
		return func(r *Report) (float64, bool) {
			if r.Server == nil {
				return 0, false
			}
			return f(r.Server), true
		}
	}
	always := func(f func(w *client.Writes) float64) func(r *Report) (float64, bool) {
		return func(r *Report) (float64, bool) { return f(&r.Writes), true }
	}
	verified := func(f func(v *verify.Result) int64) func(r *Report) (float64, bool) {
		return func(r *Report) (float64, bool) {
			if r.Verification == nil {
				return 0, false
			}
			return float64(f(r.Verification)), true
		}
	}
	return []figure{
		{"samples acknowledged", "%.0f", false, always(func(w *client.Writes) float64 { return float64(w.Samples) })},
		{"samples/s (wall)", "%.0f", true, always(func(w *client.Writes) float64 { return w.SamplesPerSec })},
		{"server CPU s per million samples", "%.3f", true, server(func(s *measure.ServerUsage) float64 { return s.CPUPerMillion })},
		{"server CPU s per million samples, settled", "%.3f", true, server(func(s *measure.ServerUsage) float64 {
			return s.CPUPerMillionSettled
		})},
		{"peak RSS during the load, MiB", "%.0f", true, server(func(s *measure.ServerUsage) float64 {
			return float64(s.PeakRSSBytes) / (1 << 20)
		})},
		{"write latency p50, ms", "%.2f", true, always(func(w *client.Writes) float64 { return w.Latency.P50Ms })},
		{"write latency p99, ms", "%.2f", true, always(func(w *client.Writes) float64 { return w.Latency.P99Ms })},
		{"freshness p50, ms", "%.1f", true, func(r *Report) (float64, bool) {
			if r.Freshness == nil || r.Freshness.Visible.Count == 0 {
				return 0, false
			}
			return r.Freshness.Visible.P50Ms, true
		}},
		{"disk, bytes per sample", "%.2f", true, func(r *Report) (float64, bool) {
			if r.Disk == nil {
				return 0, false
			}
			return r.Disk.PerSample, true
		}},
		{"samples rejected or abandoned", "%.0f", false, always(func(w *client.Writes) float64 {
			return float64(w.Rejected + w.Abandoned)
		})},
		{"read back: missing", "%.0f", false, verified(func(v *verify.Result) int64 { return v.Missing })},
		{"read back: different", "%.0f", false, verified(func(v *verify.Result) int64 { return v.Different })},
		{"read back: different by < 1e-9", "%.0f", false, verified(func(v *verify.Result) int64 { return v.NearlyEqual })},
	}
}

func (c *Comparison) writeLoads(p *printer) {
	c.header(p, "load")
	for _, f := range figures() {
		cells := make([]string, 0, 2*len(c.Targets))
		base, known := f.value(c.Targets[0])
		for i, r := range c.Targets {
			v, ok := f.value(r)
			cells = append(cells, cell(f.format, v, ok))
			if i > 0 {
				cells = append(cells, cell("%.3f", v/base, ok && known && f.ratio && base != 0))
			}
		}
		p.line("| %s | %s |", f.name, strings.Join(cells, " | "))
	}
}

func cell(format string, v float64, known bool) string {
	if !known {
		return ""
	}
	return fmt.Sprintf(format, v)
}

// header writes the header of a table: a column for each target, and a ratio for each but the first.
func (c *Comparison) header(p *printer, name string) {
	line, rule := "| "+name, "|---"
	for i, r := range c.Targets {
		line, rule = line+" | "+r.Target, rule+"|--:"
		if i > 0 {
			line, rule = line+" | ratio", rule+"|--:"
		}
	}
	p.line("%s |", line)
	p.line("%s|", rule)
}

func (c *Comparison) writeQueries(p *printer) {
	line, rule := "| query", "|---"
	for i, r := range c.Targets {
		line, rule = line+" | "+r.Target+" p50 ms | p95 | CPU ms", rule+"|--:|--:|--:"
		if i > 0 {
			line, rule = line+" | ratio p50 | CPU | result", rule+"|--:|--:|---"
		}
	}
	p.line("%s |", line)
	p.line("%s|", rule)
	p50, cpu := make([]geometricMean, len(c.Targets)), make([]geometricMean, len(c.Targets))
	for _, q := range c.Queries {
		text, base := "| "+q.Name, &q.Targets[0]
		for i := range q.Targets {
			t := &q.Targets[i]
			text += fmt.Sprintf(" | %s | %s | %s", ms(t.Latency.P50Ms), ms(t.Latency.P95Ms), cell("%.2f", t.CPUMs, t.CPUMs > 0))
			if i == 0 {
				continue
			}
			ratio, cpuRatio := t.Latency.P50Ms/base.Latency.P50Ms, t.CPUMs/base.CPUMs
			p50[i].add(ratio)
			cpu[i].add(cpuRatio)
			result := t.Difference
			if result == "" {
				result = fmt.Sprintf("same (%d series, %d points)", t.Series, t.Points)
			}
			text += fmt.Sprintf(" | %s | %s | %s", cell("%.3f", ratio, base.Latency.P50Ms > 0),
				cell("%.3f", cpuRatio, base.CPUMs > 0), result)
		}
		p.line("%s |", text)
	}
	text := "| geometric mean |  |  | "
	for i := 1; i < len(c.Targets); i++ {
		text += fmt.Sprintf(" |  |  |  | %s | %s | ", p50[i].text(), cpu[i].text())
	}
	p.line("%s |", text)
}

// geometricMean is the geometric mean of the values that are above 0 and finite.
type geometricMean struct {
	logs float64
	n    int
}

func (m *geometricMean) add(x float64) {
	if x > 0 && !math.IsInf(x, 0) {
		m.logs += math.Log(x)
		m.n++
	}
}

func (m *geometricMean) text() string {
	if m.n == 0 {
		return ""
	}
	return fmt.Sprintf("%.3f", math.Exp(m.logs/float64(m.n)))
}
