package promql

import (
	"math"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
)

// iterator walks over a column as Prometheus' engine wants it. It keeps what the column holds alive until it is given
// another.
type iterator struct {
	column
	at int // -1 before the first sample, len(tsMs) when exhausted
}

var _ chunkenc.Iterator = (*iterator)(nil)

// release lets go of the column.
func (it *iterator) release() {
	it.column.release()
	it.at = 0
}

// reset puts a released iterator before the first sample of a column.
func (it *iterator) reset(c column) { it.column, it.at = c, -1 }

// Next implements chunkenc.Iterator.
func (it *iterator) Next() chunkenc.ValueType {
	if it.at+1 < len(it.tsMs) {
		it.at++
		return chunkenc.ValFloat
	}
	if it.next() {
		it.at = 0
		return chunkenc.ValFloat
	}
	it.at = len(it.tsMs)
	return chunkenc.ValNone
}

// timeMs is int64 under a name that keeps go vet from taking Seek for that of an io.Seeker.
type timeMs = int64

// Seek implements chunkenc.Iterator: forward only, and not at all if the current sample will do.
func (it *iterator) Seek(tsMs timeMs) chunkenc.ValueType {
	for {
		if kind := it.seek(tsMs); kind != chunkenc.ValNone || !it.next() {
			return kind
		}
		it.at = 0
	}
}

// seek looks in the piece at hand, first in the neighbourhood, as the engine seeks step by step.
func (it *iterator) seek(tsMs timeMs) chunkenc.ValueType {
	from := max(it.at, 0)
	if from >= len(it.tsMs) {
		it.at = len(it.tsMs)
		return chunkenc.ValNone
	}
	if it.tsMs[from] >= tsMs {
		it.at = from
		return chunkenc.ValFloat
	}
	// Invariant: tsMs[low] < the time sought ≤ tsMs[high], with infinity behind the end.
	low, stride := from, 1
	for low+stride < len(it.tsMs) && it.tsMs[low+stride] < tsMs {
		low += stride
		stride *= 2
	}
	high := min(low+stride, len(it.tsMs))
	for high-low > 1 {
		if mid := int(uint(low+high) >> 1); it.tsMs[mid] < tsMs {
			low = mid
		} else {
			high = mid
		}
	}
	it.at = high
	if high == len(it.tsMs) {
		return chunkenc.ValNone
	}
	return chunkenc.ValFloat
}

// At implements chunkenc.Iterator.
func (it *iterator) At() (int64, float64) { return it.tsMs[it.at], it.values[it.at] }

// AtT implements chunkenc.Iterator.
func (it *iterator) AtT() int64 { return it.tsMs[it.at] }

// AtST implements chunkenc.Iterator; start timestamps are not stored.
func (it *iterator) AtST() int64 { return 0 }

// AtHistogram implements chunkenc.Iterator; a column holds floats only.
func (it *iterator) AtHistogram(*histogram.Histogram) (int64, *histogram.Histogram) {
	return math.MinInt64, nil
}

// AtFloatHistogram implements chunkenc.Iterator; a column holds floats only.
func (it *iterator) AtFloatHistogram(*histogram.FloatHistogram) (int64, *histogram.FloatHistogram) {
	return math.MinInt64, nil
}

// Err implements chunkenc.Iterator: the error of the read that should have filled the column.
func (it *iterator) Err() error { return it.err }
