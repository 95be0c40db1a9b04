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
		ts.Samples = append(ts.Samples, prompb.Sample{Timestamp: t, Value: v, XXX_unrecognized: NegativeZero(ValueField, v)})
	case chunkenc.ValHistogram:
		t, h := it.AtHistogram(nil)
		one := prompb.FromIntHistogram(t, h)
		one.XXX_unrecognized = NegativeZero(SumField, h.Sum)
		ts.Histograms = append(ts.Histograms, one)
	case chunkenc.ValFloatHistogram:
		t, h := it.AtFloatHistogram(nil)
		one := prompb.FromFloatHistogram(t, h)
		one.XXX_unrecognized = NegativeZero(SumField, h.Sum)
		ts.Histograms = append(ts.Histograms, one)
	default:
		return fmt.Errorf("unknown kind of sample %v", typ)
	}
	return nil
}

// Fields of the messages of remote read and of remote write 2.0 that may hold -0.
const (
	ValueField protowire.Number = 1 // of a sample
	SumField   protowire.Number = 3 // of a histogram
)

// NegativeZero returns an encoded field if v is -0, otherwise nil. The generated encoder leaves out a value that equals 0, and -0
// equals 0. Added as XXX_unrecognized, the field reaches decoders like any other value.
func NegativeZero(field protowire.Number, v float64) []byte {
	if v != 0 || !math.Signbit(v) {
		return nil
	}
	return protowire.AppendFixed64(protowire.AppendTag(nil, field, protowire.Fixed64Type), math.Float64bits(v))
}
