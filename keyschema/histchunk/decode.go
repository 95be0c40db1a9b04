package histchunk

import (
	"math"
	"slices"

	"github.com/prometheus/prometheus/model/histogram"

	"halite/keyschema/chunk"
	"halite/keyschema/column"
)

// Decoder unpacks chunks. It keeps its scratch space between calls. It is not for concurrent use; the zero value is ready.
type Decoder struct {
	chunks  chunk.Decoder
	columns column.TaggedDecoder
	tsMs    []int64
	sums    []float64
	group   group
	rest    []int64
	// Counts of the zero buckets, and of one bucket.
	intZeros    []int64
	floatZeros  []float64
	intBucket   []int64
	floatBucket []float64
}

// Decode appends the samples of a chunk to dst. The samples of one call share memory: spans, custom bounds and the arrays of
// counts. Callers copy a histogram before they change it or keep it long. An error wraps [ErrCorrupt], names the byte, and
// leaves dst unchanged.
func (d *Decoder) Decode(src []byte, hourStartMs int64, dst []Sample) ([]Sample, error) {
	r := newReader(src)
	if err := d.decodeTimes(&r, hourStartMs); err != nil {
		return dst, err
	}
	start := len(dst)
	for from := 0; from < len(d.tsMs); from += d.group.samples {
		d.readGroup(&r, len(d.tsMs)-from)
		if r.err == nil {
			dst = d.appendSamples(dst, &r, from)
		}
		if r.err != nil {
			return dst[:start], r.err
		}
	}
	if len(r.src) != 0 {
		r.fail("%d trailing bytes", len(r.src))
	}
	if r.err != nil {
		return dst[:start], r.err
	}
	return dst, nil
}

// Stat reads the number of samples and their first and last time.
func (d *Decoder) Stat(src []byte, hourStartMs int64) (chunk.Info, error) {
	r := newReader(src)
	part := d.timesPart(&r)
	info, err := d.chunks.Stat(part, hourStartMs)
	if err != nil {
		r.wrap("times", err)
	}
	return info, r.err
}

// timesPart checks the version and returns the chunk of times and sums at the start of r.src.
func (d *Decoder) timesPart(r *reader) []byte {
	if v := r.byte("version"); v != version && r.err == nil {
		r.src = r.src[len(r.src):]
		r.err = column.Corrupt("byte 0: version %d is unknown", v)
	}
	size := r.uvarint("size of the times")
	if size > uint64(len(r.src)) {
		r.fail("times need %d bytes, only %d follow", size, len(r.src))
		return nil
	}
	return r.src[:size]
}

// decodeTimes reads the times and sums.
func (d *Decoder) decodeTimes(r *reader, hourStartMs int64) error {
	part := d.timesPart(r)
	if r.err != nil {
		return r.err
	}
	info, err := d.chunks.Stat(part, hourStartMs)
	if err != nil {
		r.wrap("times", err)
		return r.err
	}
	if r.charge(uint64(info.Count) * sampleNumbers); r.err != nil {
		return r.err
	}
	if d.tsMs, d.sums, err = d.chunks.Decode(part, hourStartMs, d.tsMs[:0], d.sums[:0]); err != nil {
		r.wrap("times and sums", err)
		return r.err
	}
	r.src = r.src[len(part):]
	return nil
}

// readGroup reads a group of at most n samples up to its columns.
func (d *Decoder) readGroup(r *reader, n int) {
	g := &d.group
	first := r.byte("flags of a group")
	if first&recordFlags != 0 {
		r.fail("bad flags %#x of a group", first)
		return
	}
	g.shape = r.shape(first)
	g.samples, g.counted, g.cells, g.runs, g.hints = 0, 0, 0, g.runs[:0], g.hints[:0]
	runs := r.uvarint("number of runs")
	if runs == 0 || runs > uint64(n) || runs > uint64(len(r.src)) {
		r.fail("%d runs of %d samples in %d bytes", runs, n, len(r.src))
		return
	}
	var before layout
	for range runs {
		if r.run(g.push(), &before, n-g.samples); r.err != nil {
			return
		}
		last := &g.runs[len(g.runs)-1]
		g.samples += last.length
		if !last.stale {
			g.counted += last.length
			g.cells += last.length * len(last.keys)
			before = last.layout
		}
	}
	for left := g.samples; left > 0; {
		h := r.uvarint("reset hints")
		if r.err != nil || h>>hintBits >= uint64(left) {
			r.fail("reset hints cover too many samples")
			return
		}
		length := int(h>>hintBits) + 1
		g.hints = append(g.hints, hintRun{length, histogram.CounterResetHint(h & (1<<hintBits - 1))})
		left -= length
	}
	if r.err == nil && !g.setUnion() {
		r.fail("more than %d numbers", NumbersMax)
	}
	r.charge(uint64(g.counted) * uint64(len(g.union)))
}

