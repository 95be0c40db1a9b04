package doctor

import (
	"cmp"
	"fmt"
	"math"
	"math/bits"
)

// saltsMax is the largest number of salts that a rule may have.
const saltsMax = 1000

// saltRule is the rule that gives a metric another number of salts, and the command that tries it.
func saltRule(metric string, salts int) string {
	return lines("schema_rules:", fmt.Sprintf("  - {pattern: %q, salts: %d}", metric, salts),
		fmt.Sprintf("# tsdb keyviz compare --rules FILE --name %s", metric))
}

// roundUp returns the next power of two, within the numbers that a rule may have.
func roundUp(n float64) int {
	whole := min(max(int(math.Ceil(n)), 1), saltsMax)
	return min(1<<bits.Len(uint(whole-1)), saltsMax)
}

// hotRange turns the findings of the key heat map into verdicts.
func hotRange(f *Facts, o *Options) (out []Verdict) {
	if f.HeatOff {
		return []Verdict{{
			Level: Info, Evidence: "The server counts no load, because --keyviz.max-memory is 0.",
			Advice: "Let the server count the load of key ranges. It takes 32 MB.", Command: "--keyviz.max-memory=32MB",
		}}
	}
	for _, h := range f.Heat {
		if len(out) == o.ListMax {
			break
		}
		v := Verdict{Level: Warn, Subject: cmp.Or(h.Metric, "several metrics"), Advice: adviceOf(h.ID)}
		v.Evidence = fmt.Sprintf("%s That is %s a second of %s.", h.Text, count(h.PerSecond), h.Load)
		switch {
		case h.PerSecond < o.HotPerSecond:
			v.Level = Info
		case h.Danger:
			v.Level = Critical
		}
		if salts := roundUp(float64(h.Salts) * h.Share / o.HotShareGoal); h.Metric != "" && moreSaltsHelp(h.ID) {
			salts = min(max(salts, 2*h.Salts), saltsMax)
			v.Advice += fmt.Sprintf(" The metric has %d salts. With %d salts, a range has about %.0f %% of the load.", h.Salts, salts,
				100*h.Share*float64(h.Salts)/float64(salts))
			v.Command = saltRule(h.Metric, salts)
		}
		out = append(out, v)
	}
	if len(out) == 0 {
		return ok("No range of keys takes a large share of the load.")
	}
	return out
}

// moreSaltsHelp reports whether salts divide the load of a finding. They do not divide a series.
func moreSaltsHelp(id string) bool { return id == "hot-range" || id == "sequential-writes" }

// adviceOf says what to do about a finding of the key heat map.
func adviceOf(id string) string {
	switch id {
	case "hot-row":
		return "One series is hot, and salts do not divide a series. Write it less often, or split it by a label."
	case "hot-range":
		return "Give the metric more salts, or put a label with many values into the salt."
	case "sequential-writes":
		return "Keys begin with a value that grows. Give the metric more salts, or promote another label."
	case "full-scan":
		return "Find the query in /api/v1/status/active_queries or the query log, and name the metric in it."
	case "salt-skew":
		return "The labels that decide the salt have too few values. Use \"basis: tags\", or promote a label with more values."
	}
	return "docs/keyviz.md explains the finding."
}

