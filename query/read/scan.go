package read

import (
	"cmp"
	"fmt"
	"slices"
	"sync"

	"halite/keyschema"
	"halite/storage"
)

// scansMax is the number of reads of the table that a query reports.
const scansMax = 32

// Scan describes one read of the data table within a day: the request and its result. The hours of a series come newest first.
type Scan struct {
	// Day is the day since 1970 whose cells were requested.
	Day int64
	// Ranges is the number of row ranges. Start is the start of the first range, End the end of the last.
	Ranges     int
	Start, End []byte
	// Rows is the number of rows returned, in the order of their keys. Used is the number of rows with samples in the window.
	Rows, Used int
	// FirstHour and LastHour are the hours of the first and the last row; -1 if there is none.
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

// newScan describes a read that has returned no rows yet.
func newScan(day int64, ranges []storage.RowRange) Scan {
	return Scan{
		Day: day, Ranges: len(ranges), Start: ranges[0].Start, End: ranges[len(ranges)-1].End, FirstHour: -1, LastHour: -1,
	}
}

// addRow counts a row of the result.
func (s *Scan) addRow(key []byte) {
	s.Rows++
	if _, hour, ok := keyschema.CutHour(key); ok {
		if s.FirstHour < 0 {
			s.FirstHour = hour
		}
		s.LastHour = hour
	}
}

// Add adds the figures of another session.
func (f *Figures) Add(o *Figures) {
	f.Series += o.Series
	f.Ranges += o.Ranges
	f.Rows += o.Rows
	f.RowsUsed += o.RowsUsed
	f.RowsCached += o.RowsCached
	f.Samples += o.Samples
	f.Scans = append(f.Scans, o.Scans...)
}

// Class describes how a query reads the data table, from the cheapest way to the most expensive.
type Class string

// The classes of reads.
const (
	ClassNone   Class = "none"   // it reads no row of the table
	ClassScan   Class = "scan"   // one range of contiguous rows a day, and the query uses most rows
	ClassMerge  Class = "merge"  // several ranges a day, one for each salt or group of series, and the query uses most rows
	ClassSearch Class = "search" // the query uses less than half of the rows
)

// Class classifies the reads of the table, with the reason in words.
func (f *Figures) Class() (Class, string) {
	if f.Rows == 0 {
		return ClassNone, "the head and the row cache have all samples, or no series match"
	}
	used := fmt.Sprintf("the query uses %d of %d rows", f.RowsUsed, f.Rows)
	if f.RowsUsed*2 < f.Rows {
		return ClassSearch, used + "; promote the labels of its matchers, so that the rows of these series are adjacent"
	}
	most := 0
	for i := range f.Scans {
		most = max(most, f.Scans[i].Ranges)
	}
	if most > 1 {
		return ClassMerge, fmt.Sprintf("up to %d ranges per read; %s", most, used)
	}
	return ClassScan, "one range per read; " + used
}
