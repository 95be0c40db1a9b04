package head

import (
	"sync"

	"halite/keyschema/chunk"
	"halite/keyschema/histchunk"
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
	// places maps refs of series with long lists to the newest row of each hour and kind; see openRow.
	places map[uint32]map[place]uint32
	counts *rowCounts // counts of the head

	// bytes, samples and count are totals of the rows in use.
	bytes, samples, count int64

	// Buffers of the writer that holds mu.
	encoder    chunk.Encoder
	sorter     sorter
	packed     []byte
	tsMs       [tailSamples]int64
	values     [tailSamples]float64
	prefetched uint8 // see prefetch

	// Buffers of the writer for rows of records.
	chain            []byte
	histograms       []histchunk.Sample
	histogramEncoder histchunk.Encoder

	_ [64]byte // so that the locks of two stripes never share a cache line
}

func (s *stripe) row(n uint32) *row {
	n--
	return &s.rows[n>>rowChunkShift][n&(rowChunkSize-1)]
}

// rowsWalked is the number of rows of a series that openRow visits before it uses a map.
const rowsWalked = 16

// openRow finds or makes the row of a series that takes samples of the hour and kind. The series' rows form a list whose
// first row is the last used one, because a stream stays in one hour for long. When a stream reaches its next hour, the
// search ends as soon as only older rows remain. So a backfill of months does not visit all rows. If two streams backfill a
// series concurrently, or the newest hours come first, a map replaces the search.
func (s *stripe) openRow(at *slot, ref uint32, where place, segment uint64, tick uint32) (r *row, made bool) {
	hour := where.hour()
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
		if r.place() == where {
			if r.open() {
				s.moveToFront(at, n, newest)
				return r, false
			}
			again = true
		}
		if walked == rowsWalked {
			n := s.placesOf(at, ref)[where]
			if n != 0 && s.row(n).open() {
				return s.row(n), false
			}
			again = again || n != 0
			break
		}
		n = r.next
	}
	r = s.makeRow(at, ref, where, newest, segment, tick)
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

// placesOf returns the map of a series with a long list. It makes the map if needed.
func (s *stripe) placesOf(at *slot, ref uint32) map[place]uint32 {
	places := s.places[ref]
	if places != nil {
		return places
	}
	places = s.newestByPlace(at)
	if s.places == nil {
		s.places = make(map[uint32]map[place]uint32)
	}
	s.places[ref] = places
	return places
}

// newestByPlace returns the newest row of each hour and kind of a series.
func (s *stripe) newestByPlace(at *slot) map[place]uint32 {
	places := make(map[place]uint32)
	for n := at.row; n != 0; n = s.row(n).next {
		if where := s.row(n).place(); places[where] == 0 {
			places[where] = n
		}
	}
	return places
}

// makeRow adds a new row at the front of a series' list.
func (s *stripe) makeRow(at *slot, ref uint32, where place, newest int64, segment uint64, tick uint32) *row {
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
		ref: ref, next: at.row, hourFlags: uint32(where), segment: uint32(segment), madeTick: tick,
		latest: tick & lowMask,
	}
	r.setNewest(newest)
	if at.row != 0 {
		s.row(at.row).prev = n
	}
	at.row = n
	if places := s.places[ref]; places != nil {
		places[where] = n
	}
	s.bytes += s.memory(r)
	s.count++
	s.counts.add(where, 1)
	return r
}

// unlink removes a row from its series' list and frees its memory.
func (s *stripe) unlink(at *slot, n uint32) {
	r := s.row(n)
	s.detach(at, n)
	if at.row == 0 {
		delete(s.places, r.ref)
	} else if places, where := s.places[r.ref], r.place(); places != nil && places[where] == n {
		delete(places, where)
	}
	s.release(r)
	s.counts.add(r.place(), -1)
	*r = row{next: s.free}
	s.free = n
	s.count--
	if s.count == 0 {
		s.freeMemory()
	}
}

// freeMemory frees the memory of a stripe without rows. Otherwise a burst of series would occupy it forever.
func (s *stripe) freeMemory() {
	s.rows, s.free, s.made, s.places = nil, 0, 0, nil
	for i := range s.slabs {
		s.slabs[i].reset()
	}
}
