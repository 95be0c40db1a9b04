package head

import (
	"sort"

	"halite/keyschema"
)

// batchGroup is the number of series whose rows are copied under one lock of a stripe. Their cache misses overlap.
const batchGroup = 64

// batch is the state of a Reader that copies several series.
type batch struct {
	keyschema.SampleWindow
	// order has the positions of the series, sorted by stripe. starts has the end of each stripe's part, and later its
	// start.
	order  []uint32
	starts []int
	// extents has the rows of each series in Reader.rows.
	extents    []extent
	prefetched uint8 // so that the compiler keeps the loads
}

// extent locates the rows of a series. fromMs is its time in SampleWindow.FromMs, or −1.
type extent struct {
	from, n uint32
	fromMs  int64
}

// AppendSamples appends the floats of a series in [mintMs, maxtMs] to the two columns. Timestamps ascend without duplicates;
// the last written value wins. It sees every Append that has returned and every row that is not yet freed.
func (h *Head) AppendSamples(
	ref uint32, mintMs, maxtMs int64, tsMs []int64, values []float64,
) ([]int64, []float64, error) {
	tsMs, values, _, err := h.AppendBatch([]uint32{ref}, keyschema.SampleWindow{MinMs: mintMs, MaxMs: maxtMs}, tsMs, values, nil)
	return tsMs, values, err
}

// AppendStartTimes is AppendSamples for start times. A value is the start timestamp, in milliseconds since 1970, of the
// sample with the same series and time. It is free if the head has no start times.
func (h *Head) AppendStartTimes(
	ref uint32, mintMs, maxtMs int64, tsMs []int64, values []float64,
) ([]int64, []float64, error) {
	w := keyschema.SampleWindow{MinMs: mintMs, MaxMs: maxtMs, Kind: keyschema.StartTimes}
	tsMs, values, _, err := h.AppendBatch([]uint32{ref}, w, tsMs, values, nil)
	return tsMs, values, err
}

// AppendBatch is AppendSamples for several series, one after the other. It appends the end of each series in the columns to
// ends. A ref that is not registered has no samples.
func (h *Head) AppendBatch(
	refs []uint32, w keyschema.SampleWindow, tsMs []int64, values []float64, ends []int,
) ([]int64, []float64, []int, error) {
	d := readers.Get().(*Reader)
	defer d.putBatch()
	d.reset()
	b := &d.batch
	b.SampleWindow = w
	if w.MinMs <= w.MaxMs && h.HasKind(w.Kind) {
		d.copyBatch(h, refs)
	} else {
		b.extents = append(b.extents[:0], make([]extent, len(refs))...)
	}
	for _, e := range b.extents {
		var err error
		if tsMs, values, err = d.appendSeries(e, tsMs, values); err != nil {
			return tsMs, values, ends, err
		}
		ends = append(ends, len(tsMs))
	}
	return tsMs, values, ends, nil
}

// keptBytesMax is the largest size of copied chunks whose memory a reader keeps.
const keptBytesMax = 4 << 20

// putBatch keeps the reader of a batch for reuse.
func (d *Reader) putBatch() {
	if cap(d.packed) > keptBytesMax {
		d.packed = nil
	}
	d.batch.FromMs = nil
	readers.Put(d)
}

// appendSeries appends the samples of a copied series that are in the window.
func (d *Reader) appendSeries(e extent, tsMs []int64, values []float64) ([]int64, []float64, error) {
	rows := d.rows[e.from : e.from+e.n]
	sortRows(rows)
	for len(rows) > 0 {
		n, from := sameHourRows(rows), len(tsMs)
		var err error
		if tsMs, values, err = d.appendRows(rows[:n], tsMs, values); err != nil {
			return tsMs, values, err
		}
		first, end := d.batch.within(tsMs[from:], d.batch.from(rows[0].hour, e.fromMs))
		tsMs = tsMs[:from+copy(tsMs[from:], tsMs[from+first:from+end])]
		values = values[:from+copy(values[from:], values[from+first:from+end])]
		rows = rows[n:]
	}
	return tsMs, values, nil
}

// from returns the first requested time of an hour.
func (b *batch) from(hour, fromMs int64) int64 {
	if keyschema.HourOf(fromMs) == hour {
		return fromMs
	}
	return b.MinMs
}

// within returns the bounds of the requested part of ascending times of one hour. fromMs is the first requested time.
func (b *batch) within(tsMs []int64, fromMs int64) (first, end int) {
	end = len(tsMs)
	if end > 0 && tsMs[end-1] > b.MaxMs {
		end = sort.Search(end, func(i int) bool { return tsMs[i] > b.MaxMs })
	}
	if end > 0 && tsMs[0] < fromMs {
		first = sort.Search(end, func(i int) bool { return tsMs[i] >= fromMs })
	}
	if b.NewestOnly {
		first = max(first, end-1)
	}
	return first, end
}

// needs returns an offset in an hour. A read of a sorted row needs the newest sample at or before it, and all later samples.
func (b *batch) needs(hour, fromMs int64) uint32 {
	from := b.from(hour, fromMs)
	if b.NewestOnly {
		from = b.MaxMs
	}
	return uint32(max(0, min(from-keyschema.HourStartMs(hour), keyschema.HourMs-1)))
}

// copyBatch copies the rows of several series that reach into the window, stripe by stripe.
func (d *Reader) copyBatch(h *Head, refs []uint32) {
	b, chunks := &d.batch, *h.slots.Load()
	b.sort(h, refs)
	for stripe := range h.stripes {
		s, order := &h.stripes[stripe], b.order[b.starts[stripe]:b.starts[stripe+1]]
		for len(order) > 0 {
			n := min(len(order), batchGroup)
			s.mu.RLock()
			d.copyGroup(s, chunks, refs, order[:n])
			s.mu.RUnlock()
			order = order[n:]
		}
	}
}

