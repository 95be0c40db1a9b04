package chunk

import (
	"slices"

	"halite/keyschema/column"
)

// Decoder unpacks chunks. It keeps its scratch space between calls. It is not for concurrent use; the zero value is ready.
type Decoder struct {
	columns column.Decoder
	runs    []run
	times   []int64
}

// Decode appends the samples of a chunk to the two columns. hourStartMs is the start of the chunk's hour.
//
// Chunks have no checksums; storage has. For bytes that Append did not make, Decode returns some samples or an error that
// wraps [ErrCorrupt]. The error leaves the lengths of the columns unchanged. The length of src bounds the allocated memory,
// except for runs of equal values at equal intervals. Such a run may fill the hour with 3.6 million samples.
func (d *Decoder) Decode(src []byte, hourStartMs int64, tsMs []int64, values []float64) ([]int64, []float64, error) {
	h, src, err := parseHeader(src)
	if err != nil {
		return tsMs, values, err
	}
	if h.first&flagIrregular != 0 {
		times, src, err := d.decodeIrregular(src, &h, hourStartMs, tsMs)
		if err != nil {
			return tsMs, values, err
		}
		all, err := d.decodeLastValues(src, &h, values)
		if err != nil {
			return tsMs, values, err
		}
		return times, all, nil
	}
	// The values come first, because only they show whether the count is true.
	all, err := d.decodeLastValues(src, &h, values)
	if err != nil {
		return tsMs, values, err
	}
	start, ts := len(tsMs), hourStartMs+h.offsetMs
	tsMs = grow(tsMs, h.count)
	for i := range tsMs[start:] {
		tsMs[start+i] = ts
		ts += h.intervalMs
	}
	return tsMs, all, nil
}

// Stat reads the number of samples and their first and last timestamp. It checks the timestamps but not the values.
func (d *Decoder) Stat(src []byte, hourStartMs int64) (Info, error) {
	h, src, err := parseHeader(src)
	if err != nil {
		return Info{}, err
	}
	if h.first&flagIrregular == 0 {
		first := hourStartMs + h.offsetMs
		return Info{h.count, first, first + int64(h.count-1)*h.intervalMs}, nil
	}
	times, _, err := d.decodeIrregular(src, &h, hourStartMs, d.times[:0])
	if err != nil {
		return Info{}, err
	}
	d.times = times
	return Info{h.count, times[0], times[h.count-1]}, nil
}

// grow appends n elements that the caller overwrites.
func grow[T any](s []T, n int) []T { return slices.Grow(s, n)[:len(s)+n] }

// decodeLastValues reads the rest of a chunk, which must end where src ends.
func (d *Decoder) decodeLastValues(src []byte, h *header, values []float64) ([]float64, error) {
	values, rest, err := d.decodeValues(src, h.first&flagExceptions != 0, h.count, values)
	if err == nil && len(rest) != 0 {
		return nil, column.Corrupt("%d trailing bytes", len(rest))
	}
	return values, err
}

// decodeValues reads the exception values, if there are any, and the value column of count samples. It returns the bytes
// after them.
func (d *Decoder) decodeValues(src []byte, exceptions bool, count int, values []float64) ([]float64, []byte, error) {
	listed := 0
	if exceptions {
		var err error
		if src, listed, err = d.readExceptions(src, count); err != nil {
			return nil, nil, err
		}
	}
	n := count - listed
	if n == 0 {
		start := len(values)
		values = grow(values, count)
		d.spread(values[start:], listed)
		return values, src, nil
	}
	if len(src) == 0 {
		return nil, nil, column.Corrupt("the value column is missing")
	}
	kind, scale := src[0], int(src[0]>>scaleShift&scaleMask)
	raw, near := scale == scaleRaw, scale == scaleNear
	src = src[1:]
	if near || scale == scaleLong {
		if len(src) == 0 || src[0] > exponentMax {
			return nil, nil, column.Corrupt("exponent")
		}
		scale, src = int(src[0]), src[1:]
	}
	var c column.Reader
	var err error
	if raw {
		scale = exponentRaw
		c, err = d.columns.OpenBits(src, kind, n)
	} else {
		c, err = d.columns.Open(src, kind, n)
	}
	if err != nil {
		return nil, nil, err
	}
	start := len(values)
	values = grow(values, count)
	if err := floats(&c, values[start:start+n], scale); err != nil {
		return nil, nil, err
	}
	if near {
		if err := d.decodeUlps(values[start : start+n]); err != nil {
			return nil, nil, err
		}
	}
	if listed > 0 {
		d.spread(values[start:], listed)
	}
	return values, d.columns.Rest(), nil
}

// Columns returns the decoder of the columns. The next call of a method of d overwrites its contents.
func (d *Decoder) Columns() *column.Decoder { return &d.columns }
