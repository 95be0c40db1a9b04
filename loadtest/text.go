package loadtest

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
)

// WriteText writes the report for people.
func (r *Report) WriteText(w io.Writer) error {
	p := &printer{w: w}
	p.line("%s, %s, %s", r.Target, r.Started.Format(time.RFC3339), seconds1(r.Seconds)+interruptedText(r.Interrupted))
	l := &r.Load
	p.line("load          %s series every %s, %d senders × %d samples, seed %d%s", grouped(int64(l.Series)),
		intervalText(l.IntervalSeconds), l.Senders, l.RequestSamples, l.Seed, disorderText(l))
	p.writes(&r.Writes)
	if f := r.Freshness; f != nil {
		p.line("freshness     p50 %s p95 %s max %s ms after acknowledgement (%d probes, %d unseen, %d not acknowledged)",
			ms(f.Visible.P50Ms), ms(f.Visible.P95Ms), ms(f.Visible.MaxMs), f.Visible.Count, f.Unseen, f.Failed)
	}
	if q := r.Queries; q != nil {
		p.queries(q)
	}
	if s := r.Server; s != nil {
		p.line("server        %.2f CPU s, %.3f per million samples; settled %.2f, %.3f", s.CPUSeconds, s.CPUPerMillion,
			s.CPUSecondsSettled, s.CPUPerMillionSettled)
		p.line("              RSS peak %s MiB during the load, %s now, %s ever", mib(s.PeakRSSBytes),
			mib(s.RSSBytes), mib(s.PeakEverBytes))
	}
	if d := r.Disk; d != nil {
		p.line("disk          %s → %s MiB%s, %.2f bytes a sample", mib(d.BeforeBytes), mib(d.AfterBytes), flushedText(d), d.PerSample)
	}
	if v := r.Verified; v != nil {
		p.verification(v)
	}
	if s := r.Spread; s != nil {
		p.spread(s)
	}
	for _, n := range r.Notes {
		p.line("note          %s", n)
	}
	return p.err
}

// printer keeps the first error of a writer.
type printer struct {
	w   io.Writer
	err error
}

func (p *printer) line(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format+"\n", args...)
	}
}

func (p *printer) writes(w *Writes) {
	p.line("acknowledged  %s samples in %s requests, %s samples/s, %.1f bytes a sample on the wire", grouped(w.Samples),
		grouped(w.Requests), grouped(int64(w.SamplesPerSec)), float64(w.BodyBytes)/float64(max(w.Samples, 1)))
	a := &w.Acknowledgement
	p.line("latency       p50 %s p95 %s p99 %s max %s ms", ms(a.P50Ms), ms(a.P95Ms), ms(a.P99Ms), ms(a.MaxMs))
	if l := w.Lag; l != nil {
		p.line("  from due    p50 %s p95 %s p99 %s max %s ms", ms(l.P50Ms), ms(l.P95Ms), ms(l.P99Ms), ms(l.MaxMs))
	}
	p.line("answers       %s; retried %s; %s samples rejected, %s given up", countsText(w.Statuses), countsText(w.Retries),
		grouped(w.Rejected), grouped(w.Abandoned))
	for _, e := range w.Errors {
		p.line("  error       %s", e)
	}
}

func (p *printer) queries(q *Queries) {
	for _, c := range append(slices.Clone(q.Classes), q.All) {
		p.line("queries       %-12s %6d  p50 %s p95 %s p99 %s max %s ms, %d errors", c.Class, c.Took.Count, ms(c.Took.P50Ms),
			ms(c.Took.P95Ms), ms(c.Took.P99Ms), ms(c.Took.MaxMs), c.Errors)
	}
	if q.Skipped > 0 {
		p.line("  skipped     %d, as %d were still under way", q.Skipped, queryLoopsMax)
	}
	for _, e := range q.Samples {
		p.line("  error       %s", e)
	}
}

func (p *printer) verification(v *Verification) {
	verdict := "PASSED"
	if !v.Passed() {
		verdict = "FAILED"
	}
	p.line("verification  %s: %s acknowledged samples looked for by %s, %s missing, %s different (%s of them by less than 1e-9)",
		verdict, grouped(v.Checked), v.Through, grouped(v.Missing), grouped(v.Different), grouped(v.CloseBy))
	if v.Doubtful+v.Extra > 0 {
		p.line("              %s in doubt, %s there beside", grouped(v.Doubtful), grouped(v.Extra))
	}
	for _, f := range v.Findings {
		p.line("  %s", f)
	}
	if v.Error != "" {
		p.line("  incomplete: %s", v.Error)
	}
}

