package remote

import (
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/prometheus/model/histogram"
	"google.golang.org/protobuf/proto"
)

// Exposition converts a histogram for the exposition formats, like Prometheus's federation. A histogram with custom buckets
// becomes a classic histogram. Any other becomes a native one, which only the protobuf formats can hold.
func Exposition(h *histogram.FloatHistogram) *dto.Histogram {
	out := &dto.Histogram{SampleCountFloat: proto.Float64(h.Count), SampleSum: proto.Float64(h.Sum)}
	if h.UsesCustomBuckets() {
		out.Bucket = classicBuckets(h)
		return out
	}
	out.Schema, out.ZeroThreshold = proto.Int32(h.Schema), proto.Float64(h.ZeroThreshold)
	out.ZeroCountFloat = proto.Float64(h.ZeroCount)
	out.NegativeCount, out.PositiveCount = h.NegativeBuckets, h.PositiveBuckets
	out.NegativeSpan, out.PositiveSpan = expositionSpans(h.NegativeSpans), expositionSpans(h.PositiveSpans)
	return out
}

func expositionSpans(spans []histogram.Span) []*dto.BucketSpan {
	var out []*dto.BucketSpan
	for _, s := range spans {
		out = append(out, &dto.BucketSpan{Offset: proto.Int32(s.Offset), Length: proto.Uint32(s.Length)})
	}
	return out
}

// classicBuckets returns cumulative buckets without the bucket of +Inf, which encoders add.
func classicBuckets(h *histogram.FloatHistogram) []*dto.Bucket {
	out := make([]*dto.Bucket, len(h.CustomValues))
	it, count := h.PositiveBucketIterator(), 0.0
	more := it.Next()
	for i, le := range h.CustomValues {
		for ; more && int(it.At().Index) <= i; more = it.Next() {
			if int(it.At().Index) == i {
				count += it.At().Count
			}
		}
		out[i] = &dto.Bucket{UpperBound: proto.Float64(le), CumulativeCountFloat: proto.Float64(count)}
	}
	return out
}
