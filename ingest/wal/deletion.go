package wal

import (
	"encoding/binary"
	"math"
)

// Deletion is a KindDeletion payload: samples of some series were deleted from memory. One deletion has as many records as
// its series need, next to each other in the log; only after the last of them has it happened.
type Deletion struct {
	// Tombstone says what was deleted; the log does not look into it. Only the last record of a deletion has it.
	Tombstone []byte
	// Last says that no more records of the deletion follow.
	Last bool
	// Refs are numbers of series in the log, ascending.
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
	last := uint32(0)
	for _, ref := range d.Refs {
		dst = binary.AppendUvarint(dst, uint64(ref-last))
		last = ref
	}
	return dst
}

// ParseDeletion parses a KindDeletion payload; the result does not refer to it. The error wraps ErrBadRecord.
func ParseDeletion(payload []byte) (Deletion, error) {
	bad := func() (Deletion, error) { return Deletion{}, badRecord("deletion", 0) }
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
	last := uint64(0)
	for i := range n {
		step := r.uvarint()
		if r.bad || i > 0 && step == 0 || step > math.MaxUint32 || last+step > math.MaxUint32 {
			return bad()
		}
		last += step
		d.Refs = append(d.Refs, uint32(last))
	}
	if r.rest != "" || d.Last != (len(d.Tombstone) > 0) {
		return bad()
	}
	return d, nil
}
