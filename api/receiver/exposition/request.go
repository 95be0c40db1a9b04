package exposition

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/common/model"

	"halite/api/receiver"
	"halite/ingest"
	"halite/ingest/batch"
	"halite/ingest/remotewrite"
)

// ProtocolImport and ProtocolPush are the names of the two protocols.
const (
	ProtocolImport = "Prometheus text import"
	ProtocolPush   = "Pushgateway"
)

// request is one POST of an exposition.
type request struct {
	protocol string
	fault    error
	parser   Parser
	stored   int // status of a response without rejections
}

// Import returns the protocol of an import. The URL may have the parameters timestamp, in milliseconds since 1970, for samples
// without one, and extra_label, as name=value, for all series.
func Import(now func() time.Time) receiver.Open {
	return func(r *http.Request) receiver.Request {
		x := &request{protocol: ProtocolImport, stored: http.StatusNoContent}
		x.parser = Parser{ContentType: r.Header.Get("Content-Type"), TsMs: now().UnixMilli()}
		if text := r.URL.Query().Get("timestamp"); text != "" {
			ms, err := strconv.ParseInt(text, 10, 64)
			if err != nil {
				x.fault = fmt.Errorf("parameter timestamp: %q is not a number of milliseconds since 1970", text)
			}
			x.parser.TsMs = ms
		}
		extra, err := receiver.ExtraLabels(r)
		if err != nil {
			x.fault = err
		}
		for _, l := range extra {
			x.parser.addLabel(l.Name, l.Value)
		}
		return x
	}
}

// PushPath begins the paths of a Pushgateway.
const PushPath = "/metrics/job"

// Push returns the protocol of a Pushgateway. The labels in the path win over those in the body, and all samples have the time of
// the push.
func Push(now func() time.Time) receiver.Open {
	return func(r *http.Request) receiver.Request {
		x := &request{protocol: ProtocolPush, stored: http.StatusOK}
		x.parser = Parser{ContentType: r.Header.Get("Content-Type"), TsMs: now().UnixMilli(), OwnTimeOnly: true}
		path := r.URL.EscapedPath()
		parts := strings.Split(strings.TrimPrefix(path[strings.Index(path, PushPath)+1:], "metrics/"), "/")
		if len(parts) == 3 && parts[2] == "" {
			parts = parts[:2] // a Pushgateway allows a slash after the job, not after other labels
		}
		x.fault = x.parser.addGroup(parts)
		return x
	}
}

// addGroup adds the labels of a grouping key: names and values in turn.
func (p *Parser) addGroup(parts []string) error {
	if len(parts)%2 != 0 {
		return errors.New("the path has a label without a value")
	}
	for n := 0; n < len(parts); n += 2 {
		name, err := url.PathUnescape(parts[n])
		if err != nil {
			return fmt.Errorf("label name %q in the path: %w", parts[n], err)
		}
		value, err := url.PathUnescape(parts[n+1])
		if err != nil {
			return fmt.Errorf("value of label %q in the path: %w", name, err)
		}
		if plain, ok := strings.CutSuffix(name, "@base64"); ok {
			if value, err = decodeBase64(value); err != nil {
				return fmt.Errorf("value of label %q in the path is not base64: %w", plain, err)
			}
			name = plain
		}
		switch {
		case n == 0 && name != model.JobLabel:
			return errors.New("the path must begin with the label job")
		case n == 0 && value == "":
			return errors.New("job name is required")
		case !model.UTF8Validation.IsValidLabelName(name) || strings.HasPrefix(name, model.ReservedLabelPrefix):
			return fmt.Errorf("invalid label name %q in the path", name)
		}
		p.addLabel(name, value)
	}
	return nil
}

func (x *request) Protocol() string { return x.protocol }

func (x *request) Check() error { return x.fault }

func (x *request) Parse(body []byte, b *batch.Batch) error { return x.parser.Parse(body, b) }

func (x *request) Respond(result *ingest.Result) receiver.Response {
	if result.Rejected > 0 {
		return receiver.Text(http.StatusBadRequest, result.Summary())
	}
	return receiver.Response{Status: x.stored}
}

func (x *request) Refuse(status int, err error) receiver.Response {
	return receiver.Text(status, err.Error())
}

// addLabel adds a label to all series. It replaces a label of that name in a series. A label without a value is absent.
func (p *Parser) addLabel(name, value string) {
	p.extra = append(p.extra, label{name, value})
	p.prefix = remotewrite.AppendField(p.prefix, name, value)
}
