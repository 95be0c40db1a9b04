package head

import (
	"sync"

	"halite/keyschema/run"
)

const (
	rowChunkShift = 8
	rowChunkSize  = 1 << rowChunkShift
)

// stripe is a part of the head with a lock of its own. Rows are numbered from 1.
type stripe struct {
	mu    sync.RWMutex
	rows  []*[rowChunkSize]row
	free  uint32
	made  uint32
	seq   uint32
	slabs [classes]slab

	// bytes, samples and count describe the rows in use.
	bytes, samples, count int64

	// Scratch of the writer that holds mu.
	encoder run.Encoder
	sorter  sorter
	packed  []byte
	tsMs    [tailSamples]int64
	values  [tailSamples]float64
	touched uint8 // see warm

	_ [64]byte // keeps neighbours' locks off this one's cache line
}

func (s *stripe) row(n uint32) *row {
	n--
	return &s.rows[n>>rowChunkShift][n&(rowChunkSize-1)]
}

// openRow finds the row of a series that takes samples of the hour, or makes one. The series' rows form a list whose
// first is the one used last: streams stay in one hour for long, whatever the hour. When a stream reaches its next hour,
// the search ends as soon as only older rows are left, so that filling in months of a series does not walk them all.
func (s *stripe) openRow(at *slot, ref uint32, hour int64, segment uint64, tick uint32) (r *row, made bool) {
	newest := int32(hour)
	if at.row != 0 {
		newest = max(newest, s.row(at.row).newest)
	}
	var before *row
	for n := at.row; n != 0; {
		r := s.row(n)
		if hour > int64(r.newest) {
			break
		}
		if int64(r.hour) == hour && r.open() {
			if before != nil {
				before.next, r.next = r.next, at.row
				r.newest, at.row = newest, n
			}
			return r, false
		}
		before, n = r, r.next
	}
	n := s.free
	if n != 0 {
		s.free = s.row(n).next
	} else {
		if int(s.made)>>rowChunkShift == len(s.rows) {
			s.rows = append(s.rows, new([rowChunkSize]row))
		}
		s.made++
		n = s.made
	}
	s.seq++
	r = s.row(n)
	*r = row{
		ref: ref, next: at.row, hour: int32(hour), newest: newest, seq: s.seq, segment: uint32(segment),
		madeTick: tick, lastTick: tick, tail: s.slabs[classTailSmall].alloc(),
	}
	at.row = n
	s.bytes += s.memory(r)
	s.count++
	return r, true
}

// unlink takes a row out of its series' list and gives its memory back.
func (s *stripe) unlink(at *slot, n uint32) {
	r := s.row(n)
	if at.row == n {
		at.row = r.next
	} else {
		before := s.row(at.row)
		for before.next != n {
			before = s.row(before.next)
		}
		before.next = r.next
	}
	s.release(r)
	*r = row{next: s.free}
	s.free = n
	s.count--
	if s.count == 0 {
		s.empty()
	}
}

// empty lets go of the memory of a stripe that has no rows, so that a burst of series does not hold it for ever.
func (s *stripe) empty() {
	s.rows, s.free, s.made = nil, 0, 0
	for i := range s.slabs {
		s.slabs[i].empty()
	}
}
