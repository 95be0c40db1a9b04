package head

import (
	"cmp"
	"math"
	"slices"

	"halite/keyschema"
)

// Row names a row that was selected for a flush. It stays valid while no row is freed.
type Row struct {
	Ref   uint32
	place place
	n     uint32
}

// Hour is the row's hour since 1970.
func (r Row) Hour() int64 { return r.place.hour() }

// Kind is the kind of the row's samples.
func (r Row) Kind() keyschema.SampleKind { return r.place.kind() }

// RowInfo describes a row to the caller that selects rows for a flush.
type RowInfo struct {
	Ref  uint32
	Hour int64
	Kind keyschema.SampleKind
	// Bytes is the memory of the row, which a flush frees.
	Bytes int64
	// Samples is the number of stored samples.
	Samples int
	// Segment is the oldest segment of the log that the row needs.
	Segment uint64
	// MadeTick and LastTick are the ticks of the first and last append. The row keeps only eight bits of LastTick. If
	// LastTick is more than 255 ticks after MadeTick, it is too low by a multiple of 256.
	MadeTick, LastTick uint32
	// Frozen reports that an earlier flush failed, or that the row is full.
	Frozen bool
}

// freezeBatch is the number of rows visited under one lock of a stripe. It bounds the time that writers wait.
const freezeBatch = 2048

// SelectRows appends the rows of a stripe for which pick returns true to dst. It skips rows that a flush holds and changes
// no row. It calls pick under the stripe's lock.
func (h *Head) SelectRows(dst []Row, stripe int, pick func(RowInfo) bool) []Row {
	s := &h.stripes[stripe]
	for next := uint32(1); next != 0; {
		dst, next = s.selectRows(dst, next, pick)
	}
	return dst
}

func (s *stripe) selectRows(dst []Row, first uint32, pick func(RowInfo) bool) (rows []Row, next uint32) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	last := min(s.made, first+freezeBatch-1)
	for n := first; n <= last; n++ {
		r := s.row(n)
		if r.ref != 0 && !r.is(flagFlushing) && pick(RowInfo{
			Ref: r.ref, Hour: r.hour(), Kind: r.kind(), Bytes: s.memory(r), Samples: r.samples(), Segment: uint64(r.segment),
			MadeTick: r.madeTick, LastTick: r.lastTick(), Frozen: !r.open(),
		}) {
			dst = append(dst, Row{Ref: r.ref, place: r.place(), n: n})
		}
	}
	if last == s.made {
		return dst, 0
	}
	return dst, last + 1
}

// Freeze freezes selected rows and appends them to dst, stripe by stripe. It orders the rows of a stripe by series, hour,
// kind and creation. The given rows of one stripe must be adjacent. Freeze adds older rows of the same series, hour and
// kind, so that the table receives them in order. It omits rows that a flush holds. Frozen rows stay readable until Free. No
// row may have been freed since the selection. Freeze sorts rows.
func (h *Head) Freeze(dst []Row, rows []Row) []Row {
	for len(rows) > 0 {
		number, some := h.Stripe(rows[0].Ref), 1
		for some < len(rows) && h.Stripe(rows[some].Ref) == number {
			some++
		}
		slices.SortFunc(rows[:some], compareRows)
		h.withSeries(rows[:some], func(s *stripe, at *slot, selected []Row) { dst = s.freeze(dst, at, selected) })
		rows = rows[some:]
	}
	return dst
}

func compareRows(a, b Row) int {
	return cmp.Or(cmp.Compare(a.Ref, b.Ref), cmp.Compare(a.place, b.place), cmp.Compare(a.n, b.n))
}

// freeze freezes selected rows of one series, sorted by compareRows, and the older rows of their hours and kinds.
func (s *stripe) freeze(dst []Row, at *slot, selected []Row) []Row {
	if slices.ContainsFunc(selected, func(r Row) bool { return s.row(r.n).is(flagHasOlder) }) {
		return s.freezeOlder(dst, at, selected)
	}
	for i := range selected {
		dst = s.freezeRow(dst, selected[i].n)
	}
	return dst
}

func (s *stripe) freezeRow(dst []Row, n uint32) []Row {
	r := s.row(n)
	if r.is(flagFlushing) {
		return dst
	}
	r.hourFlags |= flagFrozen | flagFlushing
	return append(dst, Row{Ref: r.ref, place: r.place(), n: n})
}

