package promadapter

import (
	"math"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
)

// iterator iterates over a series of floats for Prometheus's engine. It retains the batch of the series until it gets another
// series.
type iterator struct {
	samples seriesSamples
	at      int // -1 before the first sample, len(tsMs) when exhausted
}

var _ chunkenc.Iterator = (*iterator)(nil)

// release releases the samples.
func (it *iterator) release() {
	it.samples.release()
	it.at = 0
}

// reset puts a released iterator before the first sample of a series.
func (it *iterator) reset(s seriesSamples) { it.samples, it.at = s, -1 }

// Next implements chunkenc.Iterator.
func (it *iterator) Next() chunkenc.ValueType {
	if it.at+1 < len(it.samples.tsMs) {
		it.at++
		return chunkenc.ValFloat
	}
	if it.samples.next() {
		it.at = 0
		return chunkenc.ValFloat
	}
	it.at = len(it.samples.tsMs)
	return chunkenc.ValNone
}

// timeMs is int64. Its name keeps go vet from taking Seek for io.Seeker.Seek.
type timeMs = int64

// Seek implements chunkenc.Iterator. It moves forward only, and not at all if the current sample is late enough.
func (it *iterator) Seek(tsMs timeMs) chunkenc.ValueType {
	for {
		if kind := it.seek(tsMs); kind != chunkenc.ValNone || !it.samples.next() {
			return kind
		}
		it.at = 0
	}
}

// seek searches the current slice, first nearby, as the engine seeks step by step.
func (it *iterator) seek(tsMs timeMs) chunkenc.ValueType {
	from := max(it.at, 0)
	if from >= len(it.samples.tsMs) {
		it.at = len(it.samples.tsMs)
		return chunkenc.ValNone
	}
	if it.samples.tsMs[from] >= tsMs {
		it.at = from
		return chunkenc.ValFloat
	}
	// Invariant: tsMs[low] < the time sought ≤ tsMs[high], where tsMs[len(tsMs)] is infinity.
	low, stride := from, 1
	for low+stride < len(it.samples.tsMs) && it.samples.tsMs[low+stride] < tsMs {
		low += stride
		stride *= 2
	}
	high := min(low+stride, len(it.samples.tsMs))
	for high-low > 1 {
		if mid := int(uint(low+high) >> 1); it.samples.tsMs[mid] < tsMs {
			low = mid
		} else {
			high = mid
		}
	}
	it.at = high
	if high == len(it.samples.tsMs) {
		return chunkenc.ValNone
	}
	return chunkenc.ValFloat
}

// At implements chunkenc.Iterator.
func (it *iterator) At() (int64, float64) { return it.samples.tsMs[it.at], it.samples.values[it.at] }

// AtT implements chunkenc.Iterator.
func (it *iterator) AtT() int64 { return it.samples.tsMs[it.at] }

// AtST implements chunkenc.Iterator; the series has no start timestamps.
func (it *iterator) AtST() int64 { return 0 }

// AtHistogram implements chunkenc.Iterator; a series holds floats only.
func (it *iterator) AtHistogram(*histogram.Histogram) (int64, *histogram.Histogram) {
	return math.MinInt64, nil
}

// AtFloatHistogram implements chunkenc.Iterator; a series holds floats only.
func (it *iterator) AtFloatHistogram(*histogram.FloatHistogram) (int64, *histogram.FloatHistogram) {
	return math.MinInt64, nil
}

// Err implements chunkenc.Iterator. It returns the error of the read.
func (it *iterator) Err() error { return it.samples.err }
