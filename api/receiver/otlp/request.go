package otlp

import (
	"context"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/prometheus/config"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/storage/remote/otlptranslator/prometheusremotewrite"
	"go.opentelemetry.io/collector/pdata/pmetric/pmetricotlp"
	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

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
	// attributesMax bounds the attributes of a resource, a scope and a data point.
	attributesMax int
	dropped       string // metrics that the translation left out, without a count of their data points
}

// Options are options of the translation. The zero value is not valid; see DefaultOptions.
type Options struct {
	config.OTLPConfig
	// StoreDelta stores sums and histograms of delta temporality as they are. Otherwise they are left out.
	StoreDelta bool
	// Lookback is the look-back of queries. The translation adds samples of target_info twice in that time.
	Lookback time.Duration
	// AttributesMax bounds the attributes of a resource, a scope and a data point. Others are rejected as too_many_labels.
	AttributesMax int
}

// AttributesMaxDefault is the default of Options.AttributesMax.
const AttributesMaxDefault = 256

// DefaultOptions are Prometheus's defaults.
func DefaultOptions(lookback time.Duration) Options {
	return Options{OTLPConfig: config.DefaultOTLPConfig, Lookback: lookback, AttributesMax: AttributesMaxDefault}
}

// settings returns the options in the form of Prometheus's translation.
func (o *Options) settings() prometheusremotewrite.Settings {
	return prometheusremotewrite.Settings{
		AddMetricSuffixes: o.TranslationStrategy.ShouldAddSuffixes(), AllowUTF8: !o.TranslationStrategy.ShouldEscape(),
		PromoteResourceAttributes:         prometheusremotewrite.NewPromoteResourceAttributes(o.OTLPConfig),
		KeepIdentifyingResourceAttributes: o.KeepIdentifyingResourceAttributes,
		ConvertHistogramsToNHCB:           o.ConvertHistogramsToNHCB, PromoteScopeMetadata: o.PromoteScopeMetadata,
		AllowDeltaTemporality: o.StoreDelta, LookbackDelta: o.Lookback,
		LabelNameUnderscoreSanitization:      o.LabelNameUnderscoreSanitization,
		LabelNamePreserveMultipleUnderscores: o.LabelNamePreserveMultipleUnderscores,
	}
}

// Export returns the protocol. It asks for the options at each request.
func Export(options func() Options) receiver.Open {
	return func(r *http.Request) receiver.Request {
		o := options()
		x := &request{settings: o.settings(), attributesMax: o.AttributesMax}
		var err error
		if x.contentType, _, err = mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil {
			x.fault = fmt.Errorf("%w: %w", receiver.ErrContentType, err)
		} else if x.contentType != protobufType && x.contentType != jsonType {
			x.fault = fmt.Errorf("%w: %q is neither %s nor %s", receiver.ErrContentType, x.contentType, protobufType, jsonType)
		}
		return x
	}
}

func (x *request) Protocol() string { return Protocol }

func (x *request) Check() error { return x.fault }

// Parse adds the data points of a body to a batch.
func (x *request) Parse(body []byte, b *batch.Batch) error {
	export := pmetricotlp.NewExportRequest()
	check, decode := checkProto, export.UnmarshalProto
	if x.contentType == jsonType {
		check, decode = checkJSON, export.UnmarshalJSON
	}
	if err := check(body); err != nil {
		return err
	}
	if x.contentType == jsonType {
		body = withoutNulls(body)
	}
	if err := decode(body); err != nil {
		return err
	}
	x.rejectInvalid(export.Metrics(), len(body), b)
	a := &appender{batch: b}
	converter := prometheusremotewrite.NewPrometheusConverter(a)
	_, err := converter.FromMetrics(context.Background(), export.Metrics(), x.settings)
	if a.err != nil {
		return a.err
	}
	if err != nil {
		x.rejectUntranslated(export.Metrics(), err, b) // the other metrics are stored
	}
	return nil
}

// Respond is an ExportMetricsServiceResponse. It counts rejected data points.
func (x *request) Respond(result *ingest.Result) receiver.Response {
	response := pmetricotlp.NewExportResponse()
	message := x.dropped
	if result.Rejected > 0 {
		response.PartialSuccess().SetRejectedDataPoints(int64(result.Rejected))
		message = result.Summary()
		if x.dropped != "" {
			message += "; " + x.dropped
		}
	}
	if message == "" {
		// OTLP wants no partial success here, not even an empty one.
		response := receiver.Response{Status: http.StatusOK, Type: x.contentType}
		if x.contentType == jsonType {
			response.Body = []byte("{}")
		}
		return response
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
	return receiver.Response{Status: http.StatusOK, Type: x.contentType, Body: body}
}

// Refuse is a google.rpc.Status in the encoding of the request, or in JSON if that is unknown.
func (x *request) Refuse(status int, err error) receiver.Response {
	message := &rpcstatus.Status{Code: int32(codeOf(status)), Message: strings.ToValidUTF8(err.Error(), "�")}
	response := receiver.Response{Status: status, Type: jsonType}
	var fault error
	if x.contentType == protobufType {
		response.Type = protobufType
		response.Body, fault = proto.Marshal(message)
	} else {
		response.Body, fault = protojson.Marshal(message)
	}
	if fault != nil {
		return receiver.Text(status, err.Error())
	}
	return response
}

// WriteError answers a request that was refused before its protocol was called.
func WriteError(w http.ResponseWriter, r *http.Request, status int, message string) {
	x := &request{}
	x.contentType, _, _ = mime.ParseMediaType(r.Header.Get("Content-Type")) // "" is answered in JSON
	response := x.Refuse(status, errors.New(message))
	response.Write(w)
}

// codeOf returns the code of gRPC for an HTTP status.
func codeOf(status int) codes.Code {
	switch status {
	case http.StatusBadRequest, http.StatusUnsupportedMediaType:
		return codes.InvalidArgument
	case http.StatusUnauthorized:
		return codes.Unauthenticated
	case http.StatusForbidden:
		return codes.PermissionDenied
	case http.StatusRequestEntityTooLarge, http.StatusTooManyRequests:
		return codes.ResourceExhausted
	case http.StatusServiceUnavailable:
		return codes.Unavailable
	}
	return codes.Internal
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
