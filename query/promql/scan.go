package promql

import (
	"cmp"
	"slices"
	"sync"

	"halite/keyschema"
)

// scansMax is the number of reads of the table that are told of a query.
const scansMax = 32

// Scan is one read of the data table within a day: what was asked for and what came. The hours of a series come newest
// first.
type Scan struct {
	// Day is the day since 1970 of which cells were asked for.
	Day int64
	// Ranges is the number of row ranges, from Start of the first to End of the last.
	Ranges     int
	Start, End []byte
	// Rows came, in the order of their keys; Used of them had samples in the window.
	Rows, Used int
	// FirstHour and LastHour are those of the first and the last row; -1 if no row came.
	FirstHour, LastHour int64
}

// scanLog keeps the first reads of a query.
type scanLog struct {
	mu    sync.Mutex
	scans []Scan
}

func (l *scanLog) add(s Scan) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.scans) < scansMax {
		l.scans = append(l.scans, s)
	}
}

// list returns the reads, the newest day first.
func (l *scanLog) list() []Scan {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := slices.Clone(l.scans)
	slices.SortStableFunc(out, func(a, b Scan) int { return cmp.Compare(b.Day, a.Day) })
	return out
}

// scanned is a read under way.
type scanned struct {
	Scan
	first, last [keyschema.HourDigits]byte
}

func beginScan(read *dayRead) scanned {
	asked := read.asked()
	return scanned{Scan: Scan{Day: read.day, Ranges: len(asked), Start: asked[0].Start, End: asked[len(asked)-1].End}}
}

// row notes a row.
func (s *scanned) row(key []byte) {
	if len(key) < keyschema.HourDigits {
		return
	}
	copy(s.last[:], key[len(key)-keyschema.HourDigits:])
	if s.Rows == 0 {
		s.first = s.last
	}
	s.Rows++
}

// end completes the read.
func (s *scanned) end() Scan {
	s.FirstHour, s.LastHour = hourOfDigits(s.first), hourOfDigits(s.last)
	return s.Scan
}

// hourOfDigits returns −1 if the digits are not an hour.
func hourOfDigits(digits [keyschema.HourDigits]byte) int64 {
	hour, ok := keyschema.ParseHour(digits[:])
	if !ok {
		return -1
	}
	return hour
}
