package remotewrite

import (
	"encoding/binary"
	"math"
	"math/bits"

	"github.com/zeebo/xxh3"
)

// Key is a 128-bit hash of the labels of a series.
type Key = xxh3.Uint128

// HashSymbols hashes each symbol once. The keys of the series combine these hashes.
func (w *WalkerV2) HashSymbols(hash func(symbol []byte) Key) {
	for _, s := range w.symbols {
		w.hashes = append(w.hashes, hash(w.b[s.from:s.to]))
	}
}

// keySum combines the hashes of the symbols of labels into the key of a series. It adds one product for each label. So the
// order of the labels does not matter: a series is a set of labels. Each product multiplies one half of the name's hash with
// the other half of the value's hash, so products of different labels are independent. The CPU can compute the products in
// parallel. The hashes must depend on a secret seed, so that no sender can prepare collisions.
type keySum struct{ lo, hi uint64 }

func (k *keySum) add(name, value *Key) {
	k.lo += name.Lo * value.Hi
	k.hi += name.Hi * value.Lo
}

// Odd numbers with evenly spread bits.
const (
	keyPrime1 = 0x9e3779b185ebca87
	keyPrime2 = 0xc2b2ae3d27d4eb4f
)

// key spreads the bits of the sums. Its values are independent of hashes of encoded labels.
func (k *keySum) key() Key {
	h1, l1 := bits.Mul64(k.lo^keyPrime2, keyPrime1)
	h2, l2 := bits.Mul64(k.hi^keyPrime1, keyPrime2)
	return Key{Lo: h1 ^ l1 ^ bits.RotateLeft64(k.hi, 32), Hi: h2 ^ l2 ^ k.lo}
}

// Key returns the key of a series without faults.
func (w *WalkerV2) Key(refs []uint32) Key {
	var k keySum
	for i := 0; i+1 < len(refs); i += 2 {
		k.add(&w.hashes[refs[i]], &w.hashes[refs[i+1]])
	}
	return k.key()
}

// FastSeries reads the current series if it has the form that Prometheus writes: packed references, exactly one sample
// without a start timestamp, and metadata. All references must be right. Otherwise ok is false and the caller uses Series.
// The caller calls HashSymbols first.
func (w *WalkerV2) FastSeries() (key Key, s Sample, m MetadataRefs, ok bool) {
	at := w.series[w.next-1]
	b := w.b[at.from:at.to]
	if len(b) < 2 || b[0] != seriesRefsV2<<3|wireBytes {
		return key, s, m, false
	}
	pos, to := 2, int(b[1])
	if to >= 0x80 {
		if len(b) < 3 || b[2] >= 0x80 {
			return key, s, m, false
		}
		pos, to = 3, to&0x7f|int(b[2])<<7
	}
	if to += pos; to > len(b) {
		return key, s, m, false
	}
	if key, ok = w.fastKey(b[pos:to]); !ok {
		return key, s, m, false
	}
	b = b[to:]
	if s, b, ok = fastSampleV2(b); !ok {
		return key, s, m, false
	}
	if len(b) == 0 || len(b) == 2 && b[0] == seriesMetadataV2<<3|wireBytes && b[1] == 0 {
		return key, s, m, true
	}
	if b[0] != seriesMetadataV2<<3|wireBytes || len(b) < 2 || int(b[1]) != len(b)-2 || b[1] >= 0x80 {
		return key, s, m, false
	}
	if m, ok = fastMetadata(b[2:]); !ok || max(m.HelpRef, m.UnitRef) >= uint32(len(w.symbols)) {
		return key, s, MetadataRefs{}, false
	}
	return key, s, m, true
}

// FastValueRef returns two symbols of a series that FastSeries has read: the symbols of a label's name and of its value.
// valueRef is 0 if the series lacks the label. guess is the symbol of the name in another series, or 0.
func (w *WalkerV2) FastValueRef(guess uint32, name string) (nameRef, valueRef uint32) {
	at := w.series[w.next-1]
	pos, to, err := lengthDelimited(w.b, int(at.from)+1, int(at.to))
	for err == nil && pos < to {
		var n, v uint64
		if n, pos, err = uvarint(w.b, pos, to); err != nil {
			break
		}
		if v, pos, err = uvarint(w.b, pos, to); err != nil {
			break
		}
		if guess != 0 && uint32(n) == guess || string(w.Symbol(uint32(n))) == name {
			return uint32(n), uint32(v)
		}
	}
	return guess, 0
}

