package tombstone

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"

	"github.com/prometheus/prometheus/model/labels"
)

// ErrBadTombstone is returned for bytes that encode no tombstone.
var ErrBadTombstone = errors.New("bad tombstone")

const (
	formatBinary = 1
	flagPending  = 1
	checksumSize = 4
	// BytesMax bounds an encoded tombstone, and so the text of its selectors.
	BytesMax = 1 << 20
)

func castagnoli() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) }

// Append appends the encoded tombstone; see FORMAT.md.
func Append(dst []byte, t *Tombstone) []byte {
	start := len(dst)
	flags := byte(0)
	if t.Pending {
		flags |= flagPending
	}
	dst = append(dst, formatBinary, flags)
	dst = binary.AppendUvarint(dst, t.ID)
	dst = binary.AppendUvarint(dst, uint64(t.Seq))
	dst = binary.AppendUvarint(dst, uint64(t.FromMs))
	dst = binary.AppendUvarint(dst, uint64(t.ToMs))
	dst = binary.AppendVarint(dst, t.MadeMs)
	dst = binary.AppendUvarint(dst, uint64(len(t.Selectors)))
	for _, ms := range t.Selectors {
		dst = binary.AppendUvarint(dst, uint64(len(ms)))
		for _, m := range ms {
			dst = append(dst, byte(m.Type))
			dst = appendText(appendText(dst, m.Name), m.Value)
		}
	}
	return binary.LittleEndian.AppendUint32(dst, crc32.Checksum(dst[start:], castagnoli()))
}

func appendText(dst []byte, s string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

// Parse is the inverse of Append. All errors wrap ErrBadTombstone. The result does not refer to src.
func Parse(src []byte) (*Tombstone, error) {
	t, err := parse(src)
	if err != nil {
		return nil, fmt.Errorf("%w of %d bytes: %w", ErrBadTombstone, len(src), err)
	}
	return t, nil
}

var (
	errChecksum = errors.New("checksum mismatch")
	errShort    = errors.New("truncated or too long")
	errRange    = errors.New("a number is out of range")
)

func parse(src []byte) (*Tombstone, error) {
	if len(src) < 2+checksumSize || len(src) > BytesMax {
		return nil, errShort
	}
	body := src[:len(src)-checksumSize]
	if binary.LittleEndian.Uint32(src[len(body):]) != crc32.Checksum(body, castagnoli()) {
		return nil, errChecksum
	}
	if body[0] != formatBinary || body[1]&^flagPending != 0 {
		return nil, fmt.Errorf("format %d, flags %#x: written by a newer version", body[0], body[1])
	}
	c := cursor{rest: string(body[2:])}
	t := &Tombstone{
		Pending: body[1]&flagPending != 0, ID: c.uvarint(math.MaxInt64), Seq: uint32(c.uvarint(math.MaxUint32)),
		FromMs: int64(c.uvarint(math.MaxInt64)), ToMs: int64(c.uvarint(math.MaxInt64)), MadeMs: c.varint(),
	}
	for range c.count(2) {
		ms := make([]*labels.Matcher, 0, 1)
		for range c.count(3) {
			m, err := c.matcher()
			if err != nil {
				return nil, err
			}
			ms = append(ms, m)
		}
		t.Selectors = append(t.Selectors, ms)
	}
	if c.err == nil && c.rest != "" {
		c.err = errShort
	}
	if c.err != nil {
		return nil, c.err
	}
	return t, t.Validate()
}

// cursor reads fields in order. After the first error all fields are zero.
type cursor struct {
	rest string
	err  error
}

func (c *cursor) fail(err error) uint64 {
	if c.err == nil {
		c.err, c.rest = err, ""
	}
	return 0
}

func (c *cursor) uvarint(most uint64) uint64 {
	var v uint64
	for i := 0; i < len(c.rest) && i < binary.MaxVarintLen64; i++ {
		b := c.rest[i]
		v |= uint64(b&0x7f) << (7 * i)
		if b >= 0x80 {
			continue
		}
		if v > most || i == binary.MaxVarintLen64-1 && b > 1 {
			return c.fail(errRange)
		}
		c.rest = c.rest[i+1:]
		return v
	}
	return c.fail(errShort)
}

func (c *cursor) varint() int64 {
	u := c.uvarint(math.MaxUint64)
	return int64(u>>1) ^ -int64(u&1)
}

// count reads the number of elements that follow and take at least leastBytes each.
func (c *cursor) count(leastBytes int) int {
	n := c.uvarint(uint64(len(c.rest)))
	if n > uint64(len(c.rest)/leastBytes) {
		return int(c.fail(errShort))
	}
	return int(n)
}

func (c *cursor) text() string {
	n := c.uvarint(uint64(len(c.rest)))
	if n > uint64(len(c.rest)) {
		c.fail(errShort)
		return ""
	}
	s := c.rest[:n]
	c.rest = c.rest[n:]
	return s
}

func (c *cursor) matcher() (*labels.Matcher, error) {
	if c.rest == "" {
		c.fail(errShort)
		return nil, c.err
	}
	kind := labels.MatchType(c.rest[0])
	c.rest = c.rest[1:]
	name, value := c.text(), c.text()
	if c.err != nil {
		return nil, c.err
	}
	if kind < labels.MatchEqual || kind > labels.MatchNotRegexp {
		return nil, fmt.Errorf("matcher of unknown type %d", kind)
	}
	m, err := labels.NewMatcher(kind, name, value)
	if err != nil {
		return nil, fmt.Errorf("matcher on %q: %w", name, err)
	}
	return m, nil
}
