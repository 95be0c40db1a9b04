package head

import (
	"cmp"
	"math"
	"slices"
)

// Row names a row that was chosen for a flush. Its number stays that row's as long as nothing is freed.
type Row struct {
	Ref  uint32
	hour int32
	n    uint32
}

// Hour is the row's hour since 1970.
func (r Row) Hour() int64 { return int64(r.hour) }

// RowInfo describes a row to the one who chooses what to flush.
type RowInfo struct {
	Ref  uint32
	Hour int64
	// Bytes is the memory that flushing frees.
	Bytes int64
	// Samples were stored in the row.
	Samples int
	// Segment is the first segment of the log that the row needs.
	Segment uint64
	// MadeTick and LastTick are the ticks of the first and last sample's arrival. LastTick is kept in eight bits: it is right
	// until 255 after MadeTick, and too low by 256 or more from then on.
	MadeTick, LastTick uint32
	// Frozen rows wait since an earlier flush failed, or because they grew too large.
	Frozen bool
}

// freezeBatch is the number of rows looked at within one hold of a stripe's lock, so that writers never wait for long.
const freezeBatch = 2048

// Choose appends the rows of a stripe that pick chooses to dst, but for those already in the hands of a flush. Nothing
// happens to them yet. pick is called under the lock.
func (h *Head) Choose(dst []Row, stripe int, pick func(RowInfo) bool) []Row {
	s := &h.stripes[stripe]
	for next := uint32(1); next != 0; {
		dst, next = s.choose(dst, next, pick)
	}
	return dst
}

func (s *stripe) choose(dst []Row, first uint32, pick func(RowInfo) bool) (rows []Row, next uint32) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	last := min(s.made, first+freezeBatch-1)
	for n := first; n <= last; n++ {
		r := s.row(n)
		if r.ref != 0 && !r.is(flagFlushing) && pick(RowInfo{
			Ref: r.ref, Hour: r.hour(), Bytes: s.memory(r), Samples: r.samples(), Segment: uint64(r.segment),
			MadeTick: r.madeTick, LastTick: r.lastTick(), Frozen: !r.open(),
		}) {
			dst = append(dst, Row{Ref: r.ref, hour: int32(r.hour()), n: n})
		}
	}
	if last == s.made {
		return dst, 0
	}
	return dst, last + 1
}

// Freeze closes chosen rows, those of one stripe next to each other, and appends them to dst, stripe by stripe, each
// ordered by series, hour and creation. Older rows of the same series and hour come along, so that the table never gets
// them in the wrong order. Frozen rows stay readable until Free; those already in the hands of a flush are left out.
// Nothing may have been freed since the rows were chosen. It sorts rows.
func (h *Head) Freeze(dst []Row, rows []Row) []Row {
	for len(rows) > 0 {
		at, some := h.Stripe(rows[0].Ref), 1
		for some < len(rows) && h.Stripe(rows[some].Ref) == at {
			some++
		}
		slices.SortFunc(rows[:some], compareRows)
		h.withSeries(rows[:some], func(s *stripe, at *slot, chosen []Row) { dst = s.freeze(dst, at, chosen) })
		rows = rows[some:]
	}
	return dst
}

func compareRows(a, b Row) int {
	return cmp.Or(cmp.Compare(a.Ref, b.Ref), cmp.Compare(a.hour, b.hour), cmp.Compare(a.n, b.n))
}

// freeze freezes chosen rows of one series, which compareRows has sorted, and the rows of their hours that were made before them.
func (s *stripe) freeze(dst []Row, at *slot, chosen []Row) []Row {
	if slices.ContainsFunc(chosen, func(r Row) bool { return s.row(r.n).is(flagAgain) }) {
		return s.freezeOlder(dst, at, chosen)
	}
	for i := range chosen {
		dst = s.freezeRow(dst, chosen[i].n)
	}
	return dst
}

