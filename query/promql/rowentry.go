package promql

import (
	"encoding/binary"
	"math"
	"slices"
	"unsafe"
)

// appendRowEntry appends the entry of rows that begin at a time.
func appendRowEntry(dst []byte, startMs int64, c columns) []byte {
	first, step := int64(0), interval(c.tsMs)
	if len(c.tsMs) > 0 {
		first = c.tsMs[0] - startMs
	}
	for _, v := range c.values {
		dst = binary.NativeEndian.AppendUint64(dst, math.Float64bits(v))
	}
	if step == 0 {
		for _, ts := range c.tsMs {
			dst = binary.NativeEndian.AppendUint32(dst, uint32(ts-startMs))
		}
	}
	dst = binary.NativeEndian.AppendUint32(dst, uint32(len(c.tsMs)))
	dst = binary.NativeEndian.AppendUint32(dst, uint32(first))
	return binary.NativeEndian.AppendUint32(dst, uint32(step))
}

// rowEntryBytes is the length of an entry.
func rowEntryBytes(c columns) int {
	if interval(c.tsMs) == 0 {
		return rowEntryTrailer + 12*len(c.tsMs)
	}
	return rowEntryTrailer + 8*len(c.tsMs)
}

// appendEntry appends the samples within the window of the entry under the key; not ok if there is none. The entry is
// copied behind the buffer's values, so that those of it are where they belong.
func (u *rowCacheUser) appendEntry(startMs int64, w window, to *buffer) (ok bool) {
	at := len(to.values)
	to.values = slices.Grow(to.values, u.guess)
	spare := to.values[at:cap(to.values)]
	place := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(spare))), 8*len(spare))
	entry, ok := u.entries.HasGet(place[:0], u.key)
	if !ok {
		return false
	}
	u.guess = max(u.guess, len(entry)/8+1)
	trailer := entry[len(entry)-rowEntryTrailer:]
	n := int(binary.NativeEndian.Uint32(trailer))
	first := startMs + int64(binary.NativeEndian.Uint32(trailer[4:]))
	step := int64(binary.NativeEndian.Uint32(trailer[8:]))
	if len(entry) > len(place) { // it is elsewhere
		to.values = slices.Grow(to.values, n)
		for i := range n {
			to.values[:at+n][at+i] = math.Float64frombits(binary.NativeEndian.Uint64(entry[8*i:]))
		}
	}
	to.values = to.values[:at+n]
	if step == 0 {
		to.appendUneven(entry[8*n:len(entry)-rowEntryTrailer], startMs, w, at)
	} else {
		to.appendEven(first, step, w, at)
	}
	return true
}

// appendUneven appends the times of the values from one on, and leaves out those outside the window.
func (b *buffer) appendUneven(offsets []byte, startMs int64, w window, at int) {
	kept := at
	for i := at; i < len(b.values); i++ {
		ts := startMs + int64(binary.NativeEndian.Uint32(offsets[4*(i-at):]))
		if ts >= w.mintMs && ts <= w.maxtMs {
			b.tsMs = append(b.tsMs, ts)
			b.values[kept] = b.values[i]
			kept++
		}
	}
	b.values = b.values[:kept]
}

// appendEven does so where times are evenly spaced.
func (b *buffer) appendEven(first, step int64, w window, at int) {
	n := int64(len(b.values) - at)
	if n == 0 {
		return
	}
	from, end := int64(0), n
	if first < w.mintMs {
		from = min(n, (w.mintMs-first+step-1)/step)
	}
	if first+(n-1)*step > w.maxtMs {
		end = max(from, (w.maxtMs-first+step)/step)
	}
	if from > 0 {
		copy(b.values[at:], b.values[at+int(from):at+int(end)])
	}
	b.values = b.values[:at+int(end-from)]
	b.tsMs = slices.Grow(b.tsMs, int(end-from))[:len(b.values)]
	ts := first + from*step
	for i := at; i < len(b.tsMs); i++ {
		b.tsMs[i] = ts
		ts += step
	}
}
