package head

import (
	"fmt"
	"sort"

	"halite/keyschema"
	"halite/keyschema/exemplar"
	"halite/keyschema/histchunk"
)

// AppendHistograms appends the histograms of a series in [mintMs, maxtMs] to dst. Timestamps ascend without duplicates; the
// last written histogram wins. It sees what AppendSamples sees. It is free if the head has no histograms.
func (h *Head) AppendHistograms(ref uint32, mintMs, maxtMs int64, dst []histchunk.Sample) ([]histchunk.Sample, error) {
	d := h.copySeries(ref, keyschema.Histograms, mintMs, maxtMs)
	if d == nil {
		return dst, nil
	}
	defer d.put()
	for rows := d.rows; len(rows) > 0; {
		n := sameHourRows(rows)
		samples, err := d.unpackHistograms(rows[:n])
		if err != nil {
			return dst, err
		}
		from := sort.Search(len(samples), func(i int) bool { return samples[i].TsMs >= mintMs })
		to := sort.Search(len(samples), func(i int) bool { return samples[i].TsMs > maxtMs })
		dst = append(dst, samples[from:to]...)
		rows = rows[n:]
	}
	return dst, nil
}

// AppendExemplars appends the exemplars of a series in [mintMs, maxtMs] to dst, sorted by time and without duplicates. It
// sees what AppendSamples sees. It is free if the head has no exemplars.
func (h *Head) AppendExemplars(ref uint32, mintMs, maxtMs int64, dst []exemplar.Exemplar) ([]exemplar.Exemplar, error) {
	d := h.copySeries(ref, keyschema.Exemplars, mintMs, maxtMs)
	if d == nil {
		return dst, nil
	}
	defer d.put()
	for rows := d.rows; len(rows) > 0; {
		n := sameHourRows(rows)
		exemplars, err := d.unpackExemplars(rows[:n])
		if err != nil {
			return dst, err
		}
		for _, e := range exemplars {
			if e.TsMs >= mintMs && e.TsMs <= maxtMs {
				dst = append(dst, e)
			}
		}
		rows = rows[n:]
	}
	return dst, nil
}

// unpackHistograms unpacks rows of one hour, ordered by creation. The result is sorted and valid until the next call.
func (d *Reader) unpackHistograms(rows []rowCopy) ([]histchunk.Sample, error) {
	samples := d.histograms[:0]
	unsorted := len(rows) > 1
	for _, c := range rows {
		unsorted = unsorted || c.unsorted
		startMs := keyschema.HourStartMs(c.hour)
		for rest := d.packed[c.packedFrom:c.packed]; len(rest) > 0; {
			e, after, err := cutEntry(rest)
			if err != nil {
				return nil, err
			}
			rest = after
			if e.chunk {
				if samples, err = d.histogramDecoder.Decode(e.data, startMs, samples); err != nil {
					return nil, fmt.Errorf("head: unpack histograms: %w", err)
				}
				continue
			}
			sample, err := decodeHistogram(e, startMs)
			if err != nil {
				return nil, err
			}
			samples = append(samples, sample)
		}
	}
	d.histograms = samples
	if unsorted {
		samples = sortHistograms(samples)
	}
	return samples, nil
}

// unpackExemplars decodes the exemplars of rows of one hour, ordered by creation. The result is sorted by time, without
// duplicates, and valid until the next call.
func (d *Reader) unpackExemplars(rows []rowCopy) ([]exemplar.Exemplar, error) {
	d.entries = d.entries[:0]
	for _, c := range rows {
		var err error
		if d.entries, err = sortedExemplars(d.entries, d.packed[c.packedFrom:c.packed]); err != nil {
			return nil, err
		}
	}
	d.exemplars = d.exemplars[:0]
	for _, e := range dedupExemplars(d.entries) {
		x, rest, err := exemplar.DecodeRecord(e.data)
		if err == nil && len(rest) > 0 {
			err = errChain
		}
		if err != nil {
			return nil, fmt.Errorf("head: decode an exemplar: %w", err)
		}
		x.TsMs = keyschema.HourStartMs(rows[0].hour) + int64(e.offset)
		d.exemplars = append(d.exemplars, x)
	}
	return d.exemplars, nil
}

// Histograms unpacks the copied rows [from, to), which must be of one series, hour and kind. The histograms ascend by time
// without duplicates; the last written one wins. The result is valid until the next call.
func (d *Reader) Histograms(from, to int) ([]histchunk.Sample, error) {
	return d.unpackHistograms(d.rows[from:to])
}

// Exemplars is Histograms for rows of exemplars.
func (d *Reader) Exemplars(from, to int) ([]exemplar.Exemplar, error) {
	return d.unpackExemplars(d.rows[from:to])
}
