package transfer

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/klauspost/compress/snappy"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	writev2 "github.com/prometheus/prometheus/prompb/io/prometheus/write/v2"

	"halite/api/remote"
	"halite/cmd/tsdb/internal/client"
	"halite/ingest"
	"halite/ingest/batch"
	"halite/ingest/remotewrite"
	"halite/keyschema"
	"halite/storage/retention"
)

// Remote is a running server. It accepts samples by remote write 2.0 and returns samples by remote read.
type Remote struct {
	*RemoteRead
}

// responseBytesMax bounds a response without samples.
const responseBytesMax = 1 << 20

// NewRemote returns a server. It repeats requests that may succeed later for retryFor.
func NewRemote(server *client.Server, retryFor time.Duration) (*Remote, error) {
	if _, err := url.Parse(server.URL); err != nil {
		return nil, fmt.Errorf("--url: %s is not a URL", server)
	}
	return &Remote{RemoteRead: &RemoteRead{server: server, retryFor: retryFor}}, nil
}

// Name implements Sink.
func (r *Remote) Name() string { return "server " + r.server.String() }

// CheckRetention returns an error if the source has samples older than the server's retention. It asks the server for the
// retention of metrics without a rule. A shorter retention by a rule shows when the server refuses the first sample. If it waits
// for the server, it says so on out.
func (r *Remote) CheckRetention(ctx context.Context, s Size, out io.Writer) error {
	var status struct {
		Costs []retention.Cost `json:"costs"`
	}
	waits := false
	err := client.Retry(ctx, r.retryFor, func() error {
		err := r.server.Call(ctx, http.MethodGet, "/api/v1/status/retention", nil, &status)
		if retryable := new(client.RetryableError); errors.As(err, &retryable) && !waits && r.retryFor > 0 {
			waits = true
			fmt.Fprintf(out, "The import waits up to %s for the server: %s\n", r.retryFor, err)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("ask the server for its retention (--skip-expired omits this check): %w", err)
	}
	ages := retention.AgesOfAll(status.Costs)
	return Expired(s, ages[keyschema.Raw], ages[keyschema.NativeHistograms], time.Now())
}

// Write implements Sink.
func (r *Remote) Write(ctx context.Context, p *Part) (ingest.Result, error) {
	body, err := encodePart(p)
	if err != nil {
		return ingest.Result{}, err
	}
	var result ingest.Result
	err = client.Retry(ctx, r.retryFor, func() (err error) {
		result, err = r.send(ctx, body, p)
		return err
	})
	return result, err
}

// send sends a request once. The error wraps a *client.RetryableError if the request may succeed later.
func (r *Remote) send(ctx context.Context, body []byte, p *Part) (result ingest.Result, err error) {
	req, err := r.server.Request(ctx, http.MethodPost, "/api/v1/write", bytes.NewReader(body))
	if err != nil {
		return result, err
	}
	req.Header.Set("Content-Type", remote.ProtobufType+";proto="+string(remote.MessageV2))
	req.Header.Set("Content-Encoding", "snappy")
	req.Header.Set("X-Prometheus-Remote-Write-Version", "2.0.0")
	resp, err := client.Do(req)
	if err != nil {
		return result, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, responseBytesMax))
	if err != nil {
		return result, &client.RetryableError{Err: err}
	}
	written := func(kind string) (int, bool) {
		n, err := strconv.Atoi(resp.Header.Get("X-Prometheus-Remote-Write-" + kind + "-Written"))
		return n, err == nil
	}
	samples, known := written("Samples")
	histograms, _ := written("Histograms")
	exemplars, _ := written("Exemplars")
	switch {
	case resp.StatusCode/100 == 2, resp.StatusCode == http.StatusBadRequest && known && samples+histograms+exemplars > 0,
		resp.StatusCode == http.StatusBadRequest && known && strings.Contains(string(text), "samples rejected"):
	default:
		return result, client.ErrorOf(resp, fmt.Errorf("%s answered %s: %s", r.server, resp.Status, strings.TrimSpace(string(text))))
	}
	if !known {
		return result, fmt.Errorf("%s does not accept remote write 2.0", r.server)
	}
	result = ingest.Result{Accepted: samples, Histograms: histograms, Exemplars: exemplars}
	if result.Rejected = p.samples() - samples - histograms; result.Rejected > 0 {
		result.Reasons, result.First = rejections(strings.TrimSpace(string(text)), result.Rejected)
	}
	return result, nil
}

// rejections parses the counts by reason and the first rejection from the response of a server. ingest.Result.Summary writes that
// text.
func rejections(text string, count int) (reasons map[string]int, first string) {
	reasons = make(map[string]int)
	_, list, _ := strings.Cut(text, " samples rejected (")
	list, first, _ = strings.Cut(list, ")")
	for each := range strings.SplitSeq(list, ", ") {
		reason, number, _ := strings.Cut(each, ": ")
		if n, err := strconv.Atoi(number); err == nil {
			reasons[reason] += n
			count -= n
		}
	}
	if count > 0 {
		reasons["unknown"] += count
	}
	return reasons, cmp.Or(strings.TrimPrefix(first, "; first: "), text)
}

// encodePart makes a request of remote write 2.0.
func encodePart(p *Part) ([]byte, error) {
	symbols := writev2.NewSymbolTable()
	described := make(map[string]remotewrite.Metadata)
	for _, m := range p.Descriptions() {
		described[m.Metric] = m
	}
	var req writev2.Request
	err := p.ForEach(func(fields []byte, s batch.Series) error {
		ls, err := labelsOf(fields)
		if err != nil {
			return err
		}
		ts := writev2.TimeSeries{LabelsRefs: symbols.SymbolizeLabels(ls, nil)}
		for _, sample := range s.Samples {
			ts.Samples = append(ts.Samples, writev2.Sample{
				Value: sample.Value, Timestamp: sample.TsMs, StartTimestamp: sample.StartMs,
				XXX_unrecognized: remote.NegativeZero(remote.ValueField, sample.Value),
			})
		}
		for _, h := range s.Histograms {
			ts.Histograms = append(ts.Histograms, wireHistogram(&h))
		}
		for _, e := range s.Exemplars {
			ts.Exemplars = append(ts.Exemplars, writev2.Exemplar{
				LabelsRefs: symbols.SymbolizeLabels(e.Labels, nil), Value: e.Value, Timestamp: e.TsMs,
			})
		}
		if m, ok := description(described, ls); ok {
			ts.Metadata = writev2.Metadata{Type: writev2.FromMetadataType(model.MetricType(m.Type)),
				HelpRef: symbols.Symbolize(m.Help), UnitRef: symbols.Symbolize(m.Unit)}
		}
		req.Timeseries = append(req.Timeseries, ts)
		return nil
	})
	if err != nil {
		return nil, err
	}
	req.Symbols = symbols.Symbols()
	message, err := req.Marshal()
	if err != nil {
		return nil, fmt.Errorf("encode a request: %w", err)
	}
	return snappy.Encode(nil, message), nil
}

// wireHistogram returns a native histogram as remote write 2.0 sends it.
func wireHistogram(h *remotewrite.Histogram) (out writev2.Histogram) {
	if h.H != nil {
		out = writev2.FromIntHistogram(h.StartMs, h.TsMs, h.H)
	} else {
		out = writev2.FromFloatHistogram(h.StartMs, h.TsMs, h.FH)
	}
	out.XXX_unrecognized = remote.NegativeZero(remote.SumField, out.Sum)
	return out
}

// description returns the metadata of the metric family of a series.
func description(described map[string]remotewrite.Metadata, ls labels.Labels) (m remotewrite.Metadata, ok bool) {
	if len(described) == 0 {
		return m, false
	}
	metric := ls.Get(model.MetricNameLabel)
	for _, suffix := range []string{"", "_total", "_bucket", "_count", "_sum"} {
		if family, cut := strings.CutSuffix(metric, suffix); cut {
			if m, ok = described[family]; ok {
				return m, true
			}
		}
	}
	return m, false
}