// ValueRef is FastValueRef for a series without faults that Series has read.
func (w *WalkerV2) ValueRef(refs []uint32, name string) uint32 {
	for i := 0; i+1 < len(refs); i += 2 {
		if string(w.Symbol(refs[i])) == name {
			return refs[i+1]
		}
	}
	return 0
}

// fastKey combines packed references. It reports false if a reference is wrong or has more than three bytes.
func (w *WalkerV2) fastKey(b []byte) (key Key, ok bool) {
	var k keySum
	hashes := w.hashes
	for pos := 0; pos < len(b); {
		name := uint(b[pos])
		pos++
		if name >= 0x80 {
			if name, pos = wideRef(b, pos); pos == 0 {
				return key, false
			}
		}
		if pos >= len(b) {
			return key, false
		}
		value := uint(b[pos])
		pos++
		if value >= 0x80 {
			if pos < len(b) && b[pos] < 0x80 {
				value = value&0x7f | uint(b[pos])<<7
				pos++
			} else if value, pos = wideRef(b, pos); pos == 0 {
				return key, false
			}
		}
		if name >= uint(len(hashes)) || value >= uint(len(hashes)) {
			return key, false
		}
		n, v := &hashes[name], &hashes[value]
		k.lo += n.Lo * v.Hi
		k.hi += n.Hi * v.Lo
	}
	return k.key(), true
}

// wideRef reads a reference of two or three bytes; its first byte lies before pos. next is 0 if the reference has another length.
func wideRef(b []byte, pos int) (ref uint, next int) {
	if pos < len(b) && b[pos] < 0x80 {
		return uint(b[pos-1]&0x7f) | uint(b[pos])<<7, pos + 1
	}
	if pos+1 < len(b) && b[pos+1] < 0x80 {
		return uint(b[pos-1]&0x7f) | uint(b[pos]&0x7f)<<7 | uint(b[pos+1])<<14, pos + 2
	}
	return 0, 0
}

// fastSampleV2 reads a sample with a six-byte timestamp (1971 to 2109) and no start timestamp at the beginning of b, and returns
// the bytes after it.
func fastSampleV2(b []byte) (s Sample, rest []byte, ok bool) {
	const tag = seriesSampleV2<<3 | wireBytes
	var t []byte
	switch {
	case len(b) >= fastBytes && b[0] == tag && b[1] == fastBytes-2 && b[2] == sampleValue<<3|wireFixed64:
		s.Value = math.Float64frombits(binary.LittleEndian.Uint64(b[3:11]))
		t, rest = b[11:fastBytes], b[fastBytes:]
	case len(b) >= fastZeroBytes && b[0] == tag && b[1] == fastTimeBytes:
		t, rest = b[2:fastZeroBytes], b[fastZeroBytes:]
	default:
		return s, nil, false
	}
	if t[0] != sampleTime<<3|wireVarint || t[1]&t[2]&t[3]&t[4]&t[5] < 0x80 || t[6] >= 0x80 {
		return s, nil, false
	}
	s.TsMs = int64(t[1]&0x7f) | int64(t[2]&0x7f)<<7 | int64(t[3]&0x7f)<<14 | int64(t[4]&0x7f)<<21 |
		int64(t[5]&0x7f)<<28 | int64(t[6])<<35
	return s, rest, true
}

// fastMetadata reads metadata with fields in ascending order, each once, and references of at most three bytes.
func fastMetadata(b []byte) (m MetadataRefs, ok bool) {
	if len(b) >= 2 && b[0] == metadataTypeV2<<3|wireVarint && b[1] < 0x80 {
		m.Type = int32(b[1])
		b = b[2:]
	}
	if len(b) >= 2 && b[0] == metadataHelpV2<<3|wireVarint {
		m.HelpRef, b = fastRef(b)
	}
	if len(b) >= 2 && b[0] == metadataUnitV2<<3|wireVarint {
		m.UnitRef, b = fastRef(b)
	}
	return m, len(b) == 0
}

// fastRef reads the reference after a tag of one byte, and returns the bytes after it. If the reference is too long, it returns
// b.
func fastRef(b []byte) (ref uint32, rest []byte) {
	switch {
	case b[1] < 0x80:
		return uint32(b[1]), b[2:]
	case len(b) > 2 && b[2] < 0x80:
		return uint32(b[1]&0x7f) | uint32(b[2])<<7, b[3:]
	case len(b) > 3 && b[3] < 0x80:
		return uint32(b[1]&0x7f) | uint32(b[2]&0x7f)<<7 | uint32(b[3])<<14, b[4:]
	}
	return 0, b
}
