package head

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"halite/keyschema"
	"halite/keyschema/histchunk"
)

// Record is an encoded histogram or exemplar of the series with the number Ref: a record of histchunk or exemplar with time 0.
// TsMs lies between 1970 and the end of keyschema.HourMax.
type Record struct {
	Ref  uint32
	TsMs int64
	Data []byte
}

const (
	// packedRecords is the number of histograms that are packed as one chunk.
	packedRecords = 16
	// ExemplarsUpperBound is the largest Options.ExemplarsMax. The counter of a row's records has only eight bits.
	ExemplarsUpperBound = 128
)

// The chain of packed blocks of a row of histograms or exemplars has entries: first chunks of histograms, then records that are
// not packed yet. The lower eight bits of row.counts are the number of these records.
//
//	uvarint size << 1 | 1, chunk
//	uvarint size << 1, offset in the hour (3 bytes), record
type chainEntry struct {
	chunk  bool
	offset uint32
	data   []byte // of the chunk or the record
}

var errChain = errors.New("head: the records of a row are corrupt")

// cutEntry returns the first entry of a chain.
func cutEntry(chain []byte) (e chainEntry, rest []byte, err error) {
	head, n := binary.Uvarint(chain)
	if n <= 0 {
		return e, nil, errChain
	}
	chain = chain[n:]
	if e.chunk = head&1 != 0; !e.chunk {
		if len(chain) < offsetBytes {
			return e, nil, errChain
		}
		e.offset, chain = readOffset(chain), chain[offsetBytes:]
	}
	if head>>1 > uint64(len(chain)) {
		return e, nil, errChain
	}
	e.data = chain[:head>>1]
	return e, chain[head>>1:], nil
}

func appendChunk(dst, chunk []byte) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(chunk))<<1|1), chunk...)
}

func appendRecord(dst []byte, offset uint32, record []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(record))<<1)
	dst = append(dst, byte(offset), byte(offset>>8), byte(offset>>16))
	return append(dst, record...)
}

// StoreRecords stores histograms or exemplars of one stripe in their order. Otherwise it is like Append.
func (h *Head) StoreRecords(
	stripe int, kind keyschema.SampleKind, records []Record, segment uint64, opened []OpenedRow,
) ([]OpenedRow, error) {
	if segment > math.MaxUint32 {
		return opened, segmentFault(segment)
	}
	s := &h.stripes[stripe]
	defer h.addTotals(s, s.bytes, s.count, s.samples)
	tick := h.tick.Load()
	for i := range records {
		record := &records[i]
		r, made := s.openRow(h.slot(record.Ref), record.Ref, placeOf(record.TsMs, kind), segment, tick)
		if made {
			opened = append(opened, OpenedRow{Ref: record.Ref, Hour: r.hour()})
			if err := h.packPreviousRow(s, r); err != nil {
				return opened, err
			}
		}
		if err := h.addRecord(s, r, uint32(record.TsMs-keyschema.HourStartMs(r.hour())), record.Data); err != nil {
			return opened, err
		}
		r.latest = r.latest&^lowMask | tick&lowMask
		h.sealFull(r)
	}
	return opened, nil
}

// addRecord stores one record. If it cannot pack the earlier records, it returns an error and does not store the record.
func (h *Head) addRecord(s *stripe, r *row, offset uint32, record []byte) error {
	if offset <= r.maxOffset() && r.counts != 0 {
		r.hourFlags |= flagUnsorted
	} else {
		r.latest = offset<<lowBits | r.latest&lowMask
	}
	var err error
	switch exemplars := r.kind() == keyschema.Exemplars; {
	case !exemplars && r.tailLen() >= packedRecords:
		err = s.packHistograms(r)
	case exemplars && r.tailLen() >= h.opts.ExemplarsMax+h.opts.ExemplarsMax/4:
		err = s.dropExemplars(r, h.opts.ExemplarsMax)
	}
	if err != nil {
		return err
	}
	s.packed = appendRecord(s.packed[:0], offset, record)
	s.appendToChain(r, s.packed)
	r.counts += oneSample
	s.samples++
	return nil
}

