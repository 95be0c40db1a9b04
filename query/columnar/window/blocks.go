package window

import (
	"math"

	"github.com/prometheus/prometheus/util/kahansum"

	"halite/query/columnar/grid"
	"halite/query/read"
)

const (
	// blockSamples is the number of samples in a block.
	blockSamples = 16
	// BlockwiseMin is the smallest number of samples at which a window is summed by blocks.
	BlockwiseMin = 4 * blockSamples
)

// blocks are compensated sums of blockSamples neighbouring samples each, from the first sample of the series.
type blocks struct {
	sums, comps []float64
	sizes       []float64 // sums of absolute values
	// usable is false if a sum is not finite. Then the result depends on the order of additions.
	usable bool
}

func (b *blocks) reset(vs []float64) {
	b.sums, b.comps, b.sizes, b.usable = b.sums[:0], b.comps[:0], b.sizes[:0], true
	for len(vs) >= blockSamples {
		var t total
		t.add(vs[:blockSamples])
		b.sums, b.comps, b.sizes = append(b.sums, t.sum), append(b.comps, t.c), append(b.sizes, t.size)
		b.usable = b.usable && !math.IsNaN(t.sum) && !math.IsInf(t.sum, 0)
		vs = vs[blockSamples:]
	}
}

// total is a compensated sum, and the sum of absolute values.
type total struct{ sum, c, size float64 }

func (t *total) add(vs []float64) {
	for _, v := range vs {
		t.sum, t.c = Kahan(v, t.sum, t.c)
		t.size += math.Abs(v)
	}
}

// cancels reports whether so much of the sum has cancelled out that the result may depend on the order of
// additions.
func (t *total) cancels() bool {
	return !(math.Abs(t.sum+t.c)*1000 >= t.size) || math.IsInf(t.size, 0)
}

// sum adds up the samples from lo to before hi.
func (b *blocks) sum(vs []float64, lo, hi int) total {
	var t total
	first, last := (lo+blockSamples-1)/blockSamples, hi/blockSamples
	t.add(vs[lo : first*blockSamples])
	for i := first; i < last; i++ {
		t.sum, t.c = kahansum.Inc(b.sums[i], t.sum, t.c)
		t.c += b.comps[i]
		t.size += b.sizes[i]
	}
	t.add(vs[last*blockSamples : hi])
	return t
}

// Overlapping reports whether windows share most of their samples. Only then do blocks save work.
func Overlapping(w *read.Windows) bool { return 2*w.StepMs <= w.RangeMs }

// shares reports whether windows share most of their samples and may also share sums.
func (w *Window) shares() bool { return !w.Exact && Overlapping(&w.Windows) }

// sharesSums reports whether running sums save work in a window of the samples [lo, hi). An instant query has steps of a
// millisecond.
func (w *Window) sharesSums(lo, hi int) bool {
	return hi-lo >= BlockwiseMin && w.shares() && w.Windows.StepMs > 1
}

// blockwise makes a Func of sums. direct computes a window from its samples. finish computes it from the sum, the
// compensation and the number of samples.
func blockwise(direct func(w *Window, k int) float64, finish func(sum, c, n float64) float64) Func {
	return func(w *Window, out []float64) {
		prepared := false
		for k := range out {
			lo, hi := w.Lo[k], w.Hi[k]
			if lo == hi {
				out[k] = grid.Absent()
				continue
			}
			if hi-lo >= BlockwiseMin && w.shares() && len(out) > 1 {
				if !prepared {
					w.blocks.reset(w.Values)
					prepared = true
				}
				if w.blocks.usable {
					if t := w.blocks.sum(w.Values, lo, hi); !t.cancels() {
						out[k] = finish(t.sum, t.c, float64(hi-lo))
						continue
					}
				}
			}
			out[k] = direct(w, k)
		}
	}
}
