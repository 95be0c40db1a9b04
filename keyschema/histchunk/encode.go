package histchunk

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/prometheus/prometheus/model/histogram"

	"halite/keyschema/chunk"
	"halite/keyschema/column"
)

// version is the first byte of a chunk.
const version = 1

// The head of a run is (length − 1) << runShift and these flags.
const (
	runStale    = 0x01 // stale markers, which have no layout
	runPositive = 0x02 // an edit of the positive spans follows
	runNegative = 0x04
	runShift    = 3
	hintBits    = 2
)

// Encoder packs chunks. It keeps its scratch space between calls. It is not for concurrent use; the zero value is ready.
type Encoder struct {
	chunks  chunk.Encoder
	columns column.TaggedEncoder
	tsMs    []int64
	sums    []float64
	body    []byte
	group   group
	rest    []int64 // for each sample, its count minus the sum of its buckets
	// Counts of the buckets, sample by sample, and of the zero buckets. Then the counts of one bucket, which are one column.
	intCounts   []int64
	floatCounts []float64
	intZeros    []int64
	floatZeros  []float64
	intBucket   []int64
	floatBucket []float64
}

// Append packs the samples of one hour onto dst. [Validate] accepts each histogram. Times ascend strictly in [hourStartMs,
// hourStartMs + HourMs). An error wraps [ErrBadSamples] or [ErrTooLarge] and leaves dst unchanged.
func (e *Encoder) Append(dst []byte, hourStartMs int64, samples []Sample) ([]byte, error) {
	start := len(dst)
	e.tsMs, e.sums = slices.Grow(e.tsMs[:0], len(samples)), slices.Grow(e.sums[:0], len(samples))
	for i := range samples {
		sum := 0.0
		switch s := &samples[i]; {
		case s.H != nil:
			sum = s.H.Sum
		case s.FH != nil:
			sum = s.FH.Sum
		}
		e.tsMs, e.sums = append(e.tsMs, samples[i].TsMs), append(e.sums, sum)
	}
	var err error
	if e.body, err = e.chunks.Append(e.body[:0], hourStartMs, e.tsMs, e.sums); err != nil {
		return dst, fmt.Errorf("%w: %w", ErrBadSamples, err)
	}
	dst = binary.AppendUvarint(append(dst, version), uint64(len(e.body)))
	dst = append(dst, e.body...)
	numbers := 0
	for from := 0; from < len(samples); from += e.group.samples {
		if err := e.group.plan(samples[from:]); err != nil {
			return dst[:start], err
		}
		if numbers += e.group.numbers(); numbers > NumbersMax {
			return dst[:start], fmt.Errorf("%w: more than %d numbers", ErrTooLarge, NumbersMax)
		}
		dst = e.appendGroup(dst, samples[from:from+e.group.samples])
	}
	return dst, nil
}

// appendGroup appends the planned group.
func (e *Encoder) appendGroup(dst []byte, samples []Sample) []byte {
	g := &e.group
	dst = g.shape.append(append(dst, g.flags()))
	dst = binary.AppendUvarint(dst, uint64(len(g.runs)))
	var before layout
	for i := range g.runs {
		r := &g.runs[i]
		dst = appendRun(dst, r, &before)
		if !r.stale {
			before = r.layout
		}
	}
	for _, h := range g.hints {
		dst = binary.AppendUvarint(dst, uint64(h.length-1)<<hintBits|uint64(h.hint))
	}
	if g.counted == 0 {
		return dst
	}
	if g.float {
		e.loadFloats(samples)
		dst = e.columns.Append(dst, 0, e.rest)
		dst = e.chunks.AppendValues(dst, e.floatZeros)
		e.floatBucket = slices.Grow(e.floatBucket[:0], g.counted)[:g.counted]
		for _, key := range g.union {
			gather(g.runs, key, e.floatCounts, e.floatBucket)
			dst = e.chunks.AppendValues(dst, e.floatBucket)
		}
		return dst
	}
	e.loadIntegers(samples)
	dst = e.columns.Append(dst, 0, e.rest)
	dst = e.columns.Append(dst, 0, e.intZeros)
	e.intBucket = slices.Grow(e.intBucket[:0], g.counted)[:g.counted]
	for _, key := range g.union {
		gather(g.runs, key, e.intCounts, e.intBucket)
		dst = e.columns.Append(dst, 0, e.intBucket)
	}
	return dst
}

