package head

import (
	"slices"

	"halite/keyschema"
)

// Delete removes the samples with mintMs ≤ time ≤ maxtMs of registered series, and the rows that become empty. It calls log,
// which writes the deletion to the log, then removes the samples, then calls done. Appends and reads of all series wait
// meanwhile. No flush may hold a row.
//
// It returns the number of removed samples; samples that were written again may count twice. If log fails, Delete changes
// nothing. After any other error some of the samples may remain.
func (h *Head) Delete(refs []uint32, mintMs, maxtMs int64, log func() error, done func()) (samples int64, err error) {
	for i := range h.stripes {
		h.stripes[i].mu.Lock()
		defer h.stripes[i].mu.Unlock()
	}
	if err := log(); err != nil {
		return 0, err
	}
	d := readers.Get().(*Reader)
	defer readers.Put(d)
	for _, ref := range refs {
		s := &h.stripes[h.Stripe(ref)]
		bytes, rows, count := s.bytes, s.count, s.samples
		err = h.deleteSamples(d, s, ref, mintMs, maxtMs)
		samples += count - s.samples
		h.bytes.Add(s.bytes - bytes)
		h.rows.Add(s.count - rows)
		h.samples.Add(s.samples - count)
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
	// If the newest row of an hour goes, the map misses the older rows of that hour.
	defer delete(s.hours, ref)
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
	tsMs, values, err := d.columns(d.rows)
	if err != nil {
		return err
	}
	from, _ := slices.BinarySearch(tsMs, mintMs)
	to, _ := slices.BinarySearch(tsMs, maxtMs+1)
	if from == to {
		return nil
	}
	full := r.packedBytes() > h.opts.RowBytesMax
	if full {
		h.sealed.Add(-1)
	}
	if from == 0 && to == len(tsMs) {
		s.unlink(at, n)
		return nil
	}
	s.release(r)
	*r = row{
		ref: r.ref, next: r.next, prev: r.prev, newestAhead: r.newestAhead, segment: r.segment, madeTick: r.madeTick,
		latest: r.latest & lowMask, hourFlags: r.hourFlags & (^uint32(lowMask) | flagFrozen | flagHasOlder),
	}
	s.bytes += s.memory(r)
	startMs := keyschema.HourStartMs(r.hour())
	for i, ts := range tsMs {
		if i >= from && i < to {
			continue
		}
		if err := s.add(r, uint32(ts-startMs), values[i]); err != nil {
			return err
		}
	}
	if full && r.packedBytes() > h.opts.RowBytesMax {
		h.sealed.Add(1)
	} else if full && s.newestOf(at, r.hour()) == n {
		r.hourFlags &^= flagFrozen
	}
	return nil
}

// newestOf returns the newest row of a series and hour, the only one that takes samples; 0 if there is none.
func (s *stripe) newestOf(at *slot, hour int64) uint32 {
	n := at.row
	for n != 0 && s.row(n).hour() != hour {
		n = s.row(n).next
	}
	return n
}

// Hours calls visit with a function that reports whether the series has a row of an hour. The series' stripe is locked
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
