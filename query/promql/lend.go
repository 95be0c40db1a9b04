package promql

// lendSamplesMin is the number of samples of an entry from which a column of several places has it without a copy: each
// place costs an evaluation something.
const lendSamplesMin = 512

// lend makes a column of what was found of a series where that is lent, all of it or a part, and reports whether it did.
// What is copied nevertheless goes to the part.
func (s *search) lend(part *buffer, hits []hit) bool {
	series := int(hits[0].series)
	if !s.lends || s.p.wanted[series] != nil {
		return false
	}
	head := s.p.headOf(series)
	if len(head.tsMs) == 0 && s.lendOnly(hits) {
		return true
	}
	return s.lendSeveral(part, hits, head)
}

// lendOnly lends one entry, evenly spaced, if it is all there is, or nothing if there is nothing.
func (s *search) lendOnly(hits []hit) bool {
	var only *hit
	for i := range hits {
		if h := &hits[i]; h.from < h.end {
			if only != nil || h.shape.stepMs == 0 {
				return false
			}
			only = h
		}
	}
	s.know(hits)
	if only != nil {
		s.p.loan.take(only.place, only.end-only.from)
		s.p.columns[only.series].Samples = only.lent(s.words(only))
	}
	return true
}

func (s *search) words(h *hit) []uint64 { return s.u.table.words(h.place, h.shape.words()) }

// know marks the slots of hits as found, where their samples are not looked for.
func (s *search) know(hits []hit) {
	for i := range hits {
		s.p.slots[hits[i].slot].known = true
	}
}

// worthLending reports whether the samples of a hit may stay where they are.
func (h *hit) worthLending() bool { return h.shape.stepMs > 0 && h.end-h.from >= lendSamplesMin }

// lendSeveral makes a column of several places: of long entries as they are, of what is between them, copied, and behind
// them of what meets the head, which is left to join. It does not where the hours are to be kept together first.
func (s *search) lendSeveral(part *buffer, hits []hit, head columns) bool {
	series := int(hits[0].series)
	before := len(hits) // the head
	if len(head.tsMs) > 0 {
		for before > 0 && !s.endsBefore(&hits[before-1], head.tsMs[0]) {
			before--
		}
	}
	lends := false
	for i := range hits[:before] {
		lends = lends || hits[i].worthLending()
	}
	if !lends || s.mergeableOf(hits) != nil || !s.p.nothingToKeep(series) {
		return false
	}
	places := s.p.loan.places(len(hits) + 1)
	for i := 0; i < before; {
		n := 1
		switch h := &hits[i]; {
		case h.from == h.end:
		case h.worthLending():
			s.p.loan.take(h.place, h.end-h.from)
			places = append(places, h.lent(s.words(h)))
		default:
			for i+n < before && !hits[i+n].worthLending() {
				n++
			}
			places = append(places, s.copied(part, hits[i:i+n]))
		}
		i += n
	}
	s.know(hits[:before])
	s.copy(part, hits[before:])
	if len(head.tsMs) > 0 {
		s.p.loan.unfinished = append(s.p.loan.unfinished, series)
	}
	c := &s.p.columns[series]
	c.Samples, c.More = places[0], places[1:]
	return true
}

// endsBefore reports whether a hit has samples and all are older than that.
func (s *search) endsBefore(h *hit, tsMs int64) bool {
	from, _ := h.shape.within(s.words(h), h.startMs, window{tsMs, tsMs})
	return h.from < h.end && from >= h.end
}

// copied are the samples of neighbouring hits, copied to a part that has room for them.
func (s *search) copied(part *buffer, hits []hit) Samples {
	start := part.len()
	var t traits
	for i := range hits {
		h := &hits[i]
		if h.from == h.end {
			continue
		}
		n := part.len() - start
		part.appendEntry(h.shape, s.words(h), h.startMs, h.from, h.end)
		if next := h.shape.traits(); n == 0 {
			t = next
		} else {
			t = t.joined(next, n, columns{part.tsMs[start:], part.values[start:]})
		}
	}
	var out Samples
	end := part.len()
	out.set(columns{part.tsMs[start:end:end], part.values[start:end:end]}, t)
	return out
}
