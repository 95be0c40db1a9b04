package record

import (
	"encoding/binary"
	"math"
)

// Deletion is a KindDeletion payload: samples of some series were deleted from memory. A deletion of many series takes
// several consecutive records. It takes effect with the last record.
type Deletion struct {
	// Tombstone is the encoded tombstone. Only the last record of a deletion has it.
	Tombstone []byte
	// Last marks the last record of the deletion.
	Last bool
	// Refs are the numbers of the series in the log, ascending.
	Refs []uint32
}

// deletionLast is the flag of a deletion's last record.
const deletionLast = 1

// AppendDeletion appends a KindDeletion payload.
func AppendDeletion(dst []byte, d Deletion) []byte {
	flags := byte(0)
	if d.Last {
		flags |= deletionLast
	}
	dst = append(dst, flags)
	dst = binary.AppendUvarint(dst, uint64(len(d.Tombstone)))
	dst = append(dst, d.Tombstone...)
	dst = binary.AppendUvarint(dst, uint64(len(d.Refs)))
	previous := uint32(0)
	for _, ref := range d.Refs {
		dst = binary.AppendUvarint(dst, uint64(ref-previous))
		previous = ref
	}
	return dst
}

// ParseDeletion parses a KindDeletion payload. The result does not alias the payload. The error wraps ErrMalformed.
func ParseDeletion(payload []byte) (Deletion, error) {
	bad := func() (Deletion, error) { return Deletion{}, malformed("deletion", 0) }
	if len(payload) == 0 || payload[0]&^deletionLast != 0 {
		return bad()
	}
	d := Deletion{Last: payload[0]&deletionLast != 0}
	r := fieldReader{rest: string(payload[1:])}
	d.Tombstone = []byte(r.field())
	n := r.uvarint()
	if r.bad || n > uint64(len(r.rest)) {
		return bad()
	}
	d.Refs = make([]uint32, 0, n)
	ref := uint64(0)
	for i := range n {
		delta := r.uvarint()
		if r.bad || i > 0 && delta == 0 || delta > math.MaxUint32 || ref+delta > math.MaxUint32 {
			return bad()
		}
		ref += delta
		d.Refs = append(d.Refs, uint32(ref))
	}
	if r.rest != "" || d.Last != (len(d.Tombstone) > 0) {
		return bad()
	}
	return d, nil
}
