package store

import (
	"time"

	"halite/keyschema"
)

const (
	dayMs = keyschema.DayMs
	// dayMax is the last day whose hours row keys can hold.
	dayMax = keyschema.HourMax / keyschema.DayHours
)

// DayOf returns the day, since 1970, of a time. It is −1 for times before 1970.
func DayOf(tsMs int64) int64 {
	if tsMs < 0 {
		return -1
	}
	return tsMs / dayMs
}

// DayText formats a day, since 1970, as a date.
func DayText(day int64) string { return time.UnixMilli(day * dayMs).UTC().Format(time.DateOnly) }

// MonthText formats a month, since January 1970, as year and month.
func MonthText(month int64) string { return DayText(MonthStart(month))[:len("2006-01")] }

// MonthOfDay returns the month since January 1970 that contains a day since 1970.
func MonthOfDay(day int64) int64 {
	year, month, _ := time.UnixMilli(day * dayMs).UTC().Date()
	return int64(year-1970)*12 + int64(month) - 1
}

// MonthStart returns the first day of a month.
func MonthStart(month int64) int64 {
	return time.Date(1970+int(month/12), time.Month(month%12)+1, 1, 0, 0, 0, 0, time.UTC).UnixMilli() / dayMs
}

// DayOfMonth counts from 1.
func DayOfMonth(day int64) int { return int(day-MonthStart(MonthOfDay(day))) + 1 }

// DayCellMs is the timestamp of the cells of a day's hours.
func DayCellMs(day int64) int64 { return day*dayMs + dayMs - 1 }

// MonthCellMs is the timestamp of the cells of a month's days.
func MonthCellMs(month int64) int64 { return MonthStart(month+1)*dayMs - 1 }
