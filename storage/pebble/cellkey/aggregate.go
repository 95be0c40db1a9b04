package cellkey

import (
	"encoding/binary"
	"fmt"
	"io"

	"github.com/cockroachdb/pebble/v2"

	"halite/storage"
)

// mergerName is stored in every file.
const mergerName = "halite.aggregates.v1"

// OperandBytes is the size of an aggregate operand: the family's kind and a big-endian int64.
const OperandBytes = 1 + 8

// PutOperand writes an operand into dst, which has OperandBytes bytes.
func PutOperand(dst []byte, kind storage.FamilyKind, v int64) {
	dst[0] = byte(kind)
	binary.BigEndian.PutUint64(dst[1:], uint64(v))
}

// ParseOperand returns an operand's kind and number; the error wraps storage.ErrCorrupt.
func ParseOperand(src []byte) (storage.FamilyKind, int64, error) {
	if len(src) != OperandBytes {
		return 0, 0, fmt.Errorf("%w: aggregate of %d bytes, want %d", storage.ErrCorrupt, len(src), OperandBytes)
	}
	kind := storage.FamilyKind(src[0])
	if kind < storage.SumInt64 || kind > storage.MaxInt64 {
		return 0, 0, fmt.Errorf("%w: aggregate of unknown kind %d", storage.ErrCorrupt, kind)
	}
	return kind, int64(binary.BigEndian.Uint64(src[1:])), nil
}

// NewMerger returns the merge operator of aggregate families. Each operand has its kind, because the tree has no families.
// Sums wrap around like in Go. All three kinds are associative and commutative.
func NewMerger() *pebble.Merger {
	return &pebble.Merger{Name: mergerName, Merge: func(_, value []byte) (pebble.ValueMerger, error) {
		kind, v, err := ParseOperand(value)
		if err != nil {
			return nil, err
		}
		return &aggregate{kind: kind, value: v}, nil
	}}
}

// aggregate copies the merged number, so it does not retain an operand's memory.
type aggregate struct {
	kind  storage.FamilyKind
	value int64
}

func (a *aggregate) MergeNewer(operand []byte) error {
	kind, v, err := ParseOperand(operand)
	if err == nil && kind != a.kind {
		err = fmt.Errorf("%w: cannot merge aggregates of kinds %d and %d", storage.ErrCorrupt, a.kind, kind)
	}
	if err != nil {
		return err
	}
	switch a.kind {
	case storage.SumInt64:
		a.value += v
	case storage.MinInt64:
		a.value = min(a.value, v)
	case storage.MaxInt64:
		a.value = max(a.value, v)
	}
	return nil
}

func (a *aggregate) MergeOlder(operand []byte) error { return a.MergeNewer(operand) }

func (a *aggregate) Finish(bool) ([]byte, io.Closer, error) {
	out := make([]byte, OperandBytes)
	PutOperand(out, a.kind, a.value)
	return out, nil, nil
}
