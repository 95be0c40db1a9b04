package head

import (
	"sync"

	"halite/keyschema/chunk"
)

const (
	rowChunkShift = 9 // 24 KiB, a size class of the allocator
	rowChunkSize  = 1 << rowChunkShift
)

// stripe is a part of the head with a lock of its own. Its rows are numbered from 1.
type stripe struct {
	mu    sync.RWMutex
	rows  []*[rowChunkSize]row
	free  uint32
	made  uint32
	slabs [classes]slab
	// hours maps refs of series with long lists to the newest row of each hour; see openRow.
	hours  map[uint32]map[int32]uint32
	counts *hourCounts // of the head

	// bytes, samples and count are totals of the rows in use.
	bytes, samples, count int64

	// Buffers of the writer that holds mu.
	encoder    chunk.Encoder
	sorter     sorter
	packed     []byte
	tsMs       [tailSamples]int64
	values     [tailSamples]float64
	prefetched uint8 // see prefetch

	_ [64]byte // so that the locks of two stripes never share a cache line
}

func (s *stripe) row(n uint32) *row {
	n--
	return &s.rows[n>>rowChunkShift][n&(rowChunkSize-1)]
}

// rowsWalked is the number of rows of a series that openRow visits before it uses a map.
const rowsWalked = 16

// openRow finds the row of a series that takes samples of the hour, or makes one. The series' rows form a list, and the last
// used row is its first: a stream stays in one hour for long. When a stream reaches its next hour, the search ends as soon as
// only older rows remain, so a backfill of months does not visit all rows. If two streams backfill a series at once, or the
// newest hours come first, a map replaces the search.
func (s *stripe) openRow(at *slot, ref uint32, hour int64, segment uint64, tick uint32) (r *row, made bool) {
	newest := hour
	if at.row != 0 {
		newest = max(newest, s.row(at.row).newest())
	}
	again := false
	walked := 0
	for n := at.row; n != 0; walked++ {
		r := s.row(n)
		if hour > r.newest() {
			break
		}
		if r.hour() == hour {
			if r.open() {
				s.moveToFront(at, n, newest)
				return r, false
			}
			again = true
		}
		if walked == rowsWalked {
			n := s.hoursOf(at, ref)[int32(hour)]
			if n != 0 && s.row(n).open() {
				return s.row(n), false
			}
			again = again || n != 0
			break
		}
		n = r.next
	}
	r = s.makeRow(at, ref, hour, newest, segment, tick)
	if again {
		r.hourFlags |= flagHasOlder
	}
	return r, true
}

// moveToFront makes a row the first of its series.
func (s *stripe) moveToFront(at *slot, n uint32, newest int64) {
	if at.row == n {
		return
	}
	s.detach(at, n)
	r := s.row(n)
	r.next, r.prev = at.row, 0
	r.setNewest(newest)
	s.row(at.row).prev = n
	at.row = n
}

// detach removes a row from its series' list.
func (s *stripe) detach(at *slot, n uint32) {
	r := s.row(n)
	if r.prev == 0 {
		at.row = r.next
	} else {
		s.row(r.prev).next = r.next
	}
	if r.next != 0 {
		s.row(r.next).prev = r.prev
	}
}

// hoursOf returns the map of a series with a long list. It makes the map if needed.
func (s *stripe) hoursOf(at *slot, ref uint32) map[int32]uint32 {
	hours := s.hours[ref]
	if hours != nil {
		return hours
	}
	hours = s.newestByHour(at)
	if s.hours == nil {
		s.hours = make(map[uint32]map[int32]uint32)
	}
	s.hours[ref] = hours
	return hours
}

// newestByHour returns the newest row of each hour of a series.
func (s *stripe) newestByHour(at *slot) map[int32]uint32 {
	hours := make(map[int32]uint32)
	for n := at.row; n != 0; n = s.row(n).next {
		if hour := int32(s.row(n).hour()); hours[hour] == 0 {
			hours[hour] = n
		}
	}
	return hours
}

// makeRow adds a new row at the front of a series' list.
func (s *stripe) makeRow(at *slot, ref uint32, hour, newest int64, segment uint64, tick uint32) *row {
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
	r := s.row(n)
	*r = row{
		ref: ref, next: at.row, hourFlags: uint32(hour) << lowBits, segment: uint32(segment), madeTick: tick,
		latest: tick & lowMask,
	}
	r.setNewest(newest)
	if at.row != 0 {
		s.row(at.row).prev = n
	}
	at.row = n
	if hours := s.hours[ref]; hours != nil {
		hours[int32(hour)] = n
	}
	s.bytes += s.memory(r)
	s.count++
	s.counts.add(hour, 1)
	return r
}

// unlink removes a row from its series' list and frees its memory.
func (s *stripe) unlink(at *slot, n uint32) {
	r := s.row(n)
	s.detach(at, n)
	if at.row == 0 {
		delete(s.hours, r.ref)
	} else if hours, hour := s.hours[r.ref], int32(r.hour()); hours != nil && hours[hour] == n {
		delete(hours, hour)
	}
	s.release(r)
	s.counts.add(r.hour(), -1)
	*r = row{next: s.free}
	s.free = n
	s.count--
	if s.count == 0 {
		s.freeMemory()
	}
}

// freeMemory frees the memory of a stripe without rows, so that a burst of series does not occupy it forever.
func (s *stripe) freeMemory() {
	s.rows, s.free, s.made, s.hours = nil, 0, 0, nil
	for i := range s.slabs {
		s.slabs[i].reset()
	}
}
