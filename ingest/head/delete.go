package head

import (
	"halite/keyschema"
	"halite/keyschema/exemplar"
	"halite/keyschema/histchunk"
)

// Delete removes the samples of all kinds with mintMs ≤ time ≤ maxtMs of registered series, and the rows that become empty.
// It calls log, which writes the deletion to the log, then removes the samples, then calls done. Appends and reads of all
// series wait meanwhile. No flush may hold a row.
//
// It returns the number of removed samples; rewritten samples may count twice. If log fails, Delete changes nothing. After
// any other error some of the samples may remain.
func (h *Head) Delete(refs []uint32, mintMs, maxtMs int64, log func() error, done func()) (samples int64, err error) {
	for i := range h.stripes {
		h.stripes[i].mu.Lock()
		defer h.stripes[i].mu.Unlock()
	}
	if err := log(); err != nil {
		return 0, err
	}
	d := readers.Get().(*Reader)
	defer d.put()
	for _, ref := range refs {
		s := &h.stripes[h.Stripe(ref)]
		bytes, rows, count := s.bytes, s.count, s.samples
		err = h.deleteSamples(d, s, ref, mintMs, maxtMs)
		samples += count - s.samples
		h.addTotals(s, bytes, rows, count)
		if err != nil {
			return samples, err
		}
	}
	done()
	return samples, nil
}

// deleteSamples is Delete for one series. The caller holds the lock of its stripe.
func (h *Head) deleteSamples(d *Reader, s *stripe, ref uint32, mintMs, maxtMs int64) error {
	at := h.slot(ref)
	if at == nil {
		return nil
	}
	// When the newest row of an hour is removed, the map does not have the older rows of that hour.
	defer delete(s.places, ref)
	for n := at.row; n != 0; {
		r := s.row(n)
		next, startMs := r.next, keyschema.HourStartMs(r.hour())
		if startMs <= maxtMs && startMs+keyschema.HourMs > mintMs {
			if err := h.deleteFromRow(d, s, at, n, mintMs, maxtMs); err != nil {
				return err
			}
		}
		n = next
	}
	return nil
}

// deleteFromRow removes samples from a row: it empties the row and adds the remaining samples again.
func (h *Head) deleteFromRow(d *Reader, s *stripe, at *slot, n uint32, mintMs, maxtMs int64) error {
	r := s.row(n)
	d.reset()
	d.copyRow(s, r)
	left, deleted, err := d.remaining(r.kind(), mintMs, maxtMs)
	if err != nil || !deleted {
		return err
	}
	full := r.packedBytes() > h.opts.RowBytesMax
	if full {
		h.sealed.Add(-1)
	}
	if left.count() == 0 {
		s.unlink(at, n)
		return nil
	}
	s.release(r)
	*r = row{
		ref: r.ref, next: r.next, prev: r.prev, newestAhead: r.newestAhead, segment: r.segment, madeTick: r.madeTick,
		latest: r.latest & lowMask, hourFlags: r.hourFlags & (placeMask | flagFrozen | flagHasOlder),
	}
	s.bytes += s.memory(r)
	if err := left.addTo(h, s, r); err != nil {
		return err
	}
	if full && s.newestOf(at, r.place()) == n {
		r.hourFlags &^= flagFrozen
	}
	h.sealFull(r) // a row that was not full may be full now: chunks with gaps take more bytes
	return nil
}

// remainder is what a deletion leaves of a row: floats or records.
type remainder struct {
	tsMs    []int64
	values  []float64
	records []Record
}

func (l *remainder) count() int { return len(l.tsMs) + len(l.records) }

// addTo adds the samples to an empty row.
func (l *remainder) addTo(h *Head, s *stripe, r *row) error {
	startMs := keyschema.HourStartMs(r.hour())
	for i, ts := range l.tsMs {
		if err := s.add(r, uint32(ts-startMs), l.values[i]); err != nil {
			return err
		}
	}
	for i := range l.records {
		if err := h.addRecord(s, r, uint32(l.records[i].TsMs-startMs), l.records[i].Data); err != nil {
			return err
		}
	}
	return nil
}

// remaining returns the samples of the copied row outside [mintMs, maxtMs], and whether there are samples inside.
func (d *Reader) remaining(kind keyschema.SampleKind, mintMs, maxtMs int64) (left remainder, deleted bool, err error) {
	deletes := func(tsMs int64) bool {
		deleted = deleted || mintMs <= tsMs && tsMs <= maxtMs
		return mintMs <= tsMs && tsMs <= maxtMs
	}
	switch kind {
	case keyschema.Histograms:
		samples, err := d.unpackHistograms(d.rows)
		for _, s := range samples {
			if tsMs := s.TsMs; !deletes(tsMs) {
				s.TsMs = 0
				left.records = append(left.records, Record{TsMs: tsMs, Data: histchunk.AppendRecord(nil, s)})
			}
		}
		return left, deleted, err
	case keyschema.Exemplars:
		exemplars, err := d.unpackExemplars(d.rows)
		for _, e := range exemplars {
			if tsMs := e.TsMs; !deletes(tsMs) {
				e.TsMs = 0
				left.records = append(left.records, Record{TsMs: tsMs, Data: exemplar.AppendRecord(nil, e)})
			}
		}
		return left, deleted, err
	}
	tsMs, values, err := d.columns(d.rows)
	for i, ts := range tsMs {
		if !deletes(ts) {
			left.tsMs, left.values = append(left.tsMs, ts), append(left.values, values[i])
		}
	}
	return left, deleted, err
}

// newestOf returns the newest row of a series, hour and kind, or 0 if there is none. Only this row takes samples.
func (s *stripe) newestOf(at *slot, where place) uint32 {
	n := at.row
	for n != 0 && s.row(n).place() != where {
		n = s.row(n).next
	}
	return n
}

// Hours calls visit with a function that reports whether the series has a row of an hour. The stripe of the series is locked
// meanwhile.
func (h *Head) Hours(ref uint32, visit func(has func(hour int64) bool)) {
	s := &h.stripes[h.Stripe(ref)]
	s.mu.Lock()
	defer s.mu.Unlock()
	hours := map[int64]struct{}{}
	if at := h.slot(ref); at != nil {
		for n := at.row; n != 0; n = s.row(n).next {
			hours[s.row(n).hour()] = struct{}{}
		}
	}
	visit(func(hour int64) bool {
		_, has := hours[hour]
		return has
	})
}
