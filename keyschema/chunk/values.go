package chunk

import "halite/keyschema/column"

// exceptionsFirst is the byte in front of values without timestamps that have exceptions. No value column starts with it,
// because no mode has this number.
const exceptionsFirst = column.ModeMask

// AppendValues appends values of any bit pattern, at least one, as a chunk stores them. It stores neither timestamps nor the
// number of values, which the caller stores.
func (e *Encoder) AppendValues(dst []byte, values []float64) []byte {
	head := len(dst)
	dst = e.appendValues(append(dst, 0), head, values)
	if dst[head] == 0 {
		return append(dst[:head], dst[head+1:]...)
	}
	dst[head] = exceptionsFirst
	return dst
}

// DecodeValues appends to values the count values that begin src, and returns the bytes after them. For bytes that
// AppendValues did not make, it returns an error that wraps [ErrCorrupt] and leaves the length of values unchanged,
// or it returns some values. The caller bounds count: equal values take no bytes of src.
func (d *Decoder) DecodeValues(src []byte, count int, values []float64) (all []float64, rest []byte, err error) {
	exceptions := len(src) > 0 && src[0] == exceptionsFirst
	if exceptions {
		src = src[1:]
	}
	if all, rest, err = d.decodeValues(src, exceptions, count, values); err != nil {
		return values, nil, err
	}
	return all, rest, nil
}
