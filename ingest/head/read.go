package head

import (
	"cmp"
	"fmt"
	"slices"
	"sync"

	"halite/keyschema"
	"halite/keyschema/chunk"
	"halite/keyschema/exemplar"
	"halite/keyschema/histchunk"
)

// rowCopy locates a copy of a row in the buffers of a Reader.
type rowCopy struct {
	hour               int64
	floats, unsorted   bool
	packedFrom, packed int // extent in Reader.packed
	tailFrom, tail     int // extent in Reader.tailMs and Reader.tailValues
}

// Reader copies rows under a stripe's lock and unpacks them outside it. It is not for concurrent use.
type Reader struct {
	rows       []rowCopy
	packed     []byte
	tailMs     []int64
	tailValues []float64
	batch      batch
	chunks     [][]byte // chunks of the current row, the last one first
	decoder    chunk.Decoder
	sorter     sorter
	tsMs       []int64
	values     []float64

	histogramDecoder histchunk.Decoder
	histograms       []histchunk.Sample
	entries          []chainEntry
	exemplars        []exemplar.Exemplar
}

var readers = sync.Pool{New: func() any { return new(Reader) }}

func (d *Reader) reset() {
	d.rows, d.packed, d.tailMs, d.tailValues = d.rows[:0], d.packed[:0], d.tailMs[:0], d.tailValues[:0]
}

// copyRow copies a row. The caller holds the stripe's lock.
func (d *Reader) copyRow(s *stripe, r *row) {
	c := rowCopy{
		hour: r.hour(), floats: r.floats(), unsorted: r.is(flagUnsorted), packedFrom: len(d.packed), tailFrom: len(d.tailMs),
	}
	d.packed = s.appendPacked(d.packed, r)
	c.packed = len(d.packed)
	if c.floats {
		d.tailMs, d.tailValues = s.appendTail(r, 0, d.tailMs, d.tailValues)
	}
	c.tail = len(d.tailMs)
	d.rows = append(d.rows, c)
}

// columns unpacks rows of one hour, ordered by creation. Timestamps ascend without duplicates; the last written value wins. The
// columns are valid until the next call.
func (d *Reader) columns(rows []rowCopy) ([]int64, []float64, error) {
	var err error
	d.tsMs, d.values, err = d.appendRows(rows, d.tsMs[:0], d.values[:0])
	return d.tsMs, d.values, err
}

// appendRows appends the samples of rows of one hour, ordered by creation, to two columns. Otherwise it is like columns.
func (d *Reader) appendRows(rows []rowCopy, tsMs []int64, values []float64) ([]int64, []float64, error) {
	from, unsorted := len(tsMs), len(rows) > 1
	for _, c := range rows {
		unsorted = unsorted || c.unsorted
		var err error
		if d.chunks, err = chunksOf(d.chunks[:0], d.packed[c.packedFrom:c.packed]); err != nil {
			return tsMs[:from], values[:from], err
		}
		for _, chunk := range slices.Backward(d.chunks) {
			if tsMs, values, err = d.decoder.Decode(chunk, keyschema.HourStartMs(c.hour), tsMs, values); err != nil {
				return tsMs[:from], values[:from], fmt.Errorf("head: unpack a row: %w", err)
			}
		}
		tsMs = append(tsMs, d.tailMs[c.tailFrom:c.tail]...)
		values = append(values, d.tailValues[c.tailFrom:c.tail]...)
	}
	if unsorted {
		sortedMs, sortedValues := d.sorter.sortDedup(tsMs[from:], values[from:])
		tsMs, values = append(tsMs[:from], sortedMs...), append(values[:from], sortedValues...)
	}
	return tsMs, values, nil
}

// copySeries copies the rows of a series and kind that overlap [mintMs, maxtMs], sorted by hour and creation. It returns nil
// if there are none. The caller calls put at the end.
func (h *Head) copySeries(ref uint32, kind keyschema.SampleKind, mintMs, maxtMs int64) *Reader {
	at := h.slot(ref)
	if at == nil || maxtMs < mintMs || !h.HasKind(kind) {
		return nil
	}
	s := &h.stripes[h.Stripe(ref)]
	s.mu.RLock()
	if at.row == 0 { // true for most series right after the flush of an hour
		s.mu.RUnlock()
		return nil
	}
	d := readers.Get().(*Reader)
	d.reset()
	for n := at.row; n != 0; {
		r := s.row(n)
		startMs := keyschema.HourStartMs(r.hour())
		if startMs <= maxtMs && startMs+keyschema.HourMs > mintMs && r.kind() == kind {
			d.copyRow(s, r)
		}
		n = r.next
	}
	s.mu.RUnlock()
	sortRows(d.rows)
	return d
}

// sortRows sorts the rows of a series, newest first, by hour and creation.
func sortRows(rows []rowCopy) {
	if len(rows) > 1 {
		slices.Reverse(rows) // oldest row of an hour first
		slices.SortStableFunc(rows, func(a, b rowCopy) int { return cmp.Compare(a.hour, b.hour) })
	}
}

// put keeps a reader for reuse.
func (d *Reader) put() {
	clear(d.histograms[:cap(d.histograms)])
	clear(d.exemplars[:cap(d.exemplars)])
	readers.Put(d)
}

// sameHourRows returns the length of the first run of rows of one hour.
func sameHourRows(rows []rowCopy) int {
	n := 1
	for n < len(rows) && rows[n].hour == rows[0].hour {
		n++
	}
	return n
}
