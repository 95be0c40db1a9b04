package verify

import (
	"math"

	"halite/loadtest/acked"
	"halite/loadtest/client"
	"halite/loadtest/fleet"
	"halite/loadtest/load"
)

// compare compares the steps of a series with the samples found. Both are ordered by time.
func (v *Verifier) compare(part *Result, e *expected, firstSlot int, found []client.Point) {
	for i, value := range e.values {
		step := e.first + i
		tsMs := v.Timeline.TsMs(firstSlot, step)
		for len(found) > 0 && found[0].TsMs < tsMs {
			part.Extra++
			found = found[1:]
		}
		exists := len(found) > 0 && found[0].TsMs == tsMs
		var got float64
		for n := 0; len(found) > 0 && found[0].TsMs == tsMs; n++ {
			got, found = found[0].Value, found[1:]
			if n > 0 {
				part.Extra++
			}
		}
		w := v.Acked.Outcome(e.slot, step)
		switch {
		case !w.First && !w.Second:
			if w.InDoubt {
				part.InDoubt++
			} else if exists {
				part.Extra++
			}
		case !exists:
			part.Checked++
			part.Missing++
			part.addExample("missing: %s at %d: wrote %v", describeSeries(e.series), tsMs, value)
		default:
			part.Checked++
			v.compareValue(part, e, step, w, tsMs, got, value)
		}
	}
	part.Extra += int64(len(found))
}

// compareValue compares a value with the values of the sample's first and second write. A first value is right unless its
// second write was acknowledged without doubt.
func (v *Verifier) compareValue(part *Result, e *expected, step int, w acked.Outcome, tsMs int64, got, first float64) {
	second := v.Fleet.Rewritten(e.slot, step, first)
	order, _ := v.Disorder.At(e.slot, step)
	mayFirst := !w.Second || w.InDoubt
	maySecond := order == load.Rewritten && (w.Second || w.InDoubt)
	same := func(x float64) bool { return math.Float64bits(got) == math.Float64bits(x) }
	near := func(x float64) bool { return math.Abs(got-x) <= 1e-9*math.Abs(x) }
	if mayFirst && same(first) || maySecond && same(second) {
		return
	}
	part.Different++
	if mayFirst && near(first) || maySecond && near(second) {
		part.NearlyEqual++
	}
	want := first
	if w.Second {
		want = second
	}
	part.addExample("different: %s at %d: wrote %v, read %v", describeSeries(e.series), tsMs, want, got)
}

// describeSeries formats a series as a PromQL selector.
func describeSeries(s fleet.Series) string {
	text := s.Metric + "{"
	for i, t := range s.Tags {
		if i > 0 {
			text += ","
		}
		text += t.Name + "=" + client.QuoteLabel(t.Value)
	}
	return text + "}"
}
