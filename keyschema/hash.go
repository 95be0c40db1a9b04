package keyschema

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"math/bits"
)

// saltHash is the hash behind salts. Stored keys depend on it, so it must never change: FORMAT.md defines it and golden
// tests pin it. It folds eight bytes at a time through a 64×64→128-bit multiplication, which is several times faster than
// one byte at a time.
type saltHash uint64

// The constants are the first 64-bit groups of the hexadecimal expansion of pi's fraction, made odd.
const (
	saltSeed      = 0x243f6a8885a308d3
	saltWordMul   = 0x13198a2e03707345
	saltLengthMul = 0xa4093822299f31d1
	saltFinalMul  = 0x082efa98ec4e6c89
)

func fold(a, b uint64) uint64 {
	high, low := bits.Mul64(a, b)
	return high ^ low
}

// field mixes in s and its length, so the hash depends on the boundaries of fields.
func (h saltHash) field(s string) saltHash {
	state, length := uint64(h), uint64(len(s))
	for ; len(s) >= 8; s = s[8:] {
		word := uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 |
			uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
		state = fold(state^word, saltWordMul)
	}
	var tail uint64
	for i := len(s) - 1; i >= 0; i-- {
		tail = tail<<8 | uint64(s[i])
	}
	state = fold(state^tail, saltWordMul)
	return saltHash(fold(state^length, saltLengthMul))
}

// modulo returns the hash reduced to 0..n−1.
func (h saltHash) modulo(n int) int {
	return int(fold(uint64(h)^saltSeed, saltFinalMul) % uint64(n))
}

const (
	tagsHashBytes  = 20
	tagsHashDigits = 2 * tagsHashBytes
)

// appendTagsHash appends the content hash of tags as 40 hexadecimal digits. It hashes all names and values in order,
// each preceded by its length as a uvarint. It keeps the first 20 bytes of the SHA-256. Tags are sorted by name. The
// hash is cryptographic, because equal hashes would merge two series permanently.
func appendTagsHash(dst []byte, tags []Tag) []byte {
	start := len(dst)
	for i := range tags {
		dst = append(binary.AppendUvarint(dst, uint64(len(tags[i].Name))), tags[i].Name...)
		dst = append(binary.AppendUvarint(dst, uint64(len(tags[i].Value))), tags[i].Value...)
	}
	sum := sha256.Sum256(dst[start:])
	return hex.AppendEncode(dst[:start], sum[:tagsHashBytes])
}
