package index

import (
	"bytes"
	"maps"
	"slices"

	"halite/storage"
	"halite/storage/index/segment"
)

// seenParts remembers which parts with a writer this process has read or written, so that a look for news asks for the
// others only. A writer numbers the parts of a day from 0, one after the other; but a number whose write failed is not used
// again, and a scan that runs beside the writing may see a part and not the one before it. So a gap is asked for once more.
type seenParts struct {
	days map[int64]*seenDay
}

type seenDay struct {
	// exclusive is set if the day has parts without a writer. They are read when the index is opened and never change
	// while there are several writers.
	exclusive bool
	writers   map[string]*seenWriter
}

type seenWriter struct {
	next   uint32          // all parts below it were seen or are not waited for
	beyond map[uint32]bool // parts behind a gap
	gap    bool            // the gap at next was there in the scan before, too
}

func (s *seenParts) day(day int64) *seenDay {
	d := s.days[day]
	if d == nil {
		d = &seenDay{writers: map[string]*seenWriter{}}
		s.days[day] = d
	}
	return d
}

func (s *seenParts) exclusive(day int64) { s.day(day).exclusive = true }

// add notes a part that was read.
func (s *seenParts) add(day int64, writer string, seq uint32) {
	d := s.day(day)
	w := d.writers[writer]
	if w == nil {
		w = &seenWriter{beyond: map[uint32]bool{}}
		d.writers[writer] = w
	}
	if seq >= w.next {
		w.beyond[seq] = true
	}
}

// settle ends a scan: what follows without a gap need not be read again, nor what follows a gap that has been there
// before.
func (s *seenParts) settle() {
	for _, d := range s.days {
		for _, w := range d.writers {
			w.settle()
		}
	}
}

func (w *seenWriter) settle() {
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

// unseen lists the ranges of the journal in which new parts can be.
func (s *seenParts) unseen() []storage.RowRange {
	var known []storage.RowRange
	for day, d := range s.days {
		if d.exclusive {
			known = append(known, storage.RowRange{Start: segment.JournalKey(day, 0), End: append(segment.JournalKey(day, 1<<32-1), 0)})
		}
		for name, w := range d.writers {
			if w.next > 0 {
				known = append(known, storage.RowRange{Start: segment.WriterPartKey(day, name, 0),
					End: segment.WriterPartKey(day, name, w.next)})
			}
		}
	}
	slices.SortFunc(known, func(a, b storage.RowRange) int { return bytes.Compare(a.Start, b.Start) })
	all := specialRows(segment.JournalPrefix).Ranges[0]
	var out []storage.RowRange
	for _, k := range known {
		out = append(out, storage.RowRange{Start: all.Start, End: k.Start})
		all.Start = k.End
	}
	return append(out, all)
}
