package api

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	promstorage "github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"google.golang.org/protobuf/proto"

	"halite/api/netlimit"
	"halite/api/remote"
)

// familyBytes is the approximate memory of a series besides its labels: in the list, and in its metric's family with a dozen
// labels.
const familyBytes = 1 << 10

// newest is the last sample of a series.
type newest struct {
	labels labels.Labels
	tsMs   int64
	value  float64
	// histogram is set instead of value for a native histogram.
	histogram *histogram.FloatHistogram
}

// familyType is the type of the metric family that holds the sample.
func (n *newest) familyType() dto.MetricType {
	switch {
	case n.histogram == nil:
		return dto.MetricType_UNTYPED
	case n.histogram.CounterResetHint == histogram.GaugeType:
		return dto.MetricType_GAUGE_HISTOGRAM
	}
	return dto.MetricType_HISTOGRAM
}

// stale reports whether the series has ended.
func (n *newest) stale() bool {
	if n.histogram != nil {
		return value.IsStaleNaN(n.histogram.Sum)
	}
	return value.IsStaleNaN(n.value)
}

// federate answers /federate with the newest sample of each selected series, in the exposition format that the client asks for.
// So a Prometheus server can scrape it. Errors are plain text, because scrapers log them.
func (s *Server) federate(w http.ResponseWriter, r *http.Request) {
	budget := s.newBudget(r.Context())
	defer budget.end()
	list, aerr := s.federated(w, r, budget)
	if aerr != nil {
		if aerr.code() == http.StatusServiceUnavailable {
			s.setRetryAfter(w, aerr.retryAfter)
		}
		http.Error(w, aerr.err.Error(), aerr.code())
		return
	}
	budget.sending(netlimit.ResponseOf(r.Context()))
	format := expfmt.NegotiateAccept(r.Header,
		expfmt.NewFormat(expfmt.TypeProtoDelim), expfmt.NewFormat(expfmt.TypeProtoText),
		expfmt.NewFormat(expfmt.TypeProtoCompact), expfmt.NewFormat(expfmt.TypeTextPlain))
	w.Header().Set("Content-Type", string(format))
	encoder := expfmt.NewEncoder(w, format)
	if format.FormatType() == expfmt.TypeTextPlain || format.FormatType() == expfmt.TypeOpenMetrics {
		// The text formats cannot hold native histograms.
		list = slices.DeleteFunc(list, func(n newest) bool { return n.histogram != nil && !n.histogram.UsesCustomBuckets() })
	}
	for len(list) > 0 {
		name, typ := list[0].labels.Get(model.MetricNameLabel), list[0].familyType()
		end := 1
		for end < len(list) && list[end].labels.Get(model.MetricNameLabel) == name && list[end].familyType() == typ {
			end++
		}
		if err := encoder.Encode(family(name, list[:end])); err != nil {
			return // the client is gone, so nobody would get the error
		}
		list = list[end:]
	}
}

// federated reads the request and the newest samples that it selects, sorted by metric.
func (s *Server) federated(w http.ResponseWriter, r *http.Request, budget responseBudget) ([]newest, *apiError) {
	r, aerr := s.parseForm(w, r)
	if aerr == nil {
		aerr = strictForm(r)
	}
	if aerr != nil {
		return nil, aerr
	}
	texts, aerr := s.selectorTexts(r)
	if aerr != nil {
		return nil, aerr
	}
	sets, err := s.opts.Engine.Parser().ParseMetricSelectors(texts)
	if err != nil {
		return nil, badData(err)
	}
	ctx, cancel := context.WithTimeout(r.Context(), s.opts.Limits.ReadTimeout)
	defer cancel()
	if err := s.reads.Acquire(ctx, 1); err != nil {
		return nil, &apiError{typ: errUnavailable, err: errReadsBusy}
	}
	defer s.reads.Release(1)
	var list []newest
	for _, set := range sets {
		if len(set) == 0 {
			continue // without selectors nothing is selected, as in Prometheus
		}
		if list, err = s.appendNewest(ctx, list, set, budget); err != nil {
			return nil, readFailure(err)
		}
		if most := s.opts.Limits.ReadSamplesMax; len(list) > most {
			return nil, badData(fmt.Errorf("exceeded sample limit (%d)%s", most, readSamplesHint))
		}
	}
	slices.SortFunc(list, func(a, b newest) int {
		return cmp.Or(
			cmp.Compare(a.labels.Get(model.MetricNameLabel), b.labels.Get(model.MetricNameLabel)),
			labels.Compare(a.labels, b.labels))
	})
	return slices.CompactFunc(list, func(a, b newest) bool { return labels.Equal(a.labels, b.labels) }), nil
}

// appendNewest appends the newest samples of the series that one selector selects. A series that has ended has none, because the
// formats have no stale markers.
func (s *Server) appendNewest(
	ctx context.Context, list []newest, set []*labels.Matcher, budget responseBudget,
) ([]newest, error) {
	toMs := s.opts.Now().UnixMilli()
	fromMs := toMs - s.opts.Lookback.Milliseconds()
	querier, err := s.readUnder(budget).Querier(fromMs, toMs)
	if err != nil {
		return list, err
	}
	defer s.closeQuerier(querier)
	var it chunkenc.Iterator
	selected := querier.Select(ctx, false, &promstorage.SelectHints{Start: fromMs, End: toMs}, set...)
	for selected.Next() {
		series := selected.At()
		n, found := newest{labels: series.Labels()}, false
		it = series.Iterator(it)
		for typ := it.Next(); typ != chunkenc.ValNone; typ = it.Next() {
			found = true
			switch typ {
			case chunkenc.ValFloat:
				n.histogram = nil
				n.tsMs, n.value = it.At()
			case chunkenc.ValHistogram, chunkenc.ValFloatHistogram:
				n.tsMs, n.histogram = it.AtFloatHistogram(n.histogram)
			}
		}
		if err := it.Err(); err != nil {
			return list, err
		}
		if found && !n.stale() {
			sizeBytes := familyBytes + 2*int(n.labels.ByteSize())
			if n.histogram != nil {
				sizeBytes += 2 * n.histogram.Size()
			}
			if err := budget.reserve(sizeBytes); err != nil {
				return list, err
			}
			list = append(list, n)
		}
	}
	return list, selected.Err()
}

// family is samples of one metric and one type in the model of the exposition formats.
func family(name string, list []newest) *dto.MetricFamily {
	f := &dto.MetricFamily{Name: proto.String(name), Type: list[0].familyType().Enum()}
	for _, n := range list {
		m := &dto.Metric{TimestampMs: proto.Int64(n.tsMs)}
		if n.histogram != nil {
			m.Histogram = remote.Exposition(n.histogram)
		} else {
			m.Untyped = &dto.Untyped{Value: proto.Float64(n.value)}
		}
		n.labels.Range(func(l labels.Label) {
			if l.Name != model.MetricNameLabel {
				m.Label = append(m.Label, &dto.LabelPair{Name: proto.String(l.Name), Value: proto.String(l.Value)})
			}
		})
		if !n.labels.Has(model.InstanceLabel) {
			// An empty label prevents a scraper with honor_labels from adding the instance of this server.
			m.Label = append(m.Label, &dto.LabelPair{Name: proto.String(model.InstanceLabel), Value: proto.String("")})
		}
		f.Metric = append(f.Metric, m)
	}
	return f
}
