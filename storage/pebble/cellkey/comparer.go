package cellkey

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
)

// comparerName is stored in every file. A change of the key format needs a new name and a migration.
const comparerName = "halite.cells.v1"

// NewComparer returns the order of keys: prefixes bytewise, then suffixes by hour and qualifier bytewise, then by time with
// the newest first. Prefix and hour contain the encoded row, so this is the order of rows and columns.
func NewComparer() *pebble.Comparer {
	return &pebble.Comparer{
		Name:                 comparerName,
		Compare:              Compare,
		Equal:                bytes.Equal,
		ComparePointSuffixes: CompareSuffixes,
		CompareRangeSuffixes: CompareSuffixes,
		Split:                Split,
		AbbreviatedKey:       abbreviateKey,
		Separator:            separateKeys,
		Successor:            succeedKey,
		ImmediateSuccessor:   func(dst, prefix []byte) []byte { return append(append(dst, prefix...), Sentinel) },
		FormatKey:            func(key []byte) fmt.Formatter { return keyFormatter(key) },
	}
}

type keyFormatter []byte

func (k keyFormatter) Format(s fmt.State, _ rune) { fmt.Fprint(s, Format(k)) }

func Compare(a, b []byte) int {
	an, bn := Split(a), Split(b)
	if c := bytes.Compare(a[:an], b[:bn]); c != 0 {
		return c
	}
	return CompareSuffixes(a[an:], b[bn:])
}

// CompareSuffixes is a total order on all byte strings, so damaged keys cannot confuse the tree. It compares body, time rank
// and then all bytes, so only identical suffixes are equal.
func CompareSuffixes(a, b []byte) int {
	if len(a) == 0 || len(b) == 0 {
		return cmp.Compare(len(a), len(b)) // the tree relies on exactly -1, 0 and 1
	}
	aBody, aRank := suffixRank(a)
	bBody, bRank := suffixRank(b)
	if c := bytes.Compare(aBody, bBody); c != 0 {
		return c
	}
	return cmp.Or(cmp.Compare(aRank, bRank), bytes.Compare(a, b))
}

// suffixRank returns hour and qualifier, and a number that orders the times of one column with the newest first.
func suffixRank(suffix []byte) (body []byte, rank int64) {
	body, kind, clock, ok := parseSuffix(suffix)
	if !ok {
		return suffix, -2
	}
	switch kind {
	case kindBefore:
		return body, -1
	case KindHourEnd:
		if len(body) < HourBytes {
			return body, 0
		}
		hour := (HourValueMax - int64(HourOf(body))) % 24
		if hour < 0 {
			return body, 0
		}
		return body, (23 - hour) * hourMs
	default:
		return body, int64(clock)
	}
}

// abbreviateKey packs the first eight bytes of the prefix, padded with zeros.
func abbreviateKey(key []byte) uint64 {
	prefix := key[:Split(key)]
	if len(prefix) >= 8 {
		return binary.BigEndian.Uint64(prefix)
	}
	var b [8]byte
	copy(b[:], prefix)
	return binary.BigEndian.Uint64(b[:])
}

// separateKeys appends a short key k with a ≤ k < b. Index blocks hold one such key for each data block, so short keys keep
// the cached index small. For rows of different prefixes, the common part and one byte suffice.
func separateKeys(dst, a, b []byte) []byte {
	an, bn := Split(a), Split(b)
	start := len(dst)
	at := commonBytes(a[:an], b[:bn])
	if at < an && at < bn && a[at] < b[at] {
		// The key that ends with b's byte sorts below b, unless b also ends there.
		for _, last := range [2]byte{a[at] + 1, b[at]} {
			dst = append(append(dst[:start], a[:at]...), last, Sentinel)
			if len(dst)-start < len(a) && Compare(a, dst[start:]) <= 0 && Compare(dst[start:], b) < 0 {
				return dst
			}
		}
		// Otherwise increment the first later byte of a that is not 0xff.
		for i := at + 1; i < an; i++ {
			if a[i] != 0xff {
				dst = append(append(dst[:start], a[:i]...), a[i]+1, Sentinel)
				if len(dst)-start < len(a) && Compare(dst[start:], b) < 0 {
					return dst
				}
				break
			}
		}
	}
	return append(dst[:start], a...)
}

// succeedKey appends a short key k ≥ a.
func succeedKey(dst, a []byte) []byte {
	for i := range Split(a) {
		if a[i] != 0xff && i+2 < len(a) {
			return append(append(dst, a[:i]...), a[i]+1, Sentinel)
		}
	}
	return append(dst, a...)
}

func commonBytes(a, b []byte) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}
