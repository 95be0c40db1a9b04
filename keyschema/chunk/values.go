package chunk

import "halite/keyschema/column"

// exceptionsFirst is the first byte that AppendValues writes if there are exceptions. No value column starts with this
// byte, because no mode has this number.
const exceptionsFirst = column.ModeMask

// AppendValues appends at least one value of any bit pattern in the encoding of a chunk. The caller stores the number of
// values and their timestamps.
func (e *Encoder) AppendValues(dst []byte, values []float64) []byte {
	head := len(dst)
	dst = e.appendValues(append(dst, 0), head, values)
	if dst[head] == 0 {
		return append(dst[:head], dst[head+1:]...)
	}
	dst[head] = exceptionsFirst
	return dst
}

// DecodeValues appends the count values at the start of src to values and returns the bytes after them. For bytes that
// AppendValues did not make, it returns some values or an error that wraps [ErrCorrupt]. The error leaves the length of
// values unchanged. The caller bounds count, because equal values take no bytes of src.
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