// run reads a run of at most n samples.
func (r *reader) run(out *run, before *layout, n int) {
	head := r.uvarint("run of samples")
	if r.err != nil || head>>runShift >= uint64(n) {
		r.fail("run has too many samples")
		return
	}
	out.length = int(head>>runShift) + 1
	if head&runStale != 0 {
		if out.stale = true; head&(runPositive|runNegative) != 0 {
			r.fail("a run of stale markers has spans")
		}
		return
	}
	out.sides = before.sides
	if head&runPositive != 0 {
		out.positiveSpans = r.edit(before.positiveSpans)
		out.positiveBuckets = r.buckets(out.positiveSpans)
	}
	if head&runNegative != 0 {
		out.negativeSpans = r.edit(before.negativeSpans)
		out.negativeBuckets = r.buckets(out.negativeSpans)
	}
	if out.buckets() > BucketsMax || out.spans() > BucketsMax {
		r.fail("%d buckets in %d spans", out.buckets(), out.spans())
	}
	if r.charge(uint64(out.numbers())); r.err == nil {
		out.setKeys()
	}
}

// edit reads spans that are stored as a difference from the previous spans.
func (r *reader) edit(before []histogram.Span) []histogram.Span {
	head, tail := r.uvarint("number of kept spans"), r.uvarint("number of kept spans")
	if n := uint64(len(before)); r.err != nil || head > n || tail > n-head {
		r.fail("more spans are kept than the %d that exist", n)
		return nil
	}
	middle := r.count("spans", 2)
	total := int(head+tail) + middle
	if r.err != nil || total > BucketsMax {
		r.fail("too many spans: %d", total)
		return nil
	}
	spans := make([]histogram.Span, total)
	copy(spans, before[:head])
	r.spans(spans[head : int(head)+middle])
	copy(spans[int(head)+middle:], before[len(before)-int(tail):])
	return nonEmpty(spans)
}

// integerColumn reads a column of integers into out.
func (d *Decoder) integerColumn(r *reader, out []int64) {
	if r.err != nil {
		return
	}
	tag, rest, err := d.columns.Decode(out, r.src)
	switch {
	case err != nil:
		r.wrap("column", err)
	case tag != 0:
		r.fail("bad kind of a column")
	default:
		r.src = rest
	}
}

// floatColumn reads a column of counted floats.
func (d *Decoder) floatColumn(r *reader, counted int, out []float64) []float64 {
	if r.err != nil {
		return out
	}
	all, rest, err := d.chunks.DecodeValues(r.src, counted, out[:0])
	if err != nil {
		r.wrap("column", err)
		return out
	}
	r.src = rest
	return all
}

// appendSamples reads the columns of the group and appends its samples. Their times start at d.tsMs[from].
func (d *Decoder) appendSamples(dst []Sample, r *reader, from int) []Sample {
	g := &d.group
	if g.float {
		counts := d.readFloats(r)
		if r.err != nil {
			return dst
		}
		return d.appendFloats(dst, counts, from)
	}
	counts := d.readIntegers(r)
	if r.err != nil {
		return dst
	}
	return d.appendIntegers(dst, counts, from)
}

// readIntegers reads the columns of integer histograms and returns the counts sample by sample.
func (d *Decoder) readIntegers(r *reader) []int64 {
	g := &d.group
	if g.counted == 0 {
		return nil
	}
	d.rest = slices.Grow(d.rest[:0], g.counted)[:g.counted]
	d.intZeros = slices.Grow(d.intZeros[:0], g.counted)[:g.counted]
	d.intBucket = slices.Grow(d.intBucket[:0], g.counted)[:g.counted]
	d.integerColumn(r, d.rest)
	d.integerColumn(r, d.intZeros)
	if r.err != nil {
		return nil
	}
	counts := make([]int64, g.cells)
	for _, key := range g.union {
		if d.integerColumn(r, d.intBucket); r.err != nil {
			return nil
		}
		scatter(g.runs, key, d.intBucket, counts)
	}
	return counts
}

