package api

import "github.com/prometheus/prometheus/promql"

// timeText is the text of a matrix's points up to their values, such as [1700000000,". The series of a range query have
// points at the same steps, so that each time is put into digits once and copied for all other series.
type timeText struct {
	tsMs []int64 // ascending
	ends []int   // of each one's text
	text []byte
}

// newTimeText returns a timeText for m, without any times yet; nil, which keeps none, if there are no others to copy for.
func newTimeText(m promql.Matrix) *timeText {
	if len(m) < 2 {
		return nil
	}
	n := len(m[0].Floats)
	return &timeText{tsMs: make([]int64, 0, n), ends: make([]int, 0, n), text: make([]byte, 0, n*len(`[1700000000.000,"`))}
}

// appendTo appends a point up to the quote before its value. Times are asked for in ascending order for each series; at is
// 0 for its first, and what was returned with the one before for the others.
func (t *timeText) appendTo(dst []byte, at int, tsMs int64) ([]byte, int) {
	if t == nil {
		return appendPointTime(dst, tsMs), 0
	}
	for at < len(t.tsMs) && t.tsMs[at] < tsMs {
		at++
	}
	if at == len(t.tsMs) {
		t.tsMs = append(t.tsMs, tsMs)
		t.text = appendPointTime(t.text, tsMs)
		t.ends = append(t.ends, len(t.text))
	} else if t.tsMs[at] != tsMs {
		return appendPointTime(dst, tsMs), at // a series before this one had gaps here
	}
	from := 0
	if at > 0 {
		from = t.ends[at-1]
	}
	return append(dst, t.text[from:t.ends[at]]...), at + 1
}

func appendPointTime(dst []byte, tsMs int64) []byte {
	return append(appendTimestamp(append(dst, '['), tsMs), ',', '"')
}
