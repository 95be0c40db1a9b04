package doctor

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Level says how bad a verdict is.
type Level string

// The levels, from good to bad.
const (
	OK       Level = "ok"
	Info     Level = "info"
	Warn     Level = "warn"
	Critical Level = "critical"
)

// rank orders levels, the worst first.
func rank(l Level) int { return slices.Index([]Level{Critical, Warn, Info, OK}, l) }

// Worse reports whether l is worse than o.
func (l Level) Worse(o Level) bool { return rank(l) < rank(o) }

// Verdict is the result of a check.
type Verdict struct {
	// ID names the check. It is part of the API.
	ID    string `json:"id"`
	Level Level  `json:"level"`
	// Subject is what the verdict is about, such as a metric. Evidence has the figures.
	Subject  string `json:"subject"`
	Evidence string `json:"evidence"`
	// Advice says what to do. Command is a command, a flag or lines of a configuration file; "" if none fixes it.
	Advice  string `json:"advice"`
	Command string `json:"command"`
	// Docs is the place in the documents that explains the verdict.
	Docs string `json:"docs"`
}

// Report is the state of a server. Its JSON is the response of /api/v1/status/doctor.
type Report struct {
	Ready bool `json:"ready"`
	// CheckedMs is the time of the facts, milliseconds since 1970.
	CheckedMs int64     `json:"checkedMs"`
	Verdicts  []Verdict `json:"verdicts"`
}

// Worst returns the worst level of a report.
func (r *Report) Worst() Level {
	worst := OK
	for _, v := range r.Verdicts {
		if v.Level.Worse(worst) {
			worst = v.Level
		}
	}
	return worst
}

// check judges one thing. run returns at least one verdict and leaves ID and Docs empty. An empty Subject becomes subject.
type check struct {
	id, subject string
	run         func(f *Facts, o *Options) []Verdict
}

func checks() []check {
	return []check{
		{"readiness", "the server", readiness},
		{"disk", "the data disk", diskFull},
		{"damage", "stored data", damage},
		{"limits", "limits", limitsNear},
		{"refused", "senders", refused},
		{"clock-skew", "clocks of senders", clockSkew},
		{"hot-range", "key ranges", hotRange},
		{"salts", "salts", salts},
		{"wide-row", "rows", wideRow},
		{"cardinality", "active series", cardinality},
		{"late", "late samples", lateShare},
		{"flush-lag", "flushes", flushLag},
		{"compaction-lag", "compactions", compactionLag},
		{"rollup-lag", "rollups", rollupLag},
		{"sweep-lag", "sweeps of expired data", sweepLag},
		{"clock-jump", "the clock of the server", clockJump},
	}
}

// docsPage explains every check at an anchor with its ID.
const docsPage = "docs/doctor.md"

// Diagnose runs all checks. The verdicts are sorted by level, the worst first.
func Diagnose(f *Facts, o *Options) Report {
	r := Report{Ready: f.Ready, CheckedMs: f.NowMs, Verdicts: []Verdict{}}
	for _, c := range checks() {
		for _, v := range c.run(f, o) {
			v.ID, v.Docs = c.id, docsPage+"#"+c.id
			if v.Subject == "" {
				v.Subject = c.subject
			}
			r.Verdicts = append(r.Verdicts, v)
		}
	}
	slices.SortStableFunc(r.Verdicts, func(a, b Verdict) int { return rank(a.Level) - rank(b.Level) })
	return r
}

// ok is the verdict of a check that finds nothing wrong.
func ok(format string, args ...any) []Verdict {
	return []Verdict{{Level: OK, Evidence: fmt.Sprintf(format, args...)}}
}

// byteText writes a size for people: "1.5 GiB".
func byteText(n float64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB", "PiB"}
	at := 0
	for n >= 1024 && at+1 < len(units) {
		n /= 1024
		at++
	}
	if at == 0 {
		return fmt.Sprintf("%.0f B", n)
	}
	return fmt.Sprintf("%.1f %s", n, units[at])
}

// count writes a number with commas between thousands.
func count[T ~int | ~int64 | ~float64](n T) string {
	text := fmt.Sprintf("%.0f", float64(n))
	for at := len(text) - 3; at > 0 && text[at-1] != '-'; at -= 3 {
		text = text[:at] + "," + text[at:]
	}
	return text
}

// span writes a time for people: "3 d", "2 h", "14 min", "10 s".
func span(d time.Duration) string {
	switch {
	case d >= 2*24*time.Hour:
		return fmt.Sprintf("%.0f d", d.Hours()/24)
	case d >= 2*time.Hour:
		return fmt.Sprintf("%.0f h", d.Hours())
	case d >= 2*time.Minute:
		return fmt.Sprintf("%.0f min", d.Minutes())
	}
	return fmt.Sprintf("%.0f s", d.Seconds())
}

// lines joins lines of a configuration file.
func lines(list ...string) string { return strings.Join(list, "\n") }
