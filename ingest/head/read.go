package head

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"
	"sort"
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
		d.tailMs, d.tailValues = s.appendTail(r, d.tailMs, d.tailValues)
	}
	c.tail = len(d.tailMs)
	d.rows = append(d.rows, c)
}

// columns unpacks rows of one hour, ordered by creation. Timestamps ascend without duplicates; the last written value wins. The
// columns are valid until the next call.
func (d *Reader) columns(rows []rowCopy) ([]int64, []float64, error) {
	tsMs, values := d.tsMs[:0], d.values[:0]
	unsorted := len(rows) > 1
	for _, c := range rows {
		unsorted = unsorted || c.unsorted
		for packed := d.packed[c.packedFrom:c.packed]; len(packed) > 0; {
			n, size := binary.Uvarint(packed)
			if size <= 0 || n > uint64(len(packed)-size) {
				return nil, nil, fmt.Errorf("head: the chunks of a row are corrupt at the last %d bytes", len(packed))
			}
			packed = packed[size:]
			var err error
			tsMs, values, err = d.decoder.Decode(packed[:n], keyschema.HourStartMs(c.hour), tsMs, values)
			if err != nil {
				return nil, nil, fmt.Errorf("head: unpack a row: %w", err)
			}
			packed = packed[n:]
		}
		tsMs = append(tsMs, d.tailMs[c.tailFrom:c.tail]...)
		values = append(values, d.tailValues[c.tailFrom:c.tail]...)
	}
	d.tsMs, d.values = tsMs, values
	if unsorted {
		tsMs, values = d.sorter.sortDedup(tsMs, values)
	}
	return tsMs, values, nil
}

// AppendSamples appends the floats of a series in [mintMs, maxtMs] to the two columns. Timestamps ascend without duplicates;
// the last written value wins. It sees every Append that has returned and every row not yet freed.
func (h *Head) AppendSamples(
	ref uint32, mintMs, maxtMs int64, tsMs []int64, values []float64,
) ([]int64, []float64, error) {
	return h.appendColumns(ref, keyschema.Floats, mintMs, maxtMs, tsMs, values)
}

// AppendStartTimes is AppendSamples for start times. A value is the start timestamp, in milliseconds since 1970, of the sample
// with the same series and time. If the head has no start times, it costs nothing.
func (h *Head) AppendStartTimes(
	ref uint32, mintMs, maxtMs int64, tsMs []int64, values []float64,
) ([]int64, []float64, error) {
	return h.appendColumns(ref, keyschema.StartTimes, mintMs, maxtMs, tsMs, values)
}

// copySeries copies the rows of a series and kind that reach into [mintMs, maxtMs], by hour and creation. It returns nil if there
// are none. The caller gives the reader back.
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
	slices.Reverse(d.rows) // oldest row of an hour first
	slices.SortStableFunc(d.rows, func(a, b rowCopy) int { return cmp.Compare(a.hour, b.hour) })
	return d
}

// put gives a reader back for the next one.
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

func (h *Head) appendColumns(
	ref uint32, kind keyschema.SampleKind, mintMs, maxtMs int64, tsMs []int64, values []float64,
) ([]int64, []float64, error) {
	d := h.copySeries(ref, kind, mintMs, maxtMs)
	if d == nil {
		return tsMs, values, nil
	}
	defer readers.Put(d)
	for rows := d.rows; len(rows) > 0; {
		n := sameHourRows(rows)
		hourMs, hourValues, err := d.columns(rows[:n])
		if err != nil {
			return tsMs, values, err
		}
		from := sort.Search(len(hourMs), func(i int) bool { return hourMs[i] >= mintMs })
		to := sort.Search(len(hourMs), func(i int) bool { return hourMs[i] > maxtMs })
		tsMs = append(tsMs, hourMs[from:to]...)
		values = append(values, hourValues[from:to]...)
		rows = rows[n:]
	}
	return tsMs, values, nil
}
