package promjson

import "github.com/prometheus/prometheus/promql"

// timeText caches the text of a matrix's points up to their values, such as [1700000000,". The series of a range query have
// points at the same steps, so each time is formatted once and copied for all other series.
type timeText struct {
	tsMs []int64 // ascending
	ends []int   // ends[i] is the end of tsMs[i] in text
	text []byte
}

// newTimeText returns an empty timeText for m. For a single series it returns nil, which caches nothing.
func newTimeText(m promql.Matrix) *timeText {
	if len(m) < 2 {
		return nil
	}
	n := len(m[0].Floats)
	return &timeText{tsMs: make([]int64, 0, n), ends: make([]int, 0, n), text: make([]byte, 0, n*len(`[1700000000.000,"`))}
}

// appendTo appends a point up to the quote before its value. The times of a series come in ascending order. For its first
// point, at is 0; for each other point, at is the number that the call before returned.
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
	return append(AppendTimestamp(append(dst, '['), tsMs), ',', '"')
}