// freezeOlder is freeze for hours that may have older rows. It walks the series' list once for all selected rows, because
// months of a series may wait for a flush.
func (s *stripe) freezeOlder(dst []Row, at *slot, selected []Row) []Row {
	from, reached := len(dst), map[place]bool{} // hours and kinds whose newest selected row was visited
	for n := at.row; n != 0; n = s.row(n).next {
		r := s.row(n)
		row := Row{Ref: r.ref, place: r.place(), n: n}
		if !reached[row.place] {
			if _, found := slices.BinarySearchFunc(selected, row, compareRows); !found {
				continue
			}
			reached[row.place] = true
		}
		dst = s.freezeRow(dst, n)
	}
	slices.Reverse(dst[from:]) // oldest row of an hour first
	slices.SortStableFunc(dst[from:], func(a, b Row) int { return cmp.Compare(a.place, b.place) })
	return dst
}

// BytesByRowSize sums the memory of rows by size: sizes[i] is the memory of all rows with less than 2^i bytes and at least
// half of that. The caller derives how large the rows to flush must be to free enough memory.
func (h *Head) BytesByRowSize() (sizes [32]int64) {
	for i := range h.stripes {
		s := &h.stripes[i]
		s.mu.RLock()
		for n := uint32(1); n <= s.made; n++ {
			if r := s.row(n); r.ref != 0 {
				bytes := s.memory(r)
				_, exp := math.Frexp(float64(bytes))
				sizes[exp] += bytes
			}
		}
		s.mu.RUnlock()
	}
	return sizes
}

// CopyRows copies frozen rows of one stripe into the reader and replaces its content.
func (h *Head) CopyRows(d *Reader, rows []Row) {
	d.reset()
	if len(rows) == 0 {
		return
	}
	s := &h.stripes[h.Stripe(rows[0].Ref)]
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, row := range rows {
		d.copyRow(s, s.row(row.n))
	}
}

// Columns unpacks the copied rows [from, to), which must be of one series, hour and kind: floats or start times. Timestamps
// ascend without duplicates; the last written value wins. The columns are valid until the next call.
func (d *Reader) Columns(from, to int) ([]int64, []float64, error) { return d.columns(d.rows[from:to]) }

// PackedBytes is the packed size of copied row i in bytes. It estimates the size of the row's chunk.
func (d *Reader) PackedBytes(i int) int {
	c := d.rows[i]
	return c.packed - c.packedFrom + (c.tail-c.tailFrom)*(valueBytes+offsetBytes)
}

// Free drops frozen rows that the tables now hold. The rows must be in the order of Freeze.
func (h *Head) Free(rows []Row) {
	h.withSeries(rows, func(s *stripe, at *slot, rows []Row) {
		for i := range rows {
			r := s.row(rows[i].n)
			if r.packedBytes() > h.opts.RowBytesMax {
				h.sealed.Add(-1)
			}
			s.unlink(at, rows[i].n)
		}
	})
}

// Thaw releases frozen rows after a failed flush. The rows must be in the order of Freeze. A row stays frozen for the next
// flush if it is full or its series has a newer row of the hour. Other rows take samples again.
func (h *Head) Thaw(rows []Row) {
	h.withSeries(rows, func(s *stripe, at *slot, rows []Row) {
		newest := s.newestByPlace(at)
		for _, row := range rows {
			r := s.row(row.n)
			r.hourFlags &^= flagFlushing
			if r.packedBytes() <= h.opts.RowBytesMax && newest[row.place] == row.n {
				r.hourFlags &^= flagFrozen
			}
		}
	})
}

// withSeries visits rows series by series under the lock of their stripe. It releases the lock between batches. The rows
// of one series must be adjacent.
func (h *Head) withSeries(rows []Row, visit func(s *stripe, at *slot, rows []Row)) {
	for len(rows) > 0 {
		number, some := h.Stripe(rows[0].Ref), 0
		for some < min(len(rows), freezeBatch) && h.Stripe(rows[some].Ref) == number {
			some += sameSeries(rows[some:])
		}
		h.withStripe(&h.stripes[number], rows[:some], visit)
		rows = rows[some:]
	}
}

// sameSeries returns the length of the first run of rows of one series.
func sameSeries(rows []Row) int {
	n := 1
	for n < len(rows) && rows[n].Ref == rows[0].Ref {
		n++
	}
	return n
}

func (h *Head) withStripe(s *stripe, rows []Row, visit func(s *stripe, at *slot, rows []Row)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer h.addTotals(s, s.bytes, s.count, s.samples)
	for len(rows) > 0 {
		n := sameSeries(rows)
		visit(s, h.slot(rows[0].Ref), rows[:n])
		rows = rows[n:]
	}
}
