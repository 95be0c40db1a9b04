package bigtable

import (
	"cmp"
	"slices"

	gcp "cloud.google.com/go/bigtable"

	"halite/storage"
)

// spanOverheadBytes is the size of a range in a request, not counting its keys.
const spanOverheadBytes = 12

// span is a range of keys [start, end); an empty end is unbounded.
type span struct {
	start, end string
}

// isKey reports whether the span has exactly one key.
func (s span) isKey() bool {
	return len(s.end) == len(s.start)+1 && s.end[:len(s.start)] == s.start && s.end[len(s.start)] == 0
}

// keyBytes and rangeBytes are the approximate sizes of the span in a request: as a key, and as a range.
func (s span) keyBytes() int   { return len(s.start) + spanOverheadBytes }
func (s span) rangeBytes() int { return len(s.start) + len(s.end) + 2*spanOverheadBytes }

// spansOf converts a row set to disjoint ascending spans.
func spansOf(set storage.RowSet) []span {
	spans := make([]span, 0, len(set.Keys)+len(set.Ranges))
	for _, k := range set.Keys {
		if len(k) > 0 {
			spans = append(spans, span{start: string(k), end: string(k) + "\x00"})
		}
	}
	for _, r := range set.Ranges {
		if len(r.End) == 0 || string(r.Start) < string(r.End) {
			spans = append(spans, span{start: string(r.Start), end: string(r.End)})
		}
	}
	slices.SortFunc(spans, func(a, b span) int { return cmp.Compare(a.start, b.start) })
	out := spans[:0]
	for _, s := range spans {
		last := len(out) - 1
		if last < 0 || out[last].end != "" && out[last].end < s.start {
			out = append(out, s)
			continue
		}
		if out[last].end != "" && (s.end == "" || s.end > out[last].end) {
			out[last].end = s.end
		}
	}
	return out
}

// batchesOf divides spans into requests, in the order of the scan.
func batchesOf(spans []span, bytesMax int, reverse bool) [][]span {
	var out [][]span
	for from := 0; from < len(spans); {
		// If a request has any range, all its keys go as ranges, see rowSetOf.
		to, keyBytes, rangeBytes, keys := from, 0, 0, true
		for ; to < len(spans); to++ {
			keys = keys && spans[to].isKey()
			keyBytes += spans[to].keyBytes()
			rangeBytes += spans[to].rangeBytes()
			if to > from && (keys && keyBytes > bytesMax || !keys && rangeBytes > bytesMax) {
				break
			}
		}
		out = append(out, spans[from:to:to])
		from = to
	}
	if reverse {
		slices.Reverse(out)
	}
	return out
}

// restOf returns the spans, or parts of them, that a scan still has to read after the row last.
func restOf(spans []span, last string, reverse bool) []span {
	var out []span
	for _, s := range spans {
		if reverse {
			if s.end == "" || s.end > last {
				s.end = last
			}
		} else if s.start <= last {
			s.start = last + "\x00"
		}
		if s.end == "" && !reverse || s.start < s.end {
			out = append(out, s)
		}
	}
	return out
}

// rowSetOf converts spans for the client: to keys if all spans are keys, otherwise to ranges.
func rowSetOf(spans []span) gcp.RowSet {
	if !slices.ContainsFunc(spans, func(s span) bool { return !s.isKey() }) {
		keys := make(gcp.RowList, len(spans))
		for i, s := range spans {
			keys[i] = s.start
		}
		return keys
	}
	ranges := make(gcp.RowRangeList, len(spans))
	for i, s := range spans {
		ranges[i] = gcp.NewRange(s.start, s.end)
	}
	return ranges
}
