package jsonl

import (
	"bytes"
	"fmt"
	"net/http"

	jsoniter "github.com/json-iterator/go"
	"github.com/prometheus/prometheus/model/labels"

	"halite/api/receiver"
	"halite/ingest"
	"halite/ingest/batch"
	"halite/ingest/remotewrite"
)

// Protocol is the name of the protocol.
const Protocol = "JSON lines import"

// keyMark begins the keys of labels as written. No label field and no key of another protocol begins so.
const keyMark = 5

// request is one POST of lines.
type request struct {
	fault  error
	extra  []labels.Label
	prefix []byte // begins the keys of labels as written
	line   line
	bad    receiver.BadLines
}

// Import returns the protocol of an import. The URL may have the parameter extra_label, as name=value, for all series.
func Import(r *http.Request) receiver.Request {
	x := &request{}
	x.extra, x.fault = receiver.ExtraLabels(r)
	x.prefix = remotewrite.AppendPairs([]byte{keyMark}, x.extra)
	return x
}

func (x *request) Protocol() string { return Protocol }

func (x *request) Check() error { return x.fault }

// Parse adds the series of all lines to a batch.
func (x *request) Parse(body []byte, b *batch.Batch) error {
	b.SetLabels(x.appendFields)
	it := jsoniter.ConfigDefault.BorrowIterator(nil)
	defer jsoniter.ConfigDefault.ReturnIterator(it)
	for len(body) > 0 {
		text, rest, _ := bytes.Cut(body, []byte{'\n'})
		body = rest
		x.bad.Next()
		if text = bytes.TrimSpace(text); len(text) == 0 {
			continue
		}
		if !x.line.plain(text) {
			if err := x.line.parse(it, text); err != nil {
				x.bad.Reject(b, fmt.Sprintf("%v", err))
				continue
			}
		}
		if err := x.line.add(b, x.prefix, x.extra); err != nil {
			return err
		}
	}
	return nil
}

// appendFields appends the label fields of the series with a key.
func (x *request) appendFields(dst, key []byte) ([]byte, error) {
	if len(key) == 0 || key[0] != keyMark {
		return append(dst, key...), nil
	}
	var l line
	l.plainLabels(key[len(x.prefix):])
	return l.appendFields(dst, x.extra), nil
}

// Respond lists the lines and samples that were left out.
func (x *request) Respond(result *ingest.Result) receiver.Response { return x.bad.Respond(result) }

func (x *request) Refuse(status int, err error) receiver.Response {
	return receiver.Text(status, err.Error())
}
