package queries

import (
	"math"
	"net/http"
	"strconv"
	"strings"

	"github.com/prometheus/prometheus/model/labels"

	"halite/api/netlimit"
	"halite/api/promjson"
	"halite/query/opentsdb"
	"halite/query/opentsdb/expression"
	"halite/query/opentsdb/request"
)

// functions answers /api/query/gexp.
func (h *Handlers) functions(w http.ResponseWriter, r *http.Request) (err error) {
	v, err := request.Parameters(r.URL.RawQuery)
	if err != nil {
		return err
	}
	q, calls, err := h.parser.Functions(v)
	if err != nil {
		return err
	}
	if q.Delete || r.Method == http.MethodDelete {
		return &failure{http.StatusBadRequest, errNoDeletion}
	}
	tracked := h.track(r, documentOf(q))
	defer func() { tracked.end(err) }()
	began := h.opts.Now()
	c := opentsdb.Client{Address: r.RemoteAddr, Text: strings.Join(v["exp"], " ")}
	a, err := h.opts.Engine.Functions(r.Context(), q, calls, c)
	if err != nil {
		return err
	}
	defer a.Close()
	a.Sending(netlimit.ResponseOf(r.Context()))
	out := newWriter(w, q, a)
	out.arrays = v.Has("arrays")
	tracked.recordResult(a)
	out.write(h.opts.Now().Sub(began))
	tracked.sent(r)
	return nil
}

// expressions answers /api/query/exp.
func (h *Handlers) expressions(w http.ResponseWriter, r *http.Request) (err error) {
	if r.Method != http.MethodPost {
		return &failure{http.StatusMethodNotAllowed, errNoBody}
	}
	body, err := h.body(w, r)
	if err != nil {
		return err
	}
	x, err := h.parser.Expressions(body)
	if err != nil {
		return err
	}
	tracked := h.track(r, body)
	defer func() { tracked.end(err) }()
	c := opentsdb.Client{Address: r.RemoteAddr, Text: string(body)}
	outputs, a, err := h.opts.Engine.Expressions(r.Context(), x, c)
	if err != nil {
		return err
	}
	defer a.Close()
	a.Sending(netlimit.ResponseOf(r.Context()))
	tracked.recordResult(a)
	w.Header().Set("Content-Type", contentType)
	json := promjson.NewWriter(w, nil)
	json.Raw(`{"outputs":`)
	json.List(len(outputs), func(i int) { writeOutput(json, &outputs[i]) })
	json.Raw(`,"query":`)
	json.RawBytes(x.Body)
	json.Raw(`,"warnings":`)
	json.Strings(a.Warnings)
	json.Raw(`}`)
	json.Flush()
	tracked.sent(r)
	return nil
}

func writeOutput(json *promjson.Writer, o *opentsdb.Output) {
	json.Raw(`{"id":`)
	json.String(o.ID)
	if o.Alias != "" {
		json.Raw(`,"alias":`)
		json.String(o.Alias)
	}
	json.Raw(`,"dps":`)
	var row []byte
	json.List(len(o.TsMs), func(i int) {
		row = strconv.AppendInt(append(row[:0], '['), o.TsMs[i], 10)
		for k := range o.Series {
			row = appendDouble(append(row, ','), o.Series[k].Values[i])
		}
		json.RawBytes(append(row, ']'))
	})
	var first, last int64
	if n := len(o.TsMs); n > 0 {
		first, last = o.TsMs[0], o.TsMs[n-1]
	}
	json.Raw(`,"dpsMeta":`)
	json.Marshal(struct {
		First  int64 `json:"firstTimestamp"`
		Last   int64 `json:"lastTimestamp"`
		Count  int   `json:"setCount"`
		Series int   `json:"series"`
	}{first, last, len(o.TsMs), len(o.Series)})
	if len(o.Series) > 0 {
		json.Raw(`,"meta":`)
		json.List(len(o.Series)+1, func(i int) { writeMeta(json, i, o.Series) })
	}
	json.Raw(`}`)
}

// writeMeta describes column i of an output. Column 0 is the time.
func writeMeta(json *promjson.Writer, i int, series []expression.Combined) {
	json.Raw(`{"index":` + strconv.Itoa(i) + `,"metrics":`)
	if i == 0 {
		json.Raw(`["timestamp"]}`)
		return
	}
	c := &series[i-1]
	json.Strings(c.Metrics)
	json.Raw(`,"commonTags":`)
	json.Labels(labels.New(c.Tags...))
	json.Raw(`,"aggregatedTags":`)
	json.Strings(c.AggregateTags)
	json.Raw(`}`)
}

// appendPlain is appendDouble without the quotes around NaN and infinities.
func appendPlain(to []byte, v float64) []byte {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return append(to, strings.Trim(string(appendDouble(nil, v)), `"`)...)
	}
	return appendDouble(to, v)
}
