package remote

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/klauspost/compress/snappy"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/prompb"
	promstorage "github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"google.golang.org/protobuf/encoding/protowire"
)

// DecodeRead decodes a snappy-compressed prometheus.ReadRequest of at most bytesMax decoded bytes.
func DecodeRead(body []byte, bytesMax int64) (*prompb.ReadRequest, error) {
	// The stated size is compared before anything is allocated for it.
	size, err := snappy.DecodedLen(body)
	if err != nil {
		return nil, err
	}
	if int64(size) > bytesMax {
		return nil, fmt.Errorf("snappy: decoded length %d exceeds limit %d", size, bytesMax)
	}
	decoded, err := snappy.Decode(nil, body)
	if err != nil {
		return nil, err
	}
	req := new(prompb.ReadRequest)
	if err := req.Unmarshal(decoded); err != nil {
		return nil, err
	}
	return req, nil
}

// ResponseType returns the first of the accepted types that this package supports. An empty list accepts whole samples.
func ResponseType(accepted []prompb.ReadRequest_ResponseType) (prompb.ReadRequest_ResponseType, error) {
	known := []prompb.ReadRequest_ResponseType{prompb.ReadRequest_SAMPLES, prompb.ReadRequest_STREAMED_XOR_CHUNKS}
	if len(accepted) == 0 {
		return prompb.ReadRequest_SAMPLES, nil
	}
	for _, typ := range accepted {
		if slices.Contains(known, typ) {
			return typ, nil
		}
	}
	return 0, fmt.Errorf("server does not support any of the requested response types: %v; supported: %v", accepted, known)
}

// Query is one query of a read request. MintMs and MaxtMs are unix milliseconds, inclusive. A query without matchers finds
// nothing, as in Prometheus.
type Query struct {
	MintMs, MaxtMs int64
	Hints          *promstorage.SelectHints // may be nil
	Matchers       []*labels.Matcher
}

// Queries returns the queries of a read request. It fails if a matcher is not valid.
func Queries(list []*prompb.Query) ([]Query, error) {
	types := map[prompb.LabelMatcher_Type]labels.MatchType{
		prompb.LabelMatcher_EQ: labels.MatchEqual, prompb.LabelMatcher_NEQ: labels.MatchNotEqual,
		prompb.LabelMatcher_RE: labels.MatchRegexp, prompb.LabelMatcher_NRE: labels.MatchNotRegexp,
	}
	queries := make([]Query, 0, len(list))
	for _, q := range list {
		query := Query{MintMs: q.StartTimestampMs, MaxtMs: q.EndTimestampMs}
		for _, m := range q.Matchers {
			typ, ok := types[m.Type]
			if !ok {
				return nil, errors.New("invalid matcher type")
			}
			matcher, err := labels.NewMatcher(typ, m.Name, m.Value)
			if err != nil {
				return nil, err
			}
			query.Matchers = append(query.Matchers, matcher)
		}
		if h := q.Hints; h != nil {
			query.Hints = &promstorage.SelectHints{
				Start: h.StartMs, End: h.EndMs, Step: h.StepMs, Func: h.Func, Grouping: h.Grouping, Range: h.RangeMs, By: h.By,
			}
		}
		queries = append(queries, query)
	}
	return queries, nil
}

// AppendSample appends the current sample of it to ts. typ is its kind.
func AppendSample(ts *prompb.TimeSeries, it chunkenc.Iterator, typ chunkenc.ValueType) error {
	switch typ {
	case chunkenc.ValFloat:
		t, v := it.At()
		ts.Samples = append(ts.Samples, readSample(t, v))
	case chunkenc.ValHistogram:
		t, h := it.AtHistogram(nil)
		ts.Histograms = append(ts.Histograms, prompb.FromIntHistogram(t, h))
	case chunkenc.ValFloatHistogram:
		t, h := it.AtFloatHistogram(nil)
		ts.Histograms = append(ts.Histograms, prompb.FromFloatHistogram(t, h))
	default:
		return fmt.Errorf("unknown kind of sample %v", typ)
	}
	return nil
}

// readSample returns a sample that keeps the sign of zero. The generated encoder leaves out a value that equals 0, and -0
// equals 0. So the field is added in encoded form; decoders read it like any other value.
func readSample(tsMs int64, v float64) prompb.Sample {
	s := prompb.Sample{Timestamp: tsMs, Value: v}
	if v == 0 && math.Signbit(v) {
		s.XXX_unrecognized = protowire.AppendFixed64(protowire.AppendTag(nil, 1, protowire.Fixed64Type), math.Float64bits(v))
	}
	return s
}
