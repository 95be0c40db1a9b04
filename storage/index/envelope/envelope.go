package envelope

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"halite/storage"
)

// Formats of payloads. The format byte is stored on disk.
const (
	FormatV1 = 1
	FormatV2 = 2 // manifests, values with the hours of their series, compressed journal records
	FormatV3 = 3 // manifests with dropped metrics
)

// OverheadBytes is the size of the format byte and the checksum of a sealed value.
const OverheadBytes = 5

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Faults of stored values.
var (
	ErrTruncated = errors.New("truncated")
	ErrFormat    = errors.New("unknown format")
	ErrRange     = errors.New("number out of range")
	ErrOrder     = errors.New("not in order")
	ErrMissing   = errors.New("missing")
	ErrTrailing  = errors.New("trailing bytes")
	errChecksum  = errors.New("checksum mismatch")
)

func placeCRC(key, qualifier []byte) uint32 {
	var n [4]byte
	binary.LittleEndian.PutUint32(n[:], uint32(len(key)))
	crc := crc32.Update(0, castagnoli, n[:])
	crc = crc32.Update(crc, castagnoli, key)
	return crc32.Update(crc, castagnoli, qualifier)
}

// New starts a value in a format. Append the payload and end with Seal. sizeHint is the expected length of the payload.
func New(format byte, sizeHint int) []byte {
	return append(make([]byte, 0, sizeHint+OverheadBytes), format)
}

// Seal appends the checksum of a value that is stored in the cell of row key and qualifier.
func Seal(value, key, qualifier []byte) []byte {
	crc := crc32.Update(placeCRC(key, qualifier), castagnoli, value)
	return binary.LittleEndian.AppendUint32(value, crc)
}

// Open returns the payload of a value that has format 1. The payload refers to value.
func Open(value, key, qualifier []byte) ([]byte, error) {
	return OpenFormat(FormatV1, value, key, qualifier)
}

// OpenFormat returns the payload of a value that has the given format. The payload refers to value.
func OpenFormat(want byte, value, key, qualifier []byte) ([]byte, error) {
	payload, format, err := OpenUpTo(want, value, key, qualifier)
	if err == nil && format != want {
		err = fmt.Errorf("%w %d", ErrFormat, format)
	}
	return payload, err
}

// OpenUpTo returns the payload and the format of a value, which may be any format up to formatMax. The payload refers to
// value.
func OpenUpTo(formatMax byte, value, key, qualifier []byte) (payload []byte, format byte, err error) {
	if len(value) < OverheadBytes {
		return nil, 0, ErrTruncated
	}
	body := value[:len(value)-4]
	crc := crc32.Update(placeCRC(key, qualifier), castagnoli, body)
	if crc != binary.LittleEndian.Uint32(value[len(value)-4:]) {
		return nil, 0, errChecksum
	}
	if body[0] < FormatV1 || body[0] > formatMax {
		return nil, 0, fmt.Errorf("%w %d", ErrFormat, body[0])
	}
	return body[1:], body[0], nil
}

// Corrupt wraps a fault of a stored value with its place.
func Corrupt(table string, key, qualifier []byte, err error) error {
	return fmt.Errorf("%w: table %s, row %q, qualifier %q: %w (a rebuild of the day repairs the index)",
		storage.ErrCorrupt, table, key, qualifier, err)
}
