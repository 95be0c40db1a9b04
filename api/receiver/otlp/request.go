package otlp

import (
	"context"
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"time"

	"github.com/prometheus/prometheus/config"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/storage/remote/otlptranslator/prometheusremotewrite"
	"go.opentelemetry.io/collector/pdata/pmetric/pmetricotlp"

	"halite/api/receiver"
	"halite/ingest"
	"halite/ingest/batch"
	"halite/ingest/remotewrite"
)

// Protocol is the name of the protocol.
const Protocol = "OTLP"

const (
	protobufType = "application/x-protobuf"
	jsonType     = "application/json"
)

// request is one export of metrics.
type request struct {
	contentType string
	fault       error
	settings    prometheusremotewrite.Settings
	dropped     string // what the translation left out
}

// Settings are Prometheus's defaults. delta takes sums and histograms with delta temporality, which are refused otherwise.
func Settings(delta bool, lookback time.Duration) prometheusremotewrite.Settings {
	c := config.DefaultOTLPConfig
	return prometheusremotewrite.Settings{
		AddMetricSuffixes: c.TranslationStrategy.ShouldAddSuffixes(), AllowUTF8: !c.TranslationStrategy.ShouldEscape(),
		PromoteResourceAttributes:         prometheusremotewrite.NewPromoteResourceAttributes(c),
		KeepIdentifyingResourceAttributes: c.KeepIdentifyingResourceAttributes,
		ConvertHistogramsToNHCB:           c.ConvertHistogramsToNHCB, PromoteScopeMetadata: c.PromoteScopeMetadata,
		AllowDeltaTemporality: delta, LookbackDelta: lookback,
		LabelNameUnderscoreSanitization:      c.LabelNameUnderscoreSanitization,
		LabelNamePreserveMultipleUnderscores: c.LabelNamePreserveMultipleUnderscores,
	}
}

// Export returns the protocol with settings of the translation.
func Export(settings prometheusremotewrite.Settings) receiver.Open {
	return func(r *http.Request) receiver.Request {
		x := &request{settings: settings}
		x.contentType, _, x.fault = mime.ParseMediaType(r.Header.Get("Content-Type"))
		if x.fault == nil && x.contentType != protobufType && x.contentType != jsonType {
			x.fault = fmt.Errorf("content type %q is neither %s nor %s", x.contentType, protobufType, jsonType)
		}
		return x
	}
}

func (x *request) Protocol() string { return Protocol }

func (x *request) Check() error { return x.fault }

// Parse adds the data points of a body to a batch.
func (x *request) Parse(body []byte, b *batch.Batch) error {
	export := pmetricotlp.NewExportRequest()
	decode := export.UnmarshalProto
	if x.contentType == jsonType {
		decode = export.UnmarshalJSON
	}
	if err := decode(body); err != nil {
		return err
	}
	a := &appender{batch: b}
	converter := prometheusremotewrite.NewPrometheusConverter(a)
	_, err := converter.FromMetrics(context.Background(), export.Metrics(), x.settings)
	if a.err != nil {
		return a.err
	}
	if err != nil {
		// The other metrics are stored.
		x.dropped = err.Error()
	}
	return nil
}

// Answer is an ExportMetricsServiceResponse. It counts rejected data points.
func (x *request) Answer(result *ingest.Result) receiver.Answer {
	response := pmetricotlp.NewExportResponse()
	message := x.dropped
	if result.Rejected > 0 {
		response.PartialSuccess().SetRejectedDataPoints(int64(result.Rejected))
		message = result.Summary() + message
	}
	response.PartialSuccess().SetErrorMessage(message)
	encode := response.MarshalProto
	if x.contentType == jsonType {
		encode = response.MarshalJSON
	}
	body, err := encode()
	if err != nil {
		return x.Refuse(http.StatusInternalServerError, err)
	}
	return receiver.Answer{Status: http.StatusOK, Type: x.contentType, Body: body}
}

// Refuse is a google.rpc.Status.
func (x *request) Refuse(status int, err error) receiver.Answer {
	body, fault := json.Marshal(map[string]string{"message": err.Error()})
	if fault != nil {
		body = nil
	}
	return receiver.Answer{Status: status, Type: jsonType, Body: body}
}

// appender adds samples of the translation to a batch.
type appender struct {
	batch  *batch.Batch
	fields []byte
	metric string // whose description was added last
	err    error  // ends the request
}

// Append implements storage.AppenderV2.
func (a *appender) Append(
	_ storage.SeriesRef, ls labels.Labels, startMs, tsMs int64, v float64, h *histogram.Histogram, fh *histogram.FloatHistogram,
	o storage.AppendV2Options,
) (storage.SeriesRef, error) {
	a.fields = remotewrite.AppendFields(a.fields[:0], ls)
	if a.err == nil {
		a.err = a.batch.Begin(a.fields)
	}
	if a.err != nil {
		return 0, a.err
	}
	if h == nil && fh == nil {
		a.batch.Sample(remotewrite.Sample{TsMs: tsMs, StartMs: startMs, Value: v})
	} else {
		a.batch.Histogram(remotewrite.Histogram{TsMs: tsMs, StartMs: startMs, H: h, FH: fh})
	}
	for _, e := range o.Exemplars {
		a.batch.Exemplar(remotewrite.Exemplar{TsMs: e.Ts, Value: e.Value, Labels: e.Labels})
	}
	if name := o.MetricFamilyName; name != "" && name != a.metric {
		a.metric = name
		m := o.Metadata
		a.batch.Metadata(remotewrite.Metadata{Metric: name, Type: string(m.Type), Help: m.Help, Unit: m.Unit})
	}
	return 0, nil
}

// Commit implements storage.AppenderV2. The batch is stored elsewhere.
func (a *appender) Commit() error { return nil }

// Rollback implements storage.AppenderV2.
func (a *appender) Rollback() error { return nil }
