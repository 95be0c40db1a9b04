package store

import (
	"bytes"

	"halite/keyschema"
)

// OldestNeeded returns the oldest day of a tier that the job still reads. Retention may drop older data. ok is false
// for the tier of days, because the job does not read it. The result is meaningful only while the job runs: without
// it, days never close.
func (s *Store) OldestNeeded(tier keyschema.Tier) (day int64, ok bool) {
	view := s.Manifest.View()
	first := view.Closed + 1
	for day := range view.Days {
		first = min(first, day)
	}
	switch tier {
	case keyschema.Raw, keyschema.NativeHistograms:
		return min(first, s.firstPartial(keyschema.HourMs)), true
	case keyschema.Hours:
		month := min(MonthOfDay(first), view.ClosedMonth+1, MonthOfDay(s.firstPartial(dayMs)))
		for m := range view.Months {
			month = min(month, m)
		}
		return MonthStart(month), true
	default:
		return 0, false
	}
}

// firstPartial returns the first day with a bucket that a pending deletion removes in part. The job computes the state
// of the remaining samples.
func (s *Store) firstPartial(unitMs int64) (day int64) {
	day = dayMax
	for _, d := range s.PendingDeletions() {
		if d.FromMs%unitMs != 0 {
			day = min(day, DayOf(d.FromMs))
		}
		if (d.ToMs+1)%unitMs != 0 {
			day = min(day, DayOf(d.ToMs))
		}
	}
	return day
}

// retentionFilter applies the retention of one tier by series. It caches the last metric, so it is fast for series in key
// order. It belongs to one goroutine.
type retentionFilter struct {
	retention *keyschema.RetentionByMetric
	tier      keyschema.Tier
	nowMs     int64
	metric    []byte // first field of the last key
	lastMs    int64  // the cutoff of metric
}

func (s *Store) retentionFilter(tier keyschema.Tier) *retentionFilter {
	return &retentionFilter{retention: s.opts.Retention.Load(), tier: tier, nowMs: s.opts.Now().UnixMilli()}
}

// cutoffMs returns the time before which cells of the series are too old; 0 if there is none.
func (f *retentionFilter) cutoffMs(prefix []byte) int64 {
	if len(f.metric) > 0 && bytes.HasPrefix(prefix, f.metric) {
		return f.lastMs
	}
	metric, err := keyschema.MetricOf(prefix)
	if err != nil {
		return 0 // not a key of ours; the reader reports it
	}
	field, _ := keyschema.CutFields(prefix, 1)
	f.metric = append(f.metric[:0], field...)
	f.lastMs = f.retention.ForMetric(metric)[f.tier].CutoffMs(f.nowMs)
	return f.lastMs
}