func (p *printer) spread(s *KeySpread) {
	for _, g := range s.Salts {
		p.line("spread        %s series over %d salts: max/mean %.3f in samples, %.3f in rows, %.3f in bytes; bound %.3f; "+
			"hottest %s", grouped(int64(g.Series)), g.Samples.Ranges, g.Samples.MaxOverMean, g.Rows.MaxOverMean, g.Bytes.MaxOverMean,
			g.Samples.Bound, hottestText(&g.Samples))
		p.loads("samples", g.Samples.Loads)
	}
	for _, m := range s.Metrics {
		p.line("  %-42s %9s series over %d salts: max/mean %.3f, bound %.3f, hottest %s", m.Metric,
			grouped(int64(m.Series)), m.Samples.Ranges, m.Samples.MaxOverMean, m.Samples.Bound, hottestText(&m.Samples))
	}
	if t := s.Tablets; t != nil {
		p.tablets(t)
	} else if s.TabletsError != "" {
		p.line("tablets       not told by the server: %s", s.TabletsError)
	}
}

func (p *printer) tablets(t *TabletSpread) {
	p.line("tablets       %d: samples by key max/mean %.3f, hottest %s", t.Samples.Ranges, t.Samples.MaxOverMean,
		hottestText(&t.Samples))
	rows, bytes := &t.RowsWritten, &t.BytesWritten
	if rows.HottestShare == 0 {
		p.line("              no rows written yet: they come when their hour is flushed")
		return
	}
	p.line("              written, by the server's count: rows max/mean %.3f, hottest %s; bytes max/mean %.3f, hottest %s",
		rows.MaxOverMean, hottestText(rows), bytes.MaxOverMean, hottestText(bytes))
	if t.CountedSeconds > 0 {
		perMinute := 60 / t.CountedSeconds
		p.line("              %s rows and %s MiB a minute over %s", grouped(int64(float64(rows.sum())*perMinute)),
			mib(int64(float64(bytes.sum())*perMinute)), seconds1(t.CountedSeconds))
	}
	p.loads("rows", rows.Loads)
}

// loadsShown is the most loads of salts or tablets that a line lists.
const loadsShown = 32

// loads lists what each salt or tablet got.
func (p *printer) loads(what string, loads []int64) {
	var texts []string
	for _, n := range loads[:min(len(loads), loadsShown)] {
		texts = append(texts, grouped(n))
	}
	if more := len(loads) - loadsShown; more > 0 {
		texts = append(texts, fmt.Sprintf("and %d more", more))
	}
	p.line("              %s each: %s", what, strings.Join(texts, " "))
}

// hottestText compares the share of the hottest range with that of an even spread.
func hottestText(s *Spread) string {
	return fmt.Sprintf("%.2f%% (even %.2f%%)", s.HottestShare*100, 100/float64(max(s.Ranges, 1)))
}

func interruptedText(yes bool) string {
	if yes {
		return ", interrupted"
	}
	return ""
}

func flushedText(d *DiskUse) string {
	if d.FlushedBytes == 0 {
		return ""
	}
	return " → " + mib(d.FlushedBytes) + " MiB flushed"
}

func disorderText(l *Load) string {
	var parts []string
	for _, x := range []struct {
		percent float64
		what    string
	}{
		{l.OutOfOrderPercent, "out of order"}, {l.LatePercent, "late"}, {l.RewrittenPercent, "rewritten"},
		{l.ChurnPercent, "of hosts replaced at times"},
	} {
		if x.percent > 0 {
			parts = append(parts, fmt.Sprintf("%g%% %s", x.percent, x.what))
		}
	}
	if l.Shuffled {
		parts = append(parts, "shuffled")
	}
	if len(parts) == 0 {
		return ""
	}
	return "; " + strings.Join(parts, ", ")
}

func intervalText(s float64) string {
	if s == 0 {
		return "round"
	}
	return time.Duration(s * 1e9).Round(time.Millisecond).String()
}

func countsText(counts map[string]int64) string {
	if len(counts) == 0 {
		return "none"
	}
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprintf("%s × %s", k, grouped(counts[k])))
	}
	return strings.Join(parts, ", ")
}

func seconds1(s float64) string { return fmt.Sprintf("%.1f s", s) }

// ms writes milliseconds with about three digits.
func ms(x float64) string {
	switch {
	case x < 10:
		return fmt.Sprintf("%.2f", x)
	case x < 100:
		return fmt.Sprintf("%.1f", x)
	}
	return fmt.Sprintf("%.0f", x)
}

func mib(bytes int64) string { return fmt.Sprintf("%.1f", float64(bytes)/(1<<20)) }

// grouped writes a number with commas.
func grouped(n int64) string {
	text := fmt.Sprint(n)
	for i := len(text) - 3; i > 0 && text[i-1] != '-'; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}
