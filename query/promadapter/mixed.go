package promadapter

import (
	"cmp"
	"math"
	"slices"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"halite/keyschema/histchunk"
)

// mixedIterator is an iterator of a series that has histograms or start timestamps in addition to floats. No float has the
// time of a histogram.
type mixedIterator struct {
	samples                 seriesSamples
	float, histogram, start int // the current sample, or the next one of its kind
	kind                    chunkenc.ValueType
	tsMs                    int64
}

var _ chunkenc.Iterator = (*mixedIterator)(nil)

// mixed returns an iterator of series i. It reuses an iterator of the same type.
func (l *loader) mixed(i int, it chunkenc.Iterator) *mixedIterator {
	out, ok := it.(*mixedIterator)
	if !ok {
		out = new(mixedIterator)
	}
	out.release()
	out.samples = l.series(i)
	return out
}

// release releases the samples.
func (it *mixedIterator) release() {
	it.samples.release()
	*it = mixedIterator{}
}

// Next implements chunkenc.Iterator.
func (it *mixedIterator) Next() chunkenc.ValueType {
	switch it.kind {
	case chunkenc.ValNone:
	case chunkenc.ValFloat:
		it.float++
	default:
		it.histogram++
	}
	return it.settle()
}

// settle makes the earlier of the next float and the next histogram the current sample.
func (it *mixedIterator) settle() chunkenc.ValueType {
	for {
		s := &it.samples
		floats, histograms := s.tsMs[it.float:], s.histograms()[it.histogram:]
		switch {
		case len(histograms) > 0 && (len(floats) == 0 || histograms[0].TsMs < floats[0]):
			it.tsMs, it.kind = histograms[0].TsMs, chunkenc.ValHistogram
			if histograms[0].FH != nil {
				it.kind = chunkenc.ValFloatHistogram
			}
			return it.kind
		case len(floats) > 0:
			it.tsMs, it.kind = floats[0], chunkenc.ValFloat
			return it.kind
		}
		it.float, it.histogram, it.start = 0, 0, 0
		if !s.next() {
			it.kind = chunkenc.ValNone
			it.float, it.histogram = len(s.tsMs), len(s.histograms())
			return it.kind
		}
	}
}

// Seek implements chunkenc.Iterator. It moves forward only, and not at all if the current sample is late enough.
func (it *mixedIterator) Seek(tsMs timeMs) chunkenc.ValueType {
	if it.kind != chunkenc.ValNone && it.tsMs >= tsMs {
		return it.kind
	}
	for {
		n, _ := slices.BinarySearch(it.samples.tsMs[it.float:], tsMs)
		it.float += n
		n, _ = slices.BinarySearchFunc(it.samples.histograms()[it.histogram:], tsMs,
			func(s histchunk.Sample, tsMs int64) int { return cmp.Compare(s.TsMs, tsMs) })
		it.histogram += n
		if kind := it.settle(); kind == chunkenc.ValNone || it.tsMs >= tsMs {
			return kind
		}
	}
}

// At implements chunkenc.Iterator.
func (it *mixedIterator) At() (int64, float64) { return it.tsMs, it.samples.values[it.float] }

// AtT implements chunkenc.Iterator.
func (it *mixedIterator) AtT() int64 { return it.tsMs }

// AtST implements chunkenc.Iterator. It returns 0 if the sample has no start timestamp.
func (it *mixedIterator) AtST() int64 {
	starts := it.samples.records.StartTimes
	for it.start < len(starts.TsMs) && starts.TsMs[it.start] < it.tsMs {
		it.start++
	}
	if it.start < len(starts.TsMs) && starts.TsMs[it.start] == it.tsMs {
		return int64(starts.Values[it.start])
	}
	return 0
}

// AtHistogram implements chunkenc.Iterator. The result is a copy.
func (it *mixedIterator) AtHistogram(to *histogram.Histogram) (int64, *histogram.Histogram) {
	if it.kind != chunkenc.ValHistogram {
		return math.MinInt64, nil
	}
	h := it.samples.histograms()[it.histogram].H
	if to == nil {
		return it.tsMs, h.Copy()
	}
	h.CopyTo(to)
	return it.tsMs, to
}

// AtFloatHistogram implements chunkenc.Iterator. It also converts a histogram of integers. The result is a copy.
func (it *mixedIterator) AtFloatHistogram(to *histogram.FloatHistogram) (int64, *histogram.FloatHistogram) {
	if it.kind != chunkenc.ValHistogram && it.kind != chunkenc.ValFloatHistogram {
		return math.MinInt64, nil
	}
	s := it.samples.histograms()[it.histogram]
	switch {
	case s.H != nil:
		return it.tsMs, s.H.ToFloat(to)
	case to == nil:
		return it.tsMs, s.FH.Copy()
	}
	s.FH.CopyTo(to)
	return it.tsMs, to
}

// Err implements chunkenc.Iterator.
func (it *mixedIterator) Err() error { return it.samples.err }
