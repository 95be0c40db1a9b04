package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// limitsNear finds limits that are nearly used up.
func limitsNear(f *Facts, o *Options) (out []Verdict) {
	all := slices.Concat(f.Limits, []Limit{
		{"memory of queries", true, f.Values[queryBytes], f.Values[queryBytesMax], "--query.max-total-bytes=4GB"},
		{"connections", false, f.Values[connections], f.Values[connectionsMax], "--web.max-connections=1024"},
		{"deletions that wait for cleaning", false, f.Values[tombstones], f.Values[tombstonesMax], "tsdb delete --clean"},
	})
	share := func(l Limit) float64 {
		if l.Max <= 0 {
			return 0
		}
		return l.Used / l.Max
	}
	slices.SortStableFunc(all, func(a, b Limit) int { return cmp.Compare(share(b), share(a)) })
	for _, l := range all {
		if share(l) < o.LimitWarn || len(out) == o.ListMax {
			break
		}
		v := Verdict{
			Level: Warn, Subject: l.Name, Evidence: l.text(share(l)),
			Advice: "The server refuses requests beyond the limit. Use less, or raise the limit if the machine has room.", Command: l.Fix,
		}
		if share(l) >= o.LimitCritical {
			v.Level = Critical
		}
		out = append(out, v)
	}
	if len(out) > 0 {
		return out
	}
	if share(all[0]) == 0 {
		return ok("No limit is in use.")
	}
	return ok("The limit that is closest to its maximum is %s: %s", all[0].Name, all[0].text(share(all[0])))
}

func (l *Limit) text(share float64) string {
	if l.Bytes {
		return fmt.Sprintf("%s of %s are in use (%.0f %%).", byteText(l.Used), byteText(l.Max), 100*share)
	}
	return fmt.Sprintf("%s of %s are in use (%.0f %%).", count(l.Used), count(l.Max), 100*share)
}

// refused lists what senders could not store in the past hour.
func refused(f *Facts, o *Options) (out []Verdict) {
	for _, r := range f.Refusals {
		if len(out) == o.ListMax {
			break
		}
		v := Verdict{
			Level: Warn, Subject: r.Reason,
			Evidence: fmt.Sprintf("%s refused in the past hour: %s.", r.What, strings.TrimSuffix(r.Words, ".")),
			Advice:   "These samples are lost unless the sender sends them again. Change the sender.",
		}
		if r.From != "" {
			v.Evidence += " The last sender was " + r.From + "."
		}
		if r.Example != "" {
			v.Evidence += " The last message: " + r.Example
		}
		if r.Temporary {
			v.Level, v.Advice = Info, "Senders send these samples again, so none is lost. Look for the cause if it goes on."
		}
		if r.Stored {
			v.Level, v.Advice = Info, "The samples are stored, but the sender should know."
		}
		if r.Line != "" {
			v.Command = r.Line
			v.Advice += " Or set the line below. It belongs in " + r.Where + "."
		}
		out = append(out, v)
	}
	if len(out) == 0 {
		return ok("Nothing was refused in the past hour.")
	}
	return out
}

// clockSkew lists senders whose samples lie in the future.
func clockSkew(f *Facts, o *Options) (out []Verdict) {
	for _, s := range f.Skews {
		if s.Ahead < o.Ahead && !s.Refused || len(out) == o.ListMax {
			continue
		}
		v := Verdict{
			Level: Warn, Subject: s.From,
			Evidence: fmt.Sprintf("The newest sample of its last request lies at least %s in the future.", span(s.Ahead)),
			Advice:   "Let the sender's machine take its time from NTP. Queries that end now do not see such samples yet.",
			Command:  "timedatectl set-ntp true",
		}
		if s.Refused {
			v.Evidence = "Samples were refused in the past hour because they lie too far in the future."
			v.Level = Critical
		}
		out = append(out, v)
	}
	if len(out) == 0 {
		return ok("No sender is %s or more ahead.", span(o.Ahead))
	}
	return out
}

// lateShare says how much of the written data belongs to closed hours.
func lateShare(f *Facts, o *Options) []Verdict {
	all, late := f.Increases[FlushedRows], f.Increases[flushedLateRows]
	if f.has(directLateRows) {
		all, late = f.Increases[directRows], f.Increases[directLateRows]
	}
	if all == 0 {
		return ok("No rows were written to the tables within %s.", span(f.Window))
	}
	share := late / max(all, late)
	evidence := fmt.Sprintf("%s of %s rows written within %s belong to hours before the last closed one (%.1f %%).",
		count(late), count(all), span(f.Window), 100*share)
	if late < o.LateRowsMin || share < o.LateShare {
		return ok("%s", evidence)
	}
	return []Verdict{{
		Level: Info, Evidence: evidence,
		Advice: "Late samples make the server write rows and rollups again. That is right for a backfill. Otherwise let senders send " +
			"sooner, or let more samples wait in memory for their hour.",
		Command: "--storage.head-bytes=4GB",
	}}
}
