package column

// TagMask selects the bits of the kind byte that a caller of [TaggedEncoder] may use.
const TagMask = 0x78

// TaggedEncoder encodes a column together with its kind byte. A few bits of that byte, the tag, belong to the caller. It
// keeps its scratch space between columns. It is not for concurrent use; the zero value is ready.
type TaggedEncoder struct{ encoder Encoder }

// Append appends x, which has at least one element. The tag is stored in the first byte and uses only bits of
// [TagMask]. The column does not store its length.
func (e *TaggedEncoder) Append(dst []byte, tag byte, x []int64) []byte {
	e.encoder.Plan(x)
	return e.encoder.Append(append(dst, e.encoder.Kind()|tag))
}

// TaggedDecoder decodes the columns of a [TaggedEncoder]. It is not for concurrent use; the zero value is ready.
type TaggedDecoder struct{ decoder Decoder }

// Decode decodes a column of len(x) integers, at least one, at the start of src into x. It returns the bytes after the
// column. An error wraps [ErrCorrupt]; x is then undefined.
func (d *TaggedDecoder) Decode(x []int64, src []byte) (tag byte, rest []byte, err error) {
	if len(src) == 0 {
		return 0, nil, Corrupt("column is truncated")
	}
	kind := src[0]
	r, err := d.decoder.Open(src[1:], kind&^TagMask, len(x))
	if err != nil {
		return 0, nil, err
	}
	if err := r.Ints(x); err != nil {
		return 0, nil, err
	}
	return kind & TagMask, d.decoder.Rest(), nil
}
