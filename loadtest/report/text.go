package report

import (
	"fmt"
	"halite/loadtest/client"
	"halite/loadtest/distribution"
	"halite/loadtest/probe"
	"halite/loadtest/verify"
	"io"
	"slices"
	"strings"
	"time"
)

// WriteText writes the report as text.
func (r *Report) WriteText(w io.Writer) error {
	p := &printer{w: w}
	p.line("%s, %s, %s", r.Target, r.Started.Format(time.RFC3339), seconds1(r.Seconds)+interruptedText(r.Interrupted))
	l := &r.Load
	p.line("load          %s series every %s, %d senders × %d samples, seed %d%s", Grouped(int64(l.Series)),
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
		p.line("disk          %s → %s MiB%s, %.2f bytes per sample", mib(d.BeforeBytes), mib(d.AfterBytes), flushedText(d), d.PerSample)
	}
	if v := r.Verification; v != nil {
		p.verification(v)
	}
	if s := r.Distribution; s != nil {
		p.distribution(s)
	}
	for _, n := range r.Notes {
		p.line("note          %s", n)
	}
	return p.err
}

// printer writes lines. After an error it writes nothing more and keeps the error.
type printer struct {
	w   io.Writer
	err error
}

func (p *printer) line(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format+"\n", args...)
	}
}

func (p *printer) writes(w *client.Writes) {
	p.line("acknowledged  %s samples in %s requests, %s samples/s, %.1f bytes per sample on the wire", Grouped(w.Samples),
		Grouped(w.Requests), Grouped(int64(w.SamplesPerSec)), float64(w.BodyBytes)/float64(max(w.Samples, 1)))
	a := &w.Latency
	p.line("latency       p50 %s p95 %s p99 %s max %s ms", ms(a.P50Ms), ms(a.P95Ms), ms(a.P99Ms), ms(a.MaxMs))
	if l := w.Lag; l != nil {
		p.line("  from due    p50 %s p95 %s p99 %s max %s ms", ms(l.P50Ms), ms(l.P95Ms), ms(l.P99Ms), ms(l.MaxMs))
	}
	p.line("responses     %s; retried %s; %s samples rejected, %s abandoned", countsText(w.Statuses), countsText(w.Retries),
		Grouped(w.Rejected), Grouped(w.Abandoned))
	for _, e := range w.Errors {
		p.line("  error       %s", e)
	}
}

func (p *printer) queries(q *probe.Queries) {
	for _, c := range append(slices.Clone(q.Classes), q.All) {
		p.line("queries       %-12s %6d  p50 %s p95 %s p99 %s max %s ms, %d errors", c.Class, c.Latency.Count, ms(c.Latency.P50Ms),
			ms(c.Latency.P95Ms), ms(c.Latency.P99Ms), ms(c.Latency.MaxMs), c.Errors)
	}
	if q.Skipped > 0 {
		p.line("  skipped     %d, because %d others were running", q.Skipped, probe.ConcurrencyMax)
	}
	for _, e := range q.ErrorExamples {
		p.line("  error       %s", e)
	}
}

func (p *printer) verification(v *verify.Result) {
	verdict := "PASSED"
	if !v.Passed() {
		verdict = "FAILED"
	}
	p.line("verification  %s: %s acknowledged samples checked by %s, %s missing, %s different (%s of them by less than 1e-9)",
		verdict, Grouped(v.Checked), v.ReadBy, Grouped(v.Missing), Grouped(v.Different), Grouped(v.NearlyEqual))
	if v.InDoubt+v.Extra > 0 {
		p.line("              %s in doubt, %s extra", Grouped(v.InDoubt), Grouped(v.Extra))
	}
	for _, f := range v.Examples {
		p.line("  %s", f)
	}
	if v.Error != "" {
		p.line("  incomplete: %s", v.Error)
	}
}

func (p *printer) distribution(s *distribution.Report) {
	for _, g := range s.Salts {
		p.line("distribution  %s series over %d salts: max/mean %.3f in samples, %.3f in rows, %.3f in bytes; bound %.3f; "+
			"hottest %s", Grouped(int64(g.Series)), g.Samples.Ranges, g.Samples.MaxOverMean, g.Rows.MaxOverMean, g.Bytes.MaxOverMean,
			g.Samples.Bound, hottestText(&g.Samples))
		p.loads("samples", g.Samples.Loads)
	}
	for _, m := range s.Metrics {
		p.line("  %-42s %9s series over %d salts: max/mean %.3f, bound %.3f, hottest %s", m.Metric,
			Grouped(int64(m.Series)), m.Samples.Ranges, m.Samples.MaxOverMean, m.Samples.Bound, hottestText(&m.Samples))
	}
	if t := s.Tablets; t != nil {
		p.tablets(t)
	} else if s.TabletsError != "" {
		p.line("tablets       not listed by the server: %s", s.TabletsError)
	}
}

func (p *printer) tablets(t *distribution.ByTablet) {
	p.line("tablets       %d: samples by key max/mean %.3f, hottest %s", t.Samples.Ranges, t.Samples.MaxOverMean,
		hottestText(&t.Samples))
	rows, bytes := &t.RowsWritten, &t.BytesWritten
	if rows.HottestShare == 0 {
		p.line("              no rows written yet: rows reach a tablet when their hour is flushed")
		return
	}
	p.line("              counted by the server: rows max/mean %.3f, hottest %s; bytes max/mean %.3f, hottest %s",
		rows.MaxOverMean, hottestText(rows), bytes.MaxOverMean, hottestText(bytes))
	if t.CountedSeconds > 0 {
		perMinute := 60 / t.CountedSeconds
		p.line("              %s rows and %s MiB written per minute during %s", Grouped(int64(float64(rows.Sum())*perMinute)),
			mib(int64(float64(bytes.Sum())*perMinute)), seconds1(t.CountedSeconds))
	}
	p.loads("rows", rows.Loads)
}

// loadsMax bounds the loads that a line lists.
const loadsMax = 32

// loads lists the load of each salt or tablet.
func (p *printer) loads(unit string, loads []int64) {
	var texts []string
	for _, n := range loads[:min(len(loads), loadsMax)] {
		texts = append(texts, Grouped(n))
	}
	if more := len(loads) - loadsMax; more > 0 {
		texts = append(texts, fmt.Sprintf("and %d more", more))
	}
	p.line("              %s each: %s", unit, strings.Join(texts, " "))
}

// hottestText compares the share of the hottest range with its share in an even distribution.
func hottestText(s *distribution.Skew) string {
	return fmt.Sprintf("%.2f%% (even %.2f%%)", s.HottestShare*100, 100/float64(max(s.Ranges, 1)))
}
