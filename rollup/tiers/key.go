package tiers

import (
	"time"

	"halite/keyschema"
)

const (
	dayMs = keyschema.DayHours * keyschema.HourMs
	// monthMax is the last month that a key can name; keys hold monthMax − month, so that the newest comes first.
	monthMax    = 99_999
	monthDigits = 5
	hourDigits  = 7

	// Kinds of cells; the bytes are stored. In the family of hours the day of the month stands before them.
	kindStates = 's'
	kindAsOf   = 't' // the deletion that the states are as of
	kindMark   = 'x' // and the hour: its state is stale unless the value is markDone

	// markGone tells of a row that was taken away, and not by retention, which marks nothing.
	markDone, markLive, markGone = 0, 1, 2
	// markBytes and timedMarkBytes are the lengths of marks in the family of hours, the latter of several processes.
	markBytes, timedMarkBytes = 3, 3 + 8 + 4
)

// MonthOfDay returns the month since January 1970 that has a day since 1970.
func MonthOfDay(day int64) int64 {
	year, month, _ := time.UnixMilli(day * dayMs).UTC().Date()
	return int64(year-1970)*12 + int64(month) - 1
}

// MonthStart returns the first day of a month.
func MonthStart(month int64) int64 {
	return time.Date(1970+int(month/12), time.Month(month%12)+1, 1, 0, 0, 0, 0, time.UTC).UnixMilli() / dayMs
}

// dayCellMs is the timestamp of the cells of a day's hours, monthCellMs of those of a month's days.
func dayCellMs(day int64) int64     { return day*dayMs + dayMs - 1 }
func monthCellMs(month int64) int64 { return MonthStart(month+1)*dayMs - 1 }

// dayOfMonth counts from 1.
func dayOfMonth(day int64) int { return int(day-MonthStart(MonthOfDay(day))) + 1 }

// appendKey appends the row key of a series and month; prefix is what keyschema.Rule.AppendPrefix made.
func appendKey(dst, prefix []byte, month int64) []byte {
	n, at := monthMax-month, len(dst)+len(prefix)
	dst = append(append(dst, prefix...), "00000"[:monthDigits]...)
	for i := at + monthDigits - 1; i >= at; i-- {
		dst[i] = byte('0' + n%10)
		n /= 10
	}
	return dst
}

// parseKey is the inverse of appendKey.
func parseKey(key []byte) (prefix []byte, month int64, ok bool) {
	prefix, n, ok := cutDigits(key, monthDigits)
	return prefix, monthMax - n, ok
}

// parseDataKey splits the row key of the data table.
func parseDataKey(key []byte) (prefix []byte, hour int64, ok bool) {
	prefix, n, ok := cutDigits(key, hourDigits)
	return prefix, keyschema.HourMax - n, ok
}

func cutDigits(key []byte, digits int) (prefix []byte, n int64, ok bool) {
	at := len(key) - digits
	if at < 1 || key[at-1] != '#' {
		return nil, 0, false
	}
	for _, c := range key[at:] {
		if c < '0' || c > '9' {
			return nil, 0, false
		}
		n = n*10 + int64(c-'0')
	}
	return key[:at], n, true
}

// statesQualifier names the hours of a day of the month, from 1 on.
func statesQualifier(dayOfMonth int) []byte { return []byte{byte(dayOfMonth), kindStates} }

// markQualifier names the mark of an hour.
func markQualifier(dayOfMonth, hour int) []byte {
	return []byte{byte(dayOfMonth), kindMark, byte(hour)}
}

// hoursAsOfQualifier names the deletion that the hours of a day of the month are as of.
func hoursAsOfQualifier(dayOfMonth int) []byte { return []byte{byte(dayOfMonth), kindAsOf} }

// daysQualifier names the days of the month, daysAsOfQualifier the deletion that they are as of.
func daysQualifier() []byte     { return []byte{kindStates} }
func daysAsOfQualifier() []byte { return []byte{kindAsOf} }

// dayMarkQualifier names the mark of a day of the month.
func dayMarkQualifier(dayOfMonth int) []byte { return []byte{kindMark, byte(dayOfMonth)} }
