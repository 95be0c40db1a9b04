package tools

import (
	"encoding/binary"
	"math"
	"strconv"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"

	"halite/api/receiver/opentsdb"
	"halite/keyschema/tsuid"
)

// storedEncoder writes rows and cells as OpenTSDB would store them: one row for each series and hour, one cell for each data
// point.
type storedEncoder struct {
	zone   *time.Location // of dates
	left   opentsdb.Omitted
	id     []byte
	metric string
	tags   string
	body   []byte
	base   int64 // of the last row, in seconds; -1 before the first
	rows   int
}

func (e *storedEncoder) omitted() *opentsdb.Omitted { return &e.left }

// Begin implements transfer.Encoder.
func (e *storedEncoder) Begin(series labels.Labels) {
	e.id, e.metric, e.base = tsuid.Append(e.id[:0], series), series.Get(model.MetricNameLabel), -1
	e.tags = string(appendTags(nil, labels.NewBuilder(series).Del(model.MetricNameLabel).Labels()))
}

// Flags of a cell. The other three bits are the number of bytes of the value, less one.
const (
	floatFlag        = 0x8
	millisecondsFlag = 0xF0000000
)

// rowSeconds is the time that a row spans.
const rowSeconds = 3600

// Float implements transfer.Encoder.
func (e *storedEncoder) Float(tsMs int64, v float64) {
	switch {
	case value.IsStaleNaN(v):
		return
	case tsMs < 0 || tsMs/1000 > math.MaxUint32:
		e.left.Early++
		return
	}
	seconds := tsMs / 1000
	if base := seconds - seconds%rowSeconds; base != e.base {
		e.base = base
		e.appendRow()
	}
	cell, flags := cellOf(v)
	var qualifier []byte
	shown, offset := seconds, seconds-e.base
	if tsMs%1000 == 0 {
		qualifier = binary.BigEndian.AppendUint16(nil, uint16(offset<<4)|flags)
	} else {
		shown, offset = tsMs, tsMs-1000*e.base
		qualifier = binary.BigEndian.AppendUint32(nil, millisecondsFlag|uint32(offset<<6)|uint32(flags))
	}
	kind := byte('l')
	if flags&floatFlag != 0 {
		kind = 'f'
	}
	e.body = append(appendBytes(append(e.body, "  "...), qualifier), '\t')
	e.body = append(appendBytes(e.body, cell), '\t')
	e.body = append(strconv.AppendInt(e.body, offset, 10), '\t', kind, '\t')
	e.body = append(e.appendDate(append(strconv.AppendInt(e.body, shown, 10), '\t'), tsMs), '\n')
	e.rows++
}

// cellOf returns the bytes of a value and the flags of its cell.
func cellOf(v float64) (cell []byte, flags uint16) {
	if math.Trunc(v) == v && math.Abs(v) < 1<<53 && (v != 0 || !math.Signbit(v)) {
		cell = binary.BigEndian.AppendUint64(nil, uint64(int64(v)))
		switch whole := int64(v); {
		case whole == int64(int8(whole)):
			cell = cell[7:]
		case whole == int64(int16(whole)):
			cell = cell[6:]
		case whole == int64(int32(whole)):
			cell = cell[4:]
		}
		return cell, uint16(len(cell) - 1)
	}
	if single := float32(v); float64(single) == v {
		cell = binary.BigEndian.AppendUint32(nil, math.Float32bits(single))
	} else {
		cell = binary.BigEndian.AppendUint64(nil, math.Float64bits(v))
	}
	return cell, floatFlag | uint16(len(cell)-1)
}

// appendRow appends the line of a row: its key, metric, time and tags.
func (e *storedEncoder) appendRow() {
	key := binary.BigEndian.AppendUint32(append([]byte(nil), e.id[:tsuid.Width]...), uint32(e.base))
	e.body = append(appendBytes(e.body, append(key, e.id[tsuid.Width:]...)), ' ')
	e.body = append(append(e.body, e.metric...), ' ')
	e.body = append(strconv.AppendInt(e.body, e.base, 10), ' ')
	e.body = append(e.appendDate(e.body, 1000*e.base), ' ')
	e.body = append(append(e.body, e.tags...), '\n')
}

// Histogram implements transfer.Encoder. It counts a native histogram as omitted.
func (e *storedEncoder) Histogram(int64, *histogram.Histogram, *histogram.FloatHistogram) error {
	e.left.Histograms++
	return nil
}

// Rows implements transfer.Encoder.
func (e *storedEncoder) Rows() int { return e.rows }

// Append implements transfer.Encoder.
func (e *storedEncoder) Append(dst []byte) []byte {
	dst = append(dst, e.body...)
	e.body, e.rows = e.body[:0], 0
	return dst
}

// appendBytes appends bytes as Java prints an array: [0, -1, 127].
func appendBytes(dst, list []byte) []byte {
	dst = append(dst, '[')
	for i, b := range list {
		if i > 0 {
			dst = append(dst, ", "...)
		}
		dst = strconv.AppendInt(dst, int64(int8(b)), 10)
	}
	return append(dst, ']')
}

// appendDate appends a time as Java prints a date, in brackets: (Thu Jan 01 00:00:00 UTC 1970).
func (e *storedEncoder) appendDate(dst []byte, tsMs int64) []byte {
	return append(time.UnixMilli(tsMs).In(e.zone).AppendFormat(append(dst, '('), "Mon Jan 02 15:04:05 MST 2006"), ')')
}

// appendTags appends tags as Java prints a map: {cpu=0, host=a}.
func appendTags(dst []byte, tags labels.Labels) []byte {
	dst = append(dst, '{')
	tags.Range(func(l labels.Label) {
		if dst[len(dst)-1] != '{' {
			dst = append(dst, ", "...)
		}
		dst = append(append(append(dst, l.Name...), '='), l.Value...)
	})
	return append(dst, '}')
}