func (s *stripe) freezeRow(dst []Row, n uint32) []Row {
	r := s.row(n)
	if r.is(flagFlushing) {
		return dst
	}
	r.hourFlags |= flagFrozen | flagFlushing
	return append(dst, Row{Ref: r.ref, hour: int32(r.hour()), n: n})
}

// freezeOlder is freeze where there may be older rows. It walks the series' list once, however many are chosen: months
// of a series may wait to be written.
func (s *stripe) freezeOlder(dst []Row, at *slot, chosen []Row) []Row {
	from, reached := len(dst), map[int32]bool{} // hours of which the newest row chosen was seen
	for n := at.row; n != 0; n = s.row(n).next {
		r := s.row(n)
		row := Row{Ref: r.ref, hour: int32(r.hour()), n: n}
		if !reached[row.hour] {
			if _, found := slices.BinarySearchFunc(chosen, row, compareRows); !found {
				continue
			}
			reached[row.hour] = true
		}
		dst = s.freezeRow(dst, n)
	}
	slices.Reverse(dst[from:]) // those of one hour from the oldest to the newest
	slices.SortStableFunc(dst[from:], func(a, b Row) int { return cmp.Compare(a.hour, b.hour) })
	return dst
}

// Pressure sums the memory of rows by the power of two that their size is below: sizes[i] is that of the rows of less
// than 2^i bytes and at least half of it. It tells from which size on open rows must go to free enough.
func (h *Head) Pressure() (sizes [32]int64) {
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

// Load copies frozen rows of one stripe into the reader, replacing what it held.
func (h *Head) Load(d *Reader, rows []Row) {
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

// Columns unpacks the loaded rows [from, to), which must be of one series and hour: ascending, each timestamp once, the
// last written value. They are valid until the next call.
func (d *Reader) Columns(from, to int) ([]int64, []float64, error) { return d.columns(d.rows[from:to]) }

// PackedBytes is the packed size of loaded row i, a measure of what its run will need.
func (d *Reader) PackedBytes(i int) int {
	c := d.rows[i]
	return c.packed - c.packedFrom + (c.tail-c.tailFrom)*(valueBytes+offsetBytes)
}

// Free drops frozen rows, in the order that Freeze gave them, which the tables now hold.
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

// Thaw gives frozen rows, in the order that Freeze gave them, back after a failed flush. A row opens again unless it is
// full or a newer row of its series and hour exists; the others stay frozen and belong to the next flush.
func (h *Head) Thaw(rows []Row) {
	h.withSeries(rows, func(s *stripe, at *slot, rows []Row) {
		newest := s.newestByHour(at)
		for _, row := range rows {
			r := s.row(row.n)
			r.hourFlags &^= flagFlushing
			if r.packedBytes() <= h.opts.RowBytesMax && newest[row.hour] == row.n {
				r.hourFlags &^= flagFrozen
			}
		}
	})
}

// withSeries visits rows, those of one series next to each other, series by series under their stripe's lock, which it
// lets go now and then.
func (h *Head) withSeries(rows []Row, visit func(s *stripe, at *slot, rows []Row)) {
	for len(rows) > 0 {
		at, some := h.Stripe(rows[0].Ref), 0
		for some < min(len(rows), freezeBatch) && h.Stripe(rows[some].Ref) == at {
			some += sameSeries(rows[some:])
		}
		h.withStripe(&h.stripes[at], rows[:some], visit)
		rows = rows[some:]
	}
}

// sameSeries returns how many of the rows, from the first on, are of one series.
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
	bytes, count, samples := s.bytes, s.count, s.samples
	for len(rows) > 0 {
		n := sameSeries(rows)
		visit(s, h.slot(rows[0].Ref), rows[:n])
		rows = rows[n:]
	}
	h.bytes.Add(s.bytes - bytes)
	h.rows.Add(s.count - count)
	h.samples.Add(s.samples - samples)
}
