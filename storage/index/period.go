package index

import (
	"fmt"
	"time"

	"halite/keyschema"
)

// period is what a segment covers: a unix day, or a calendar month (UTC) of them.
type period int64

// monthBit tells months, counted from January 1970, from days.
const monthBit period = 1 << 40

// monthDaysMax is the number of days in the longest month.
const monthDaysMax = 31

func dayPeriod(day int64) period { return period(day) }

// monthOf is the month in which a day lies.
func monthOf(day int64) period {
	t := time.Unix(day*int64(keyschema.DayHours)*3600, 0).UTC()
	return period(int64(t.Year()-1970)*12+int64(t.Month())-1) | monthBit
}

func (p period) isMonth() bool { return p&monthBit != 0 }

// number is the unix day, or the number of months since January 1970.
func (p period) number() int64 { return int64(p &^ monthBit) }

// firstDay is the first unix day of the period.
func (p period) firstDay() int64 {
	if !p.isMonth() {
		return int64(p)
	}
	n := p.number()
	return time.Date(1970+int(n/12), time.Month(n%12+1), 1, 0, 0, 0, 0, time.UTC).Unix() / (int64(keyschema.DayHours) * 3600)
}

// lastDay is the last unix day of the period.
func (p period) lastDay() int64 {
	if !p.isMonth() {
		return int64(p)
	}
	return (p + 1).firstDay() - 1
}

// cellMs is the timestamp of the period's cells: the last millisecond of a day. A month's are one millisecond before the
// end of its last day, so that they expire with it and are told from its cells by their time.
func (p period) cellMs() int64 {
	if !p.isMonth() {
		return dayCellMs(int64(p))
	}
	return dayCellMs(p.lastDay()) - 1
}

// rootKey is the row of the period's root.
func (p period) rootKey() []byte {
	if p.isMonth() {
		return appendDay([]byte(monthRootPrefix), p.number())
	}
	return appendDay([]byte(rootPrefix), int64(p))
}

// appendTo appends what a row key says of the period.
func (p period) appendTo(dst []byte) []byte {
	if p.isMonth() {
		dst = append(dst, 'm')
	}
	return appendDay(dst, p.number())
}

func (p period) String() string {
	if p.isMonth() {
		return fmt.Sprintf("month %04d-%02d", 1970+p.number()/12, p.number()%12+1)
	}
	return fmt.Sprintf("day %d", int64(p))
}
