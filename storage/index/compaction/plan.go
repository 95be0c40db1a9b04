package compaction

import (
	"time"

	"halite/keyschema"
	"halite/storage/index/presence"
)

// The functions of this file decide which partitions to compact. They read no clock, table or state.

const (
	// dayDelay is the time from the end of a day to its first compaction. Most late samples arrive within it.
	dayDelay = time.Hour
	// DayInterval is the least time between two compactions of a day that add late samples.
	DayInterval = 30 * time.Minute
	// MonthInterval is the least time between two compactions of a month that add only late data.
	MonthInterval = 6 * time.Hour
)

// dayEnded reports whether a day ended at least delay before now.
func dayEnded(day int64, now time.Time, delay time.Duration) bool {
	end := time.UnixMilli(keyschema.HourStartMs(presence.FirstHour(day + 1)))
	return !now.Before(end.Add(delay))
}

// dayDue reports whether a day with a journal is due for compaction. last is the time of its last compaction, or zero.
func dayDue(day int64, now, last time.Time) bool {
	return dayEnded(day, now, dayDelay) && (last.IsZero() || now.Sub(last) >= DayInterval)
}

// monthDay is a closed day of a month: its generation, and the generation of the day that the month contains, or 0.
type monthDay struct {
	gen, contained uint32
	// skip omits the day: it is damaged, or it has dropped metrics, which RemoveHours soon removes.
	skip bool
}

// dueDays returns the days whose current generation the month does not contain. It returns none for a month of fewer than
// daysMin days. If all changes are late data, it waits until MonthInterval after the last compaction.
func dueDays(days []monthDay, daysMin int, now, last time.Time) (due []int) {
	if len(days) < daysMin {
		return nil
	}
	newDay := false
	for i, d := range days {
		if !d.skip && (d.contained == 0 || d.gen != d.contained) {
			due = append(due, i)
			newDay = newDay || d.contained == 0
		}
	}
	if !newDay && !last.IsZero() && now.Sub(last) < MonthInterval {
		return nil
	}
	return due
}

// monthBatch returns the due days that one compaction of a month adds. due holds the number of series of each day. The batch
// has at least one day and at most batchMax series. It omits a day with more than seriesLeft series, which the month's limit
// still allows. more means that another compaction must follow.
func monthBatch(series []uint64, seriesLeft, batchMax uint64) (indices []int, more bool) {
	sum := uint64(0)
	for i, n := range series {
		if n > seriesLeft {
			continue
		}
		seriesLeft -= n
		if sum += n; len(indices) > 0 && sum > batchMax {
			return indices, true
		}
		indices = append(indices, i)
	}
	return indices, false
}
