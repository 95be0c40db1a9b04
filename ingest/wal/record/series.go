package record

import (
	"encoding/binary"
	"math"

	"github.com/prometheus/prometheus/model/labels"
)

// AppendSeries appends the entry that gives the number ref to the series ls. A KindSeries payload is any number of entries.
func AppendSeries(dst []byte, ref uint32, ls labels.Labels) []byte {
	dst = binary.AppendUvarint(dst, uint64(ref))
	dst = binary.AppendUvarint(dst, uint64(ls.Len()))
	ls.Range(func(l labels.Label) {
		dst = appendString(dst, l.Name)
		dst = appendString(dst, l.Value)
	})
	return dst
}

// ParseSeries calls fn for each series of a KindSeries payload, in order. fn must not keep the slice; it may keep the
// strings, which do not alias the payload. ParseSeries stops at an error and returns it: fn's, or ErrMalformed if the
// payload does not parse or label names do not ascend.
func ParseSeries(payload []byte, fn func(ref uint32, ls []labels.Label) error) error {
	var ls []labels.Label
	r := fieldReader{rest: string(payload)} // one copy serves all labels
	for len(r.rest) > 0 {
		at := len(payload) - len(r.rest)
		ref := r.uvarint()
		count := r.uvarint()
		if r.bad || ref > math.MaxUint32 || count > uint64(len(r.rest))/2 {
			return malformed("series", at)
		}
		ls = ls[:0]
		previous := ""
		for i := range count {
			name, value := r.field(), r.field()
			if r.bad || i > 0 && name <= previous {
				return malformed("series labels", at)
			}
			ls = append(ls, labels.Label{Name: name, Value: value})
			previous = name
		}
		if err := fn(uint32(ref), ls); err != nil {
			return err
		}
	}
	return nil
}
