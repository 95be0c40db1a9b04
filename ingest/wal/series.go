package wal

import (
	"encoding/binary"
	"math"

	"github.com/prometheus/prometheus/model/labels"
)

// AppendSeries appends the record that gives ref to the series ls. A KindSeries payload is any number of them.
func AppendSeries(dst []byte, ref uint32, ls labels.Labels) []byte {
	dst = binary.AppendUvarint(dst, uint64(ref))
	dst = binary.AppendUvarint(dst, uint64(ls.Len()))
	ls.Range(func(l labels.Label) {
		dst = appendString(dst, l.Name)
		dst = appendString(dst, l.Value)
	})
	return dst
}

// ParseSeries calls fn for each series of a KindSeries payload, in order. The labels do not alias the payload. It ends
// with fn's error, or with ErrBadRecord if the payload does not parse or label names do not ascend.
func ParseSeries(payload []byte, fn func(ref uint32, ls labels.Labels) error) error {
	builder := labels.NewScratchBuilder(16)
	// One copy for all labels: they are views into it or copied from it, as the labels package sees fit.
	r := fieldReader{rest: string(payload)}
	for len(r.rest) > 0 {
		at := len(payload) - len(r.rest)
		ref := r.uvarint()
		count := r.uvarint()
		if r.bad || ref > math.MaxUint32 || count > uint64(len(r.rest))/2 {
			return badRecord("series", at)
		}
		builder.Reset()
		previous := ""
		for i := range count {
			name, value := r.field(), r.field()
			if r.bad || i > 0 && name <= previous {
				return badRecord("series labels", at)
			}
			builder.Add(name, value)
			previous = name
		}
		if err := fn(uint32(ref), builder.Labels()); err != nil {
			return err
		}
	}
	return nil
}