// readFloats is readIntegers for float histograms.
func (d *Decoder) readFloats(r *reader) []float64 {
	g := &d.group
	if g.counted == 0 {
		return nil
	}
	d.rest = slices.Grow(d.rest[:0], g.counted)[:g.counted]
	d.integerColumn(r, d.rest)
	d.floatZeros = d.floatColumn(r, g.counted, d.floatZeros)
	if r.err != nil {
		return nil
	}
	counts := make([]float64, g.cells)
	for _, key := range g.union {
		if d.floatBucket = d.floatColumn(r, g.counted, d.floatBucket); r.err != nil {
			return nil
		}
		scatter(g.runs, key, d.floatBucket, counts)
	}
	return counts
}

// scatter is the inverse of gather.
func scatter[T int64 | float64](runs []run, key int64, in, counts []T) {
	at, base := 0, 0
	for i := range runs {
		r := &runs[i]
		if r.stale {
			continue
		}
		n := len(r.keys)
		if r.next < n && r.keys[r.next] == key {
			to := base + r.next
			for _, c := range in[at : at+r.length] {
				counts[to] = c
				to += n
			}
			r.next++
		}
		at += r.length
		base += n * r.length
	}
}

// sampleRuns yields the number and the run of each sample of the group in order.
func (g *group) sampleRuns(yield func(sample int, r *run) bool) {
	sample := 0
	for i := range g.runs {
		for range g.runs[i].length {
			if !yield(sample, &g.runs[i]) {
				return
			}
			sample++
		}
	}
}

// forEachHint yields the reset hint of each sample in order.
func (g *group) forEachHint(yield func(sample int, hint histogram.CounterResetHint) bool) {
	sample := 0
	for _, h := range g.hints {
		for range h.length {
			if !yield(sample, h.hint) {
				return
			}
			sample++
		}
	}
}

// splitCounts returns the counts of one sample's positive and negative buckets, and the rest.
func splitCounts[T int64 | float64](r *run, counts []T) (positive, negative, rest []T) {
	n, p := len(r.keys), r.positiveBuckets
	return nonEmpty(counts[:p:p]), nonEmpty(counts[p:n:n]), counts[n:]
}

// appendIntegers makes integer histograms from the counts. It turns the counts into differences in place.
func (d *Decoder) appendIntegers(dst []Sample, counts []int64, from int) []Sample {
	g := &d.group
	all := make([]histogram.Histogram, g.samples)
	dst = slices.Grow(dst, g.samples)
	counted := 0
	for i, run := range g.sampleRuns {
		h := &all[i]
		h.Sum = d.sums[from+i]
		dst = append(dst, Sample{TsMs: d.tsMs[from+i], H: h})
		if run.stale {
			continue
		}
		h.Schema, h.ZeroThreshold, h.CustomValues = g.schema, g.threshold, g.custom
		h.PositiveSpans, h.NegativeSpans = run.positiveSpans, run.negativeSpans
		h.ZeroCount = uint64(d.intZeros[counted])
		h.Count = uint64(d.rest[counted]) + h.ZeroCount
		counted++
		h.PositiveBuckets, h.NegativeBuckets, counts = splitCounts(run, counts)
		h.Count += toDeltas(h.PositiveBuckets) + toDeltas(h.NegativeBuckets)
	}
	for i, hint := range g.forEachHint {
		all[i].CounterResetHint = hint
	}
	return dst
}

// toDeltas turns counts into differences and returns the sum of the counts.
func toDeltas(counts []int64) (sum uint64) {
	before := int64(0)
	for i, c := range counts {
		sum += uint64(c)
		counts[i] = c - before
		before = c
	}
	return sum
}

// appendFloats makes float histograms from the counts.
func (d *Decoder) appendFloats(dst []Sample, counts []float64, from int) []Sample {
	g := &d.group
	all := make([]histogram.FloatHistogram, g.samples)
	dst = slices.Grow(dst, g.samples)
	counted := 0
	for i, run := range g.sampleRuns {
		h := &all[i]
		h.Sum = d.sums[from+i]
		dst = append(dst, Sample{TsMs: d.tsMs[from+i], FH: h})
		if run.stale {
			continue
		}
		h.Schema, h.ZeroThreshold, h.CustomValues = g.schema, g.threshold, g.custom
		h.PositiveSpans, h.NegativeSpans = run.positiveSpans, run.negativeSpans
		h.ZeroCount = d.floatZeros[counted]
		expected := math.Float64bits(sumOfFloats(h.ZeroCount, counts[:len(run.keys)]))
		h.Count = math.Float64frombits(expected + uint64(d.rest[counted]))
		counted++
		h.PositiveBuckets, h.NegativeBuckets, counts = splitCounts(run, counts)
	}
	for i, hint := range g.forEachHint {
		all[i].CounterResetHint = hint
	}
	return dst
}