// appendRun appends the head of a run and the edits that turn the previous layout into its layout.
func appendRun(dst []byte, r *run, before *layout) []byte {
	head := uint64(r.length-1) << runShift
	if r.stale {
		return binary.AppendUvarint(dst, head|runStale)
	}
	changesPositive := !slices.Equal(before.positiveSpans, r.positiveSpans)
	changesNegative := !slices.Equal(before.negativeSpans, r.negativeSpans)
	if changesPositive {
		head |= runPositive
	}
	if changesNegative {
		head |= runNegative
	}
	dst = binary.AppendUvarint(dst, head)
	if changesPositive {
		dst = appendEdit(dst, before.positiveSpans, r.positiveSpans)
	}
	if changesNegative {
		dst = appendEdit(dst, before.negativeSpans, r.negativeSpans)
	}
	return dst
}

// appendEdit appends the difference between two lists of spans.
//
//	uvarint spans kept at the start, uvarint spans kept at the end, uvarint spans between them, and the spans between them
func appendEdit(dst []byte, before, after []histogram.Span) []byte {
	n := min(len(before), len(after))
	head, tail := 0, 0
	for head < n && before[head] == after[head] {
		head++
	}
	for tail < n-head && before[len(before)-1-tail] == after[len(after)-1-tail] {
		tail++
	}
	dst = binary.AppendUvarint(binary.AppendUvarint(dst, uint64(head)), uint64(tail))
	middle := after[head : len(after)-tail]
	return appendSpans(binary.AppendUvarint(dst, uint64(len(middle))), middle)
}

// loadIntegers fills the counts of the group from integer histograms.
func (e *Encoder) loadIntegers(samples []Sample) {
	g := &e.group
	e.intCounts = slices.Grow(e.intCounts[:0], g.cells)
	e.rest, e.intZeros = slices.Grow(e.rest[:0], g.counted), slices.Grow(e.intZeros[:0], g.counted)
	at := 0
	for i := range g.runs {
		r := &g.runs[i]
		for _, s := range samples[at : at+r.length] {
			if r.stale {
				continue
			}
			rest := s.H.Count - s.H.ZeroCount
			for _, side := range [2][]int64{s.H.PositiveBuckets, s.H.NegativeBuckets} {
				count := int64(0)
				for _, d := range side {
					count += d
					rest -= uint64(count)
					e.intCounts = append(e.intCounts, count)
				}
			}
			e.rest, e.intZeros = append(e.rest, int64(rest)), append(e.intZeros, int64(s.H.ZeroCount))
		}
		at += r.length
	}
}

// loadFloats fills the counts of the group from float histograms.
func (e *Encoder) loadFloats(samples []Sample) {
	g := &e.group
	e.floatCounts = slices.Grow(e.floatCounts[:0], g.cells)
	e.rest, e.floatZeros = slices.Grow(e.rest[:0], g.counted), slices.Grow(e.floatZeros[:0], g.counted)
	at := 0
	for i := range g.runs {
		r := &g.runs[i]
		for _, s := range samples[at : at+r.length] {
			if r.stale {
				continue
			}
			from := len(e.floatCounts)
			e.floatCounts = append(append(e.floatCounts, s.FH.PositiveBuckets...), s.FH.NegativeBuckets...)
			expected := math.Float64bits(sumOfFloats(s.FH.ZeroCount, e.floatCounts[from:]))
			e.rest = append(e.rest, int64(math.Float64bits(s.FH.Count)-expected))
			e.floatZeros = append(e.floatZeros, s.FH.ZeroCount)
		}
		at += r.length
	}
}

// sumOfFloats adds the counts in their order. It returns 0 for NaN, because the bits of a NaN sum depend on the processor.
func sumOfFloats(zero float64, counts []float64) float64 {
	sum := zero
	for _, c := range counts {
		sum += c
	}
	if math.IsNaN(sum) {
		return 0
	}
	return sum
}

// gather fills the column of one bucket from the counts of the samples. Samples without the bucket count 0. The keys of
// consecutive calls ascend.
func gather[T int64 | float64](runs []run, key int64, counts, out []T) {
	at, base := 0, 0
	for i := range runs {
		r := &runs[i]
		if r.stale {
			continue
		}
		n := len(r.keys)
		if part := out[at : at+r.length]; r.next < n && r.keys[r.next] == key {
			from := base + r.next
			for j := range part {
				part[j] = counts[from]
				from += n
			}
			r.next++
		} else {
			clear(part)
		}
		at += r.length
		base += n * r.length
	}
}