// salts compares the number of salts of each metric with its load.
func salts(f *Facts, o *Options) (few []Verdict) {
	var many []Verdict
	for _, m := range f.Metrics {
		need := roundUp(m.RowsPerSecond / o.SaltRowsPerSecond)
		evidence := fmt.Sprintf("The table wrote and read up to %s of its rows a second, over %d salts and %s series. "+
			"One salt takes about %s.", count(m.RowsPerSecond), m.Salts, count(m.Series), count(o.SaltRowsPerSecond))
		switch {
		case need > m.Salts && len(few) < o.ListMax:
			few = append(few, Verdict{
				Level: Warn, Subject: m.Metric, Evidence: evidence,
				Advice:  fmt.Sprintf("The metric has too few salts. Set %d. The rule holds from the next hour on.", need),
				Command: saltRule(m.Metric, need),
			})
		case m.Salts > o.SaltsFew && (m.Salts > o.SaltsOver*need || m.Series > 0 && m.Salts > m.Series) && len(many) < o.ListMax:
			need = max(need, o.SaltsFew)
			many = append(many, Verdict{
				Level: Info, Subject: m.Metric, Evidence: evidence,
				Advice: fmt.Sprintf("The metric has more salts than its load needs, and a query reads a range for each. %d suffice. "+
					"The rule holds from the next hour on.", need),
				Command: saltRule(m.Metric, need),
			})
		}
	}
	if out := append(few, many...); len(out) > 0 {
		return out
	}
	busiest := MetricLoad{}
	for _, m := range f.Metrics {
		if m.RowsPerSecond > busiest.RowsPerSecond {
			busiest = m
		}
	}
	if busiest.RowsPerSecond == 0 {
		return ok("The tables have had no load within the past two hours.")
	}
	return ok("The busiest metric is %s with up to %.1f rows a second over %d salts. One salt takes about %s.", busiest.Metric,
		busiest.RowsPerSecond, busiest.Salts, count(o.SaltRowsPerSecond))
}

// wideRow lists the widest rows.
func wideRow(f *Facts, o *Options) (out []Verdict) {
	for _, r := range f.WideRows {
		if r.SizeBytes < o.WideRowBytes || len(out) == o.ListMax {
			break
		}
		v := Verdict{
			Level: Warn, Subject: r.Key,
			Evidence: fmt.Sprintf("The row took %s within a day. That is %.1f %% of the largest row of Bigtable.",
				byteText(float64(r.SizeBytes)), float64(r.SizeBytes)/o.RowBytesMax*100),
			Advice: "A row is read as a whole. A row is one series and hour: write fewer samples of it, or split the series by a label.",
		}
		if r.SizeBytes >= o.HugeRowBytes {
			v.Level = Critical
		}
		out = append(out, v)
	}
	if len(out) > 0 {
		return out
	}
	if len(f.WideRows) == 0 {
		return ok("No row has taken a sizeable write within a day.")
	}
	return ok("The widest row of the past day is %s with %s.", f.WideRows[0].Key, byteText(float64(f.WideRows[0].SizeBytes)))
}

// cardinality finds a jump in the number of active series and the label that causes it.
func cardinality(f *Facts, o *Options) []Verdict {
	c := &f.Cardinality
	grown := c.SeriesNow - c.SeriesBefore
	if c.Window == 0 {
		return ok("%s series are active. The next measurement shows their growth.", count(c.SeriesNow))
	}
	evidence := fmt.Sprintf("%s series are active, and %s were active %s ago.", count(c.SeriesNow), count(c.SeriesBefore),
		span(c.Window))
	if c.SeriesBefore < o.SeriesJumpMin || grown < o.SeriesJumpMin || float64(grown) < o.SeriesJump*float64(c.SeriesBefore) {
		return ok("%s", evidence)
	}
	v := Verdict{
		Level: Warn, Evidence: evidence,
		Advice: "Find out what has changed at the senders. /api/v1/status/tsdb ranks metrics and labels.",
	}
	if c.Metric != "" {
		v.Evidence += fmt.Sprintf(" Metric %s grew from %s to %s series.", c.Metric, count(c.MetricBefore), count(c.MetricNow))
	}
	if c.Label != "" {
		v.Subject = "label " + c.Label
		v.Evidence += fmt.Sprintf(" Label %s grew from %s to %s values.", c.Label, count(c.ValuesBefore), count(c.ValuesNow))
		v.Advice += " If nobody asks for the label, drop it before the samples are stored."
		v.Command = lines("relabel_configs:", fmt.Sprintf("  - {action: labeldrop, regex: %q}", c.Label))
	}
	return []Verdict{v}
}
