package chunk

// IntegersTag masks the bits of a column's first byte that the caller of [IntegerEncoder] may use.
const IntegersTag = scaleMask << scaleShift

// IntegerEncoder encodes a column of integers as chunks encode theirs, for formats that store such columns elsewhere.
// It keeps its scratch space between columns. It is not for concurrent use; the zero value is ready.
type IntegerEncoder struct{ column column }

// Append appends x, which has at least one element. The tag is stored in the first byte and uses only bits of
// [IntegersTag]. The column does not store its length.
func (e *IntegerEncoder) Append(dst []byte, tag byte, x []int64) []byte {
	e.column.plan(x, false)
	return e.column.append(append(dst, e.column.kind()|tag))
}

// IntegerDecoder decodes what an [IntegerEncoder] wrote. It is not for concurrent use; the zero value is ready.
type IntegerDecoder struct{ decoder Decoder }

// Decode decodes a column of len(x) integers, at least one, at the start of src into x. It returns the bytes after the
// column. An error wraps [ErrCorrupt]; x is then undefined.
func (d *IntegerDecoder) Decode(x []int64, src []byte) (tag byte, rest []byte, err error) {
	if len(src) == 0 {
		return 0, nil, corrupt("column is cut off")
	}
	kind := src[0]
	r, err := d.decoder.openColumn(src[1:], kind&^IntegersTag, false, len(x))
	if err != nil {
		return 0, nil, err
	}
	if err := r.ints(x); err != nil {
		return 0, nil, err
	}
	return kind & IntegersTag, d.decoder.blocks.src, nil
}
