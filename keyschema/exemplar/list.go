package exemplar

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/prometheus/prometheus/model/labels"

	"halite/keyschema/chunk"
	"halite/keyschema/column"
)

// version is the first byte of a list.
const version = 1

// Encoder packs lists. It keeps its scratch space between calls. It is not for concurrent use; the zero value is ready.
type Encoder struct {
	columns column.TaggedEncoder
	chunks  chunk.Encoder
	tsMs    []int64
	values  []float64
}

// Append packs 1 to ListMax exemplars onto dst. Their times ascend, and several may have the same time. The list stores times
// as distances from hourStartMs. An error wraps [ErrBadList] and leaves dst unchanged.
//
//	version; uvarint number; column of times; values; labels of each exemplar
func (e *Encoder) Append(dst []byte, hourStartMs int64, list []Exemplar) ([]byte, error) {
	if len(list) == 0 || len(list) > ListMax {
		return dst, fmt.Errorf("%w: %d exemplars, want 1 to %d", ErrBadList, len(list), ListMax)
	}
	e.tsMs, e.values = slices.Grow(e.tsMs[:0], len(list)), slices.Grow(e.values[:0], len(list))
	for i := range list {
		if i > 0 && list[i].TsMs < list[i-1].TsMs {
			return dst, fmt.Errorf("%w: exemplar %d at %d is earlier than its predecessor", ErrBadList, i, list[i].TsMs)
		}
		e.tsMs, e.values = append(e.tsMs, list[i].TsMs-hourStartMs), append(e.values, list[i].Value)
	}
	dst = binary.AppendUvarint(append(dst, version), uint64(len(list)))
	dst = e.columns.Append(dst, 0, e.tsMs)
	dst = e.chunks.AppendValues(dst, e.values)
	for i := range list {
		dst = appendLabels(dst, list[i].Labels)
	}
	return dst, nil
}

// Decoder unpacks lists. It keeps its scratch space between calls. It is not for concurrent use; the zero value is ready.
type Decoder struct {
	columns column.TaggedDecoder
	chunks  chunk.Decoder
	tsMs    []int64
	values  []float64
	builder labels.ScratchBuilder
}

// Decode appends the exemplars of a list to dst. They do not refer to src. An error wraps [ErrCorrupt], names the byte, and
// leaves dst unchanged.
func (d *Decoder) Decode(src []byte, hourStartMs int64, dst []Exemplar) ([]Exemplar, error) {
	r := reader{src: src, size: len(src)}
	if len(src) == 0 || src[0] != version {
		r.fail("the version is not %d", version)
		return dst, r.err
	}
	r.src = src[1:]
	n := r.uvarint("number of exemplars")
	if n == 0 || n > ListMax || n > uint64(len(r.src)) {
		r.fail("%d exemplars in %d bytes", n, len(r.src))
		return dst, r.err
	}
	if err := d.readColumns(&r, int(n)); err != nil {
		return dst, err
	}
	start := len(dst)
	dst = slices.Grow(dst, int(n))
	for i := range d.tsMs {
		tsMs := hourStartMs + d.tsMs[i]
		if i > 0 && tsMs < dst[len(dst)-1].TsMs {
			r.fail("exemplar %d is earlier than its predecessor", i)
		}
		ls := r.labels(&d.builder)
		if r.err != nil {
			return dst[:start], r.err
		}
		dst = append(dst, Exemplar{TsMs: tsMs, Value: d.values[i], Labels: ls})
	}
	if len(r.src) != 0 {
		r.fail("%d trailing bytes", len(r.src))
		return dst[:start], r.err
	}
	return dst, nil
}

// readColumns reads n times and values.
func (d *Decoder) readColumns(r *reader, n int) error {
	d.tsMs = slices.Grow(d.tsMs[:0], n)[:n]
	tag, rest, err := d.columns.Decode(d.tsMs, r.src)
	if err == nil && tag != 0 {
		err = column.Corrupt("bad kind of the column")
	}
	if err != nil {
		return fmt.Errorf("times at byte %d: %w", r.size-len(r.src), err)
	}
	r.src = rest
	if d.values, rest, err = d.chunks.DecodeValues(r.src, n, d.values[:0]); err != nil {
		return fmt.Errorf("values at byte %d: %w", r.size-len(r.src), err)
	}
	r.src = rest
	return nil
}
