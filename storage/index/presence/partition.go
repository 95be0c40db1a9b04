package presence

import (
	"fmt"
	"time"

	"halite/keyschema"
)

// Partition is the time range of a segment: a unix day or a calendar month (UTC).
type Partition int64

// monthBit marks months, counted from January 1970. Days lack it.
const monthBit Partition = 1 << 40

// MonthDaysMax is the number of days in the longest month.
const MonthDaysMax = 31

// MonthPartition returns the n-th month since January 1970.
func MonthPartition(n int64) Partition { return Partition(n) | monthBit }

// DayPartition returns the partition of a day.
func DayPartition(day int64) Partition { return Partition(day) }

// MonthOf returns the month of a day.
func MonthOf(day int64) Partition {
	t := time.Unix(day*int64(keyschema.DayHours)*3600, 0).UTC()
	return Partition(int64(t.Year()-1970)*12+int64(t.Month())-1) | monthBit
}

// IsMonth reports whether the partition is a month.
func (p Partition) IsMonth() bool { return p&monthBit != 0 }

// Number is the unix day, or the number of months since January 1970.
func (p Partition) Number() int64 { return int64(p &^ monthBit) }

// FirstDay is the first unix day of the partition.
func (p Partition) FirstDay() int64 {
	if !p.IsMonth() {
		return int64(p)
	}
	n := p.Number()
	return time.Date(1970+int(n/12), time.Month(n%12+1), 1, 0, 0, 0, 0, time.UTC).Unix() / (int64(keyschema.DayHours) * 3600)
}

// LastDay is the last unix day of the partition.
func (p Partition) LastDay() int64 {
	if !p.IsMonth() {
		return int64(p)
	}
	return (p + 1).FirstDay() - 1
}

// CellMs is the timestamp of the partition's cells: the last millisecond of a day. The cells of a month are one millisecond
// older than the cells of its last day. So they expire with that day, and their timestamps distinguish them.
func (p Partition) CellMs() int64 {
	if !p.IsMonth() {
		return DayCellMs(int64(p))
	}
	return DayCellMs(p.LastDay()) - 1
}

func (p Partition) String() string {
	if p.IsMonth() {
		return fmt.Sprintf("month %04d-%02d", 1970+p.Number()/12, p.Number()%12+1)
	}
	return fmt.Sprintf("day %d", int64(p))
}
