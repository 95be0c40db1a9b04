package head

import (
	"cmp"
	"math"
	"slices"
)

// Row names a row that a flush has in its hands.
type Row struct {
	Ref  uint32
	Hour int64
	seq  uint32
	n    uint32
}

// RowInfo describes a row to the one who chooses what to flush.
type RowInfo struct {
	Ref  uint32
	Hour int64
	// Bytes is the memory that flushing frees.
	Bytes int64
	// Samples were stored in the row.
	Samples int
	// MadeTick and LastTick are the ticks of the first and last sample's arrival.
	MadeTick, LastTick uint32
	// Frozen rows wait since an earlier flush failed, or because they grew too large.
	Frozen bool
}

// freezeBatch is the number of rows looked at within one hold of a stripe's lock, so that writers never wait for long.
const freezeBatch = 2048

// Freeze closes the rows of a stripe that pick chooses and appends them to dst, ordered by series, hour and creation.
// Older rows of the same series and hour come along, so that the table never gets them in the wrong order. Frozen rows
// stay readable until Free; those already in the hands of a flush are left out. pick is called under the lock.
func (h *Head) Freeze(dst []Row, stripe int, pick func(RowInfo) bool) []Row {
	s := &h.stripes[stripe]
	from := len(dst)
	for next := uint32(1); next != 0; {
		dst, next = h.freezeSome(dst, s, next, pick)
	}
	slices.SortFunc(dst[from:], func(a, b Row) int {
		if c := cmp.Compare(a.Ref, b.Ref); c != 0 {
			return c
		}
		if c := cmp.Compare(a.Hour, b.Hour); c != 0 {
			return c
		}
		return compareSeq(a.seq, b.seq)
	})
	return dst
}

func (h *Head) freezeSome(dst []Row, s *stripe, first uint32, pick func(RowInfo) bool) (rows []Row, next uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	last := min(s.made, first+freezeBatch-1)
	for n := first; n <= last; n++ {
		r := s.row(n)
		if r.ref == 0 || r.flags&flagFlushing != 0 || !pick(RowInfo{
			Ref: r.ref, Hour: int64(r.hour), Bytes: s.memory(r), Samples: int(r.samples),
			MadeTick: r.madeTick, LastTick: r.lastTick, Frozen: !r.open(),
		}) {
			continue
		}
		for m := h.slot(r.ref).row; m != 0; {
			other := s.row(m)
			if other.hour == r.hour && other.flags&flagFlushing == 0 && compareSeq(other.seq, r.seq) <= 0 {
				other.flags |= flagFrozen | flagFlushing
				dst = append(dst, Row{Ref: other.ref, Hour: int64(other.hour), seq: other.seq, n: m})
			}
			m = other.next
		}
	}
	if last == s.made {
		return dst, 0
	}
	return dst, last + 1
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
	return c.packed - c.packedFrom + (c.tail-c.tailFrom)*tailSampleBytes
}

// Free drops frozen rows of one stripe, which the tables now hold.
func (h *Head) Free(rows []Row) {
	h.withRows(rows, func(s *stripe, n uint32, r *row) {
		if int(r.packedBytes) > h.opts.RowBytesMax {
			h.sealed.Add(-1)
		}
		s.unlink(h.slot(r.ref), n)
	})
}

// Thaw gives frozen rows of one stripe back after a failed flush. A row opens again unless it is full or a newer row of
// its series and hour exists; the others stay frozen and belong to the next flush.
func (h *Head) Thaw(rows []Row) {
	h.withRows(rows, func(s *stripe, _ uint32, r *row) {
		r.flags &^= flagFlushing
		if int(r.packedBytes) > h.opts.RowBytesMax {
			return
		}
		for m := h.slot(r.ref).row; m != 0; {
			other := s.row(m)
			if other.hour == r.hour && compareSeq(other.seq, r.seq) > 0 {
				return
			}
			m = other.next
		}
		r.flags &^= flagFrozen
	})
}

// withRows visits rows of one stripe under its lock, which it lets go now and then.
func (h *Head) withRows(rows []Row, visit func(s *stripe, n uint32, r *row)) {
	for len(rows) > 0 {
		some := rows[:min(len(rows), freezeBatch)]
		s := &h.stripes[h.Stripe(rows[0].Ref)]
		s.mu.Lock()
		bytes, count, samples := s.bytes, s.count, s.samples
		for _, row := range some {
			visit(s, row.n, s.row(row.n))
		}
		h.bytes.Add(s.bytes - bytes)
		h.rows.Add(s.count - count)
		h.samples.Add(s.samples - samples)
		s.mu.Unlock()
		rows = rows[len(some):]
	}
}
