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
)

// Protocol is the name of the protocol.
const Protocol = "JSON lines import"

// request is one POST of lines.
type request struct {
	fault error
	extra []labels.Label
	line  line
	bad   receiver.BadLines
}

// Import returns the protocol of an import. The URL may have the parameter extra_label, as name=value, for all series.
func Import(r *http.Request) receiver.Request {
	x := &request{}
	x.extra, x.fault = receiver.ExtraLabels(r)
	return x
}

func (x *request) Protocol() string { return Protocol }

func (x *request) Check() error { return x.fault }

// Parse adds the series of all lines to a batch.
func (x *request) Parse(body []byte, b *batch.Batch) error {
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
		if err := x.line.add(b, x.extra); err != nil {
			return err
		}
	}
	return nil
}

// Answer lists the lines and samples that were left out.
func (x *request) Answer(result *ingest.Result) receiver.Answer { return x.bad.Answer(result) }

func (x *request) Refuse(status int, err error) receiver.Answer {
	return receiver.Text(status, err.Error())
}