// packHistograms packs the records of a row as a chunk after its other chunks.
func (s *stripe) packHistograms(r *row) error {
	s.chain = s.appendPacked(s.chain[:0], r)
	rest, chunks := s.chain, 0 // size of the entries that are chunks
	s.histograms = s.histograms[:0]
	startMs := keyschema.HourStartMs(r.hour())
	for len(rest) > 0 {
		e, after, err := cutEntry(rest)
		if err != nil {
			return err
		}
		rest = after
		if e.chunk {
			chunks = len(s.chain) - len(rest)
			continue
		}
		sample, err := decodeHistogram(e, startMs)
		if err != nil {
			return err
		}
		s.histograms = append(s.histograms, sample)
	}
	samples := s.histograms
	if r.is(flagUnsorted) {
		samples = sortHistograms(samples)
	}
	chunk, err := s.histogramEncoder.Append(s.packed[:0], startMs, samples)
	clear(s.histograms)
	if err != nil {
		return fmt.Errorf("pack histograms of an open row: %w", err)
	}
	s.packed = chunk
	s.replaceChain(r, appendChunk(s.chain[:chunks], chunk))
	r.counts &^= lowMask
	return nil
}

// decodeHistogram decodes a record of a row that begins at startMs.
func decodeHistogram(e chainEntry, startMs int64) (histchunk.Sample, error) {
	sample, rest, err := histchunk.DecodeRecord(e.data)
	if err == nil && len(rest) > 0 {
		err = errChain
	}
	if err != nil {
		return sample, fmt.Errorf("head: decode a histogram: %w", err)
	}
	sample.TsMs = startMs + int64(e.offset)
	return sample, nil
}

// dropExemplars removes duplicate exemplars of a row, and the oldest exemplars above the limit.
func (s *stripe) dropExemplars(r *row, most int) error {
	s.chain = s.appendPacked(s.chain[:0], r)
	entries, err := sortedExemplars(nil, s.chain)
	if err != nil {
		return err
	}
	entries = entries[max(0, len(entries)-most):]
	s.packed = s.packed[:0]
	for _, e := range entries {
		s.packed = appendRecord(s.packed, e.offset, e.data)
	}
	s.replaceChain(r, s.packed)
	s.samples -= int64(r.samples() - len(entries))
	r.counts = uint32(len(entries)) * oneSample
	r.hourFlags &^= flagUnsorted
	return nil
}

// sortedExemplars appends the exemplars of chains by time and arrival. Among equal exemplars it keeps the
// first.
func sortedExemplars(dst []chainEntry, chain []byte) ([]chainEntry, error) {
	from := len(dst)
	for len(chain) > 0 {
		e, rest, err := cutEntry(chain)
		if err != nil {
			return dst, err
		}
		dst, chain = append(dst, e), rest
	}
	return dst[:from+len(dedupExemplars(dst[from:]))], nil
}

// dedupExemplars sorts exemplars by time and arrival, and removes those that equal an earlier one.
func dedupExemplars(entries []chainEntry) []chainEntry {
	slices.SortStableFunc(entries, func(a, b chainEntry) int { return int(a.offset) - int(b.offset) })
	kept := entries[:0]
	for _, e := range entries {
		same := func(o chainEntry) bool { return string(o.data) == string(e.data) }
		first := len(kept)
		for first > 0 && kept[first-1].offset == e.offset {
			first--
		}
		if !slices.ContainsFunc(kept[first:], same) {
			kept = append(kept, e)
		}
	}
	return kept
}

// sortHistograms sorts by time. Among histograms with one timestamp it keeps the last to arrive. It changes
// samples.
func sortHistograms(samples []histchunk.Sample) []histchunk.Sample {
	slices.SortStableFunc(samples, func(a, b histchunk.Sample) int {
		switch {
		case a.TsMs < b.TsMs:
			return -1
		case a.TsMs > b.TsMs:
			return 1
		}
		return 0
	})
	n := 0
	for i := range samples {
		if i+1 < len(samples) && samples[i+1].TsMs == samples[i].TsMs {
			continue
		}
		samples[n] = samples[i]
		n++
	}
	return samples[:n]
}

// packRecords packs the records of a row that will probably get few more.
func (s *stripe) packRecords(r *row) error {
	if r.kind() != keyschema.Histograms || r.tailLen() < packedRecords/4 {
		return nil
	}
	return s.packHistograms(r)
}
