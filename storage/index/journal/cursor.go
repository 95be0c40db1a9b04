package journal

import (
	"bytes"
	"maps"
	"slices"

	"halite/storage"
	"halite/storage/index/segment"
)

// cursor records, for each day and writer, which records this process has read or written. So a refresh reads only new
// ones. A writer numbers its records of a day from 0 without gaps, with two exceptions. It skips a number after a failed
// write. A scan during a write may see a record but not its predecessor. So the next scan reads the records of a gap again.
type cursor struct {
	days map[int64]*dayCursor
}

type dayCursor struct {
	// exclusive is set if the day has records without a writer. They are read when the index opens. They never change while
	// there are several writers.
	exclusive bool
	writers   map[string]*writerCursor
}

type writerCursor struct {
	next   uint32          // all records below it are known, or missing for good
	beyond map[uint32]bool // known records after a gap
	gap    bool            // the last scan found the same gap at next
}

func newCursor() cursor { return cursor{days: map[int64]*dayCursor{}} }

func (c *cursor) day(day int64) *dayCursor {
	d := c.days[day]
	if d == nil {
		d = &dayCursor{writers: map[string]*writerCursor{}}
		c.days[day] = d
	}
	return d
}

// add marks a record as read.
func (c *cursor) add(day int64, writer string, seq uint32) {
	d := c.day(day)
	w := d.writers[writer]
	if w == nil {
		w = &writerCursor{beyond: map[uint32]bool{}}
		d.writers[writer] = w
	}
	if seq >= w.next {
		w.beyond[seq] = true
	}
}

// endScan moves each writer's cursor past the records up to the first gap. It also moves past a gap that an earlier scan
// found.
func (c *cursor) endScan() {
	for _, d := range c.days {
		for _, w := range d.writers {
			w.endScan()
		}
	}
}

func (w *writerCursor) endScan() {
	advance := func() {
		for w.beyond[w.next] {
			delete(w.beyond, w.next)
			w.next++
		}
	}
	before := w.next
	advance()
	for w.gap && w.next == before && len(w.beyond) > 0 {
		w.next = slices.Min(slices.Collect(maps.Keys(w.beyond)))
		advance()
		before = w.next
	}
	w.gap = len(w.beyond) > 0
}

// unread lists the ranges of rows that may have new records.
func (c *cursor) unread() []storage.RowRange {
	var known []storage.RowRange
	for day, d := range c.days {
		if d.exclusive {
			known = append(known, exclusiveRows(day, 1<<32))
		}
		for name, w := range d.writers {
			if w.next > 0 {
				known = append(known, storage.RowRange{Start: segment.WriterRecordKey(day, name, 0),
					End: segment.WriterRecordKey(day, name, w.next)})
			}
		}
	}
	slices.SortFunc(known, func(a, b storage.RowRange) int { return bytes.Compare(a.Start, b.Start) })
	all := segment.PrefixRows(segment.JournalPrefix).Ranges[0]
	var out []storage.RowRange
	for _, k := range known {
		out = append(out, storage.RowRange{Start: all.Start, End: k.Start})
		all.Start = k.End
	}
	return append(out, all)
}
