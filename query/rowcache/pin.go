package rowcache

import (
	"halite/query/column"
)

// pinSamplesMin is the least number of samples of an entry that is pinned as a segment of a column. Shorter entries are
// copied, because each segment costs the evaluation some time.
const pinSamplesMin = 512

// pin makes the column of a series from its hits if it can pin some of their samples. It copies the others to the part. It
// reports whether it made the column.
func (l *Lookup) pin(part *column.Buffer, hits []hit) bool {
	series := int(hits[0].series)
	if !l.Pin || l.missing[series] != nil {
		return false
	}
	head := l.Head(series)
	if len(head.TsMs) == 0 && l.pinOnly(hits) {
		return true
	}
	return l.pinSegments(part, hits, head)
}

// pinOnly makes a column from a single evenly spaced entry, or an empty column if there is no entry.
func (l *Lookup) pinOnly(hits []hit) bool {
	var only *hit
	for i := range hits {
		if h := &hits[i]; h.from < h.end {
			if only != nil || h.layout.stepMs == 0 {
				return false
			}
			only = h
		}
	}
	l.markFound(hits)
	if only != nil {
		l.pins.add(only.place, only.end-only.from)
		l.columns[only.series].Samples = only.pinned(l.words(only))
	}
	return true
}

func (l *Lookup) words(h *hit) []uint64 { return l.cache.table.words(h.place, h.layout.words()) }

// markFound marks the rows of hits as found.
func (l *Lookup) markFound(hits []hit) {
	for i := range hits {
		l.Rows.All[hits[i].row].Found = true
	}
}

// worthPinning reports whether the samples of a hit are worth a separate segment.
func (h *hit) worthPinning() bool { return h.layout.stepMs > 0 && h.end-h.from >= pinSamplesMin }

// pinSegments makes a column of several segments. It pins long entries and copies the samples between them. It copies samples
// that overlap with the head to the part, and the caller joins them. It makes no column if the look-up still has to cache
// blocks or merged entries of the series.
func (l *Lookup) pinSegments(part *column.Buffer, hits []hit, head column.Points) bool {
	series := int(hits[0].series)
	before := len(hits) // these hits end before the head
	if len(head.TsMs) > 0 {
		for before > 0 && !l.endsBefore(&hits[before-1], head.TsMs[0]) {
			before--
		}
	}
	any := false
	for i := range hits[:before] {
		any = any || hits[i].worthPinning()
	}
	if !any || l.mergeableOf(hits) != nil || l.AnyToPut(series) {
		return false
	}
	segments := l.pins.newSegments(len(hits) + 1)
	for i := 0; i < before; {
		n := 1
		switch h := &hits[i]; {
		case h.from == h.end:
		case h.worthPinning():
			l.pins.add(h.place, h.end-h.from)
			segments = append(segments, h.pinned(l.words(h)))
		default:
			for i+n < before && !hits[i+n].worthPinning() {
				n++
			}
			segments = append(segments, l.copySegment(part, hits[i:i+n]))
		}
		i += n
	}
	l.markFound(hits[:before])
	l.copyHits(part, hits[before:])
	if len(head.TsMs) > 0 {
		l.pins.unfinished = append(l.pins.unfinished, series)
	}
	c := &l.columns[series]
	c.Samples, c.Segments = segments[0], segments[1:]
	return true
}

// endsBefore reports whether a hit has samples, all before a time.
func (l *Lookup) endsBefore(h *hit, tsMs int64) bool {
	from, _ := h.layout.within(l.words(h), h.startMs, column.TimeRange{MinMs: tsMs, MaxMs: tsMs})
	return h.from < h.end && from >= h.end
}

// copySegment copies the samples of neighbouring hits to a part, which has room for them.
func (l *Lookup) copySegment(part *column.Buffer, hits []hit) column.Samples {
	start := part.Len()
	var t column.Properties
	for i := range hits {
		h := &hits[i]
		if h.from == h.end {
			continue
		}
		at := part.Len()
		h.layout.appendTo(part, l.words(h), h.startMs, h.from, h.end)
		t = part.Join(t, h.layout.properties(), start, at)
	}
	var out column.Samples
	end := part.Len()
	out.Set(column.Points{TsMs: part.TsMs[start:end:end], Values: part.Values[start:end:end]}, t)
	return out
}

// pinned returns the evenly spaced samples of a hit, in the memory of the cache.
func (h *hit) pinned(words []uint64) column.Samples {
	t := h.layout.properties()
	return column.Samples{
		Values:  valuesIn(words, h.layout.len())[h.from:h.end:h.end],
		FirstMs: h.startMs + int64(h.layout.firstMs) + int64(h.from)*t.StepMs,
		StepMs:  t.StepMs, NoStale: t.NoStale, Monotonic: t.Monotonic,
		Resets: h.layout.resetsIn(words), ResetsOffset: h.from,
	}
}
