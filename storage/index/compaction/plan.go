package compaction

import (
	"time"

	"halite/keyschema"
	"halite/storage/index/presence"
)

// The functions of this file decide what is compacted. They read no clock, table or state.

const (
	// dayDelay is the time from the end of a day to its first compaction. Most late samples arrive within it.
	dayDelay = time.Hour
	// DayInterval is the least time between two compactions of a day, as late samples trickle in.
	DayInterval = 30 * time.Minute
	// MonthInterval is the least time between two compactions of a month that add only late data, no new day.
	MonthInterval = 6 * time.Hour
)

// dayEnded reports whether a day ended at least delay before now.
func dayEnded(day int64, now time.Time, delay time.Duration) bool {
	end := time.UnixMilli(keyschema.HourStartMs(presence.FirstHour(day + 1)))
	return !now.Before(end.Add(delay))
}

// dayDue reports whether a day with a journal is compacted now. last is its last compaction, zero if there was none.
func dayDue(day int64, now, last time.Time) bool {
	return dayEnded(day, now, dayDelay) && (last.IsZero() || now.Sub(last) >= DayInterval)
}

// monthDay is a closed day of a month: its generation, and the one that the month contains, 0 if none.
type monthDay struct {
	gen, contained uint32
	// skip leaves the day out: it is damaged, or has dropped metrics, which RemoveHours removes soon.
	skip bool
}

// dueDays returns the days that a month has to take in: those with a generation that it does not contain. A month of fewer
// than daysMin days takes in none, and late data alone waits until MonthInterval after the last compaction.
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

// monthBatch returns the due days, given by their numbers of series, that one compaction of a month takes in: at least one,
// and together no more than batchMax series. A day with more than the seriesLeft that the month may still take stays outside
// it. more says that another compaction has to follow.
func monthBatch(series []uint64, seriesLeft, batchMax uint64) (take []int, more bool) {
	sum := uint64(0)
	for i, n := range series {
		if n > seriesLeft {
			continue
		}
		seriesLeft -= n
		if sum += n; len(take) > 0 && sum > batchMax {
			return take, true
		}
		take = append(take, i)
	}
	return take, false
}
