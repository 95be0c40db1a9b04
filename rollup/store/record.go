package store

import (
	"encoding/binary"
	"fmt"
	"maps"

	"halite/storage"
)

// Work says which states of a day the job must compute. The words are stored: never change them.
type Work string

// The kinds of work.
const (
	WorkWhole Work = "whole" // all states; none is valid
	WorkPart  Work = "part"  // dirty states; states without a mark are valid
)

// Record is the manifest as stored.
type Record struct {
	// Closed is the last closed day, since 1970; later days have no states. ClosedMonth is the last closed month.
	Closed      int64 `json:"closed"`
	ClosedMonth int64 `json:"closed_month"`
	// Days and Months are the work of the job. A month waits until it is closed.
	Days   map[int64]Work `json:"days,omitempty"`
	Months map[int64]bool `json:"months,omitempty"`
	// DeletionHorizon is the last deletion that all states reflect.
	DeletionHorizon uint64 `json:"deletion_horizon,omitempty"`
}

// parse parses a stored record.
func (r *Record) parse(stored []byte) error {
	if err := manifestCell().Decode(stored, r); err != nil {
		return fmt.Errorf("rollup manifest: %w", err)
	}
	if r.Days == nil {
		r.Days = map[int64]Work{}
	}
	if r.Months == nil {
		r.Months = map[int64]bool{}
	}
	if err := r.check(); err != nil {
		return fmt.Errorf("rollup manifest: %w", manifestCell().Corrupt(err))
	}
	return nil
}

// check rejects days and months that row keys cannot hold.
func (r *Record) check() error {
	if r.Closed < -1 || r.Closed > dayMax || r.ClosedMonth < -1 || r.ClosedMonth > MonthOfDay(dayMax) {
		return fmt.Errorf("day %d or month %d is out of range", r.Closed, r.ClosedMonth)
	}
	for day, work := range r.Days {
		if day < 0 || day > dayMax || work != WorkWhole && work != WorkPart {
			return fmt.Errorf("work %q of day %d is unknown or out of range", work, day)
		}
	}
	for month := range r.Months {
		if month < 0 || month > MonthOfDay(dayMax) {
			return fmt.Errorf("month %d is out of range", month)
		}
	}
	return nil
}

// HasHours reports whether the states of a day's hours are valid, except the dirty ones.
func (r *Record) HasHours(day int64) bool { return day <= r.Closed && r.Days[day] != WorkWhole }

// HasMonth reports whether the states of a month's days are valid.
func (r *Record) HasMonth(month int64) bool {
	return month <= r.ClosedMonth && !r.Months[month] && !r.hasDays(month)
}

// hasDays reports whether the job must compute a day of the month.
func (r *Record) hasDays(month int64) bool {
	for day := range r.Days {
		if MonthOfDay(day) == month {
			return true
		}
	}
	return false
}

// Pending counts the given days without valid states, and the months of the given days that the job must
// compute.
func (r *Record) Pending(days []int64) (pending int) {
	months := map[int64]bool{}
	for _, day := range days {
		if day > r.Closed || r.Days[day] == WorkWhole {
			pending++
		}
		months[MonthOfDay(day)] = true
	}
	for month := range months {
		if r.Months[month] && month <= r.ClosedMonth {
			pending++
		}
	}
	return pending
}

// Several processes write dirty-day records into the manifest's row. A record is a cell with the qualifier 'n', the day in
// 4 bytes, and 'w' or 'p'. Its timestamp is its time.
const (
	dirtyDayKind  = 'n'
	dirtyDayWhole = 'w'
	dirtyDayPart  = 'p'
	dirtyDayBytes = 6
)

// dirtyDay names a dirty-day record.
type dirtyDay struct {
	day  int64
	work Work
}

// dirtyDays are the times of the newest dirty-day records, in milliseconds since 1970.
type dirtyDays map[dirtyDay]int64

func (d dirtyDay) qualifier() []byte {
	kind := byte(dirtyDayPart)
	if d.work == WorkWhole {
		kind = dirtyDayWhole
	}
	return append(binary.BigEndian.AppendUint32([]byte{dirtyDayKind}, uint32(d.day)), kind)
}

// removals removes the records that are not newer than a time.
func (d dirtyDays) removals(toMs int64) (entries []storage.Entry) {
	for day := range d {
		entries = append(entries, day.removal(toMs))
	}
	return entries
}

func (d dirtyDay) removal(toMs int64) storage.Entry {
	return storage.Entry{Kind: storage.DeleteCells, Family: storage.FamilyMeta, Qualifier: d.qualifier(), ToMs: toMs + 1}
}

// with returns the record with dirty days added.
func (r Record) with(dirty dirtyDays) Record {
	if len(dirty) == 0 {
		return r
	}
	r.Days = maps.Clone(r.Days)
	for d := range dirty {
		if d.work == WorkWhole || r.Days[d.day] == "" {
			r.Days[d.day] = d.work
		}
	}
	return r
}
