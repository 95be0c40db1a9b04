package run

import (
	"slices"

	"halite/keyschema"
)

// Decoder unpacks runs and keeps its scratch space between them. It is not for concurrent use; the zero value is
// ready.
type Decoder struct {
	blocks    blockReader
	numbers   [blockLen]uint64
	ints      [blockLen]int64
	stretches []stretch
	times     []int64
}

// Decode appends the samples of a run to the two columns. hourStartMs is the start of the hour that the run belongs
// to. Bytes that Append did not make give an error that wraps [ErrCorrupt] and leave the columns' lengths as they
// were, or samples that some run could hold: storage has checksums, runs have none. What is allocated is bounded by
// the length of src, except that stretches of equal values at equal intervals may be as long as an hour allows: 3.6
// million samples.
func (d *Decoder) Decode(src []byte, hourStartMs int64, tsMs []int64, values []float64) ([]int64, []float64, error) {
	h, src, err := parseHead(src)
	if err != nil {
		return tsMs, values, err
	}
	if h.first&flagIrregular != 0 {
		times, src, err := d.decodeIrregular(src, h, hourStartMs, tsMs)
		if err != nil {
			return tsMs, values, err
		}
		all, err := d.decodeValues(src, h, values)
		if err != nil {
			return tsMs, values, err
		}
		return times, all, nil
	}
	base, interval, src, err := parseRegular(src, h.count)
	if err != nil {
		return tsMs, values, err
	}
	// The values come first: only they show whether the count is true.
	all, err := d.decodeValues(src, h, values)
	if err != nil {
		return tsMs, values, err
	}
	start, ts := len(tsMs), hourStartMs+base
	tsMs = grow(tsMs, h.count)
	for i := range tsMs[start:] {
		tsMs[start+i] = ts
		ts += interval
	}
	return tsMs, all, nil
}

// Stat reads the number of samples and their first and last timestamp. It checks the timestamps but not the values.
func (d *Decoder) Stat(src []byte, hourStartMs int64) (Info, error) {
	h, src, err := parseHead(src)
	if err != nil {
		return Info{}, err
	}
	if h.first&flagIrregular == 0 {
		base, interval, _, err := parseRegular(src, h.count)
		if err != nil {
			return Info{}, err
		}
		return Info{h.count, hourStartMs + base, hourStartMs + base + int64(h.count-1)*interval}, nil
	}
	times, _, err := d.decodeIrregular(src, h, hourStartMs, d.times[:0])
	if err != nil {
		return Info{}, err
	}
	d.times = times
	return Info{h.count, times[0], times[h.count-1]}, nil
}

// header is the start of every run.
type header struct {
	first byte
	count int
}

func parseHead(src []byte) (header, []byte, error) {
	if len(src) == 0 {
		return header{}, nil, corrupt("no bytes")
	}
	h := header{first: src[0]}
	if h.first&versionMask != version {
		return header{}, nil, corrupt("version %d is unknown", h.first>>6)
	}
	count, rest, ok := cutUvarint(src[1:])
	if !ok || count == 0 || count > countMax {
		return header{}, nil, corrupt("count %d", count)
	}
	h.count = int(count)
	return h, rest, nil
}

// parseRegular reads the timestamps of a run at equal intervals.
func parseRegular(src []byte, count int) (base, interval int64, rest []byte, err error) {
	b, src, ok := cutUvarint(src)
	if !ok || b >= keyschema.HourMs {
		return 0, 0, nil, corrupt("first timestamp")
	}
	if count == 1 {
		return int64(b), 0, src, nil
	}
	i, src, ok := cutUvarint(src)
	if !ok || i == 0 || i >= keyschema.HourMs || b+i*uint64(count-1) >= keyschema.HourMs {
		return 0, 0, nil, corrupt("%d samples every %d ms from %d ms on leave the hour", count, i, b)
	}
	return int64(b), int64(i), src, nil
}

// grow appends n elements that the caller overwrites.
func grow[T any](s []T, n int) []T { return slices.Grow(s, n)[:len(s)+n] }

// decodeValues reads the rest of a run, which has to end with src.
func (d *Decoder) decodeValues(src []byte, h header, values []float64) ([]float64, error) {
	listed := 0
	if h.first&flagSpecials != 0 {
		var err error
		if src, listed, err = d.specials(src, h.count); err != nil {
			return nil, err
		}
	}
	n := h.count - listed
	if n == 0 {
		if len(src) != 0 || h.first&modeMask != 0 {
			return nil, corrupt("%d bytes after special values only", len(src))
		}
		start := len(values)
		values = grow(values, h.count)
		d.spread(values[start:], listed)
		return values, nil
	}
	if len(src) == 0 {
		return nil, corrupt("no values")
	}
	scale := int(src[0] & scaleMask)
	near := src[0]&flagUlps != 0
	if src[0]&^(scaleMask|flagStep|flagUlps) != 0 || scale > exponentMax && (scale != scaleRaw || near) {
		return nil, corrupt("scale byte 0x%02x", src[0])
	}
	c, err := d.openColumn(src[1:], mode(h.first&modeMask), src[0]&flagStep != 0, scale == scaleRaw, n)
	if err != nil {
		return nil, err
	}
	start := len(values)
	values = grow(values, h.count)
	if err := c.floats(values[start:start+n], scale); err != nil {
		return nil, err
	}
	if near {
		if err := d.decodeUlps(values[start : start+n]); err != nil {
			return nil, err
		}
	}
	if len(d.blocks.src) != 0 {
		return nil, corrupt("%d bytes too many", len(d.blocks.src))
	}
	if listed > 0 {
		d.spread(values[start:], listed)
	}
	return values, nil
}
