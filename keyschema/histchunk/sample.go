package histchunk

import (
	"errors"
	"fmt"
	"math"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/value"

	"halite/keyschema/column"
)

// Limits.
const (
	// BucketsMax bounds the buckets of a histogram, and also its spans, with both sides together. Prometheus has no limit.
	// An hour with a histogram of this size every 15 seconds still fits a chunk.
	BucketsMax = 1 << 16
	// NumbersMax bounds the decoded size of a chunk. A sample counts as its number of buckets plus sampleNumbers.
	NumbersMax = 1 << 24
	// sampleNumbers is the size of a histogram without buckets, in numbers of eight bytes.
	sampleNumbers = 32
)

// Errors. Callers wrap each with what is wrong.
var (
	// ErrCorrupt means that this version cannot have written the bytes as a chunk or record. No retry helps.
	ErrCorrupt = column.ErrCorrupt
	// ErrBadSamples means that the samples cannot be a chunk. They are empty, do not ascend strictly or are outside the
	// hour, or [Validate] refuses one of them.
	ErrBadSamples = errors.New("bad histograms")
	// ErrTooLarge means that the samples exceed NumbersMax. The caller has to split them into several chunks.
	ErrTooLarge = errors.New("histograms too large for a chunk")
)

// Sample is a histogram with its time. Exactly one of H and FH is set. A stale marker has the sum [value.StaleNaN].
type Sample struct {
	TsMs int64 // unix
	H    *histogram.Histogram
	FH   *histogram.FloatHistogram
}

// shape holds the properties that all samples of a group share.
type shape struct {
	float     bool
	schema    int32
	threshold float64
	custom    []float64
}

// equal compares the shapes bit by bit.
func (s *shape) equal(o *shape) bool {
	if s.float != o.float || s.schema != o.schema || len(s.custom) != len(o.custom) ||
		math.Float64bits(s.threshold) != math.Float64bits(o.threshold) {
		return false
	}
	if len(s.custom) == 0 || &s.custom[0] == &o.custom[0] {
		return true
	}
	for i, bound := range s.custom {
		if math.Float64bits(bound) != math.Float64bits(o.custom[i]) {
			return false
		}
	}
	return true
}

// view is a sample of either kind without its counts.
type view struct {
	shape
	sides
	hint  histogram.CounterResetHint
	sum   float64
	stale bool // a stale marker: only the hint is set
}

func viewOf(s *Sample) (v view) {
	empty := false
	if h := s.H; h != nil {
		v.shape = shape{false, h.Schema, h.ZeroThreshold, h.CustomValues}
		v.hint, v.sum = h.CounterResetHint, h.Sum
		v.sides = sides{h.PositiveSpans, h.NegativeSpans, len(h.PositiveBuckets), len(h.NegativeBuckets)}
		empty = h.Count == 0 && h.ZeroCount == 0
	} else {
		h := s.FH
		v.shape = shape{true, h.Schema, h.ZeroThreshold, h.CustomValues}
		v.hint, v.sum = h.CounterResetHint, h.Sum
		v.sides = sides{h.PositiveSpans, h.NegativeSpans, len(h.PositiveBuckets), len(h.NegativeBuckets)}
		empty = math.Float64bits(h.Count) == 0 && math.Float64bits(h.ZeroCount) == 0
	}
	v.stale = empty && value.IsStaleNaN(v.sum) && v.schema == 0 && math.Float64bits(v.threshold) == 0 &&
		len(v.custom)+v.spans()+v.buckets() == 0
	return v
}

// check returns the reason why a chunk cannot hold the sample.
func (v *view) check() error {
	switch {
	case !histogram.IsKnownSchema(v.schema):
		return histogram.UnknownSchemaError(v.schema)
	case v.hint > histogram.GaugeType:
		return fmt.Errorf("counter reset hint %d is unknown", v.hint)
	}
	if n := v.buckets(); n > BucketsMax {
		return fmt.Errorf("%d buckets, at most %d are allowed", n, BucketsMax)
	}
	if n := v.spans(); n > BucketsMax {
		return fmt.Errorf("%d spans, at most %d are allowed", n, BucketsMax)
	}
	if len(v.custom) > BucketsMax {
		return fmt.Errorf("%d custom bounds, at most %d are allowed", len(v.custom), BucketsMax)
	}
	if err := checkSpans(v.positiveSpans, v.positiveBuckets); err != nil {
		return fmt.Errorf("positive side: %w", err)
	}
	if err := checkSpans(v.negativeSpans, v.negativeBuckets); err != nil {
		return fmt.Errorf("negative side: %w", err)
	}
	return nil
}

// checkSpans checks that spans ascend and have one bucket for each count.
func checkSpans(spans []histogram.Span, buckets int) error {
	total := uint64(0)
	for i, s := range spans {
		if i > 0 && s.Offset < 0 {
			return fmt.Errorf("span number %d with offset %d: %w", i+1, s.Offset, histogram.ErrHistogramSpanNegativeOffset)
		}
		total += uint64(s.Length)
	}
	if total != uint64(buckets) {
		return fmt.Errorf("spans need %d buckets, have %d buckets: %w", total, buckets,
			histogram.ErrHistogramSpansBucketsMismatch)
	}
	return nil
}

// Validate returns an error if a histogram cannot be stored. The histogram then breaks a limit of this package, or a rule of
// Prometheus's Histogram.Validate or FloatHistogram.Validate. Unlike them, Validate accepts all schemas that Prometheus
// reads, −9 … 52. The error names the invalid schema, span, count or bound.
func Validate(s Sample) error {
	if (s.H == nil) == (s.FH == nil) {
		return errors.New("a sample must have either an integer or a float histogram")
	}
	v := viewOf(&s)
	if err := v.check(); err != nil {
		return err
	}
	reserved := !histogram.IsValidSchema(v.schema) // Prometheus has the same rules for all exponential schemas
	if s.H != nil {
		h := *s.H
		if reserved {
			h.Schema = 0
		}
		return h.Validate()
	}
	h := *s.FH
	if reserved {
		h.Schema = 0
	}
	return h.Validate()
}