// sort sorts the positions of the refs by stripe.
func (b *batch) sort(h *Head, refs []uint32) {
	b.extents = append(b.extents[:0], make([]extent, len(refs))...)
	b.order = append(b.order[:0], make([]uint32, len(refs))...)
	b.starts = append(b.starts[:0], make([]int, h.Stripes()+1)...)
	for _, ref := range refs {
		b.starts[h.Stripe(ref)]++
	}
	// From counts to ends. Filling from the back turns the ends into starts.
	end := 0
	for i, n := range b.starts {
		end += n
		b.starts[i] = end
	}
	for i := len(refs) - 1; i >= 0; i-- {
		at := &b.starts[h.Stripe(refs[i])]
		*at--
		b.order[*at] = uint32(i)
	}
}

// copyGroup copies the rows of a few series. The caller holds the stripe's lock.
func (d *Reader) copyGroup(s *stripe, chunks []*slotChunk, refs, positions []uint32) {
	var (
		first  [batchGroup]uint32
		fromMs [batchGroup]int64
	)
	for i, position := range positions {
		ref := refs[position]
		fromMs[i] = -1
		if d.batch.FromMs != nil {
			fromMs[i] = d.batch.FromMs[position]
		}
		if at := int(ref >> slotShift); at < len(chunks) && chunks[at] != nil {
			first[i] = chunks[at][ref&(slotChunkSize-1)].row
		}
	}
	d.prefetch(s, first[:len(positions)], fromMs[:])
	for i, position := range positions {
		e := extent{from: uint32(len(d.rows)), fromMs: fromMs[i]}
		for n := first[i]; n != 0; {
			r := s.row(n)
			startMs := keyschema.HourStartMs(r.hour())
			if startMs <= d.batch.MaxMs && startMs+keyschema.HourMs > d.batch.MinMs && r.kind() == d.batch.Kind {
				if e.fromMs >= 0 && keyschema.HourOf(e.fromMs) == r.hour() && r.is(flagUnsorted|flagHasOlder|flagFrozen) {
					e.fromMs, d.batch.FromMs[position] = -1, -1 // older rows of the hour follow in the list
				}
				d.copyRecent(s, r, e.fromMs)
			}
			n = r.next
		}
		e.n = uint32(len(d.rows)) - e.from
		d.batch.extents[position] = e
	}
}

// copyRecent copies the part of a row that the window needs.
func (d *Reader) copyRecent(s *stripe, r *row, fromMs int64) {
	offset := d.batch.needs(r.hour(), fromMs)
	c := rowCopy{hour: r.hour(), floats: true, unsorted: r.is(flagUnsorted), packedFrom: len(d.packed), tailFrom: len(d.tailMs)}
	skip := 0
	switch {
	case c.unsorted:
		d.packed = s.appendPacked(d.packed, r)
	case !s.tailReaches(r, offset):
		d.packed = s.appendRecent(d.packed, r, offset, &d.decoder)
	default:
		skip = s.tail(r).upTo(offset, r.tailLen()) - 1
	}
	d.tailMs, d.tailValues = s.appendTail(r, skip, d.tailMs, d.tailValues)
	c.packed, c.tail = len(d.packed), len(d.tailMs)
	d.rows = append(d.rows, c)
}

// tailReaches reports whether the tail of a sorted row has a sample at or before an offset.
func (s *stripe) tailReaches(r *row, offset uint32) bool {
	return r.tailLen() > 0 && s.tail(r).offset(0) <= offset
}

// prefetch loads the rows of a few series before their use, so that their cache misses overlap. It loads the rows, then
// their tails, then one block of each chain in turn.
func (d *Reader) prefetch(s *stripe, first []uint32, fromMs []int64) {
	prefetched := uint8(0)
	for _, n := range first {
		if n != 0 {
			prefetched += uint8(s.row(n).counts)
		}
	}
	for _, n := range first {
		if n != 0 && s.row(n).tail != 0 {
			r := s.row(n)
			t := s.tail(r)
			prefetched += t[valueBytes*max(0, min(r.tailLen(), t.places())-1)] + t[len(t)-1]
		}
	}
	var chains [batchGroup]chainWalk
	walking := chains[:0]
	for i, n := range first {
		if n == 0 {
			continue
		}
		r := s.row(n)
		offset := d.batch.needs(r.hour(), fromMs[i])
		if r.packedLast != 0 && r.floats() && (r.is(flagUnsorted) || !s.tailReaches(r, offset)) {
			walking = append(walking, chainWalk{r.packedLast, r.blocksFrom(offset)})
		}
	}
	for len(walking) > 0 {
		left := walking[:0]
		for _, w := range walking {
			block := s.packedBlock(w.next)
			w.next, w.blocks = link(block), w.blocks-1
			prefetched += block[len(block)-1]
			if w.next != 0 && w.blocks > 0 {
				left = append(left, w)
			}
		}
		walking = left
	}
	d.batch.prefetched = prefetched
}

// chainWalk is a position in a chain and the number of blocks to load.
type chainWalk struct {
	next   blockID
	blocks int
}

// blocksFrom estimates how many blocks of the chain hold the samples from an offset on.
func (r *row) blocksFrom(offset uint32) int {
	if r.is(flagUnsorted) {
		return int(r.blocks)
	}
	return 1 + int(r.blocks)*int(r.maxOffset()-min(offset, r.maxOffset()))/int(r.maxOffset()+1)
}
