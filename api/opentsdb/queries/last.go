package queries

import (
	"net/http"
	"strconv"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"

	"halite/api/netlimit"
	"halite/api/promjson"
	"halite/keyschema/tsuid"
	"halite/query/opentsdb"
	"halite/query/opentsdb/aggregation"
	"halite/query/opentsdb/request"
)

// last answers /api/query/last.
func (h *Handlers) last(w http.ResponseWriter, r *http.Request) error {
	q, text, err := h.parseLast(w, r)
	if err != nil {
		return err
	}
	c := opentsdb.Client{Address: r.RemoteAddr, Text: text}
	a, err := h.opts.Engine.Last(r.Context(), q, h.opts.Now().UnixMilli(), c)
	if err != nil {
		return err
	}
	defer a.Close()
	a.Sending(netlimit.ResponseOf(r.Context()))
	w.Header().Set("Content-Type", contentType)
	json := promjson.NewWriter(w, nil)
	json.List(len(a.Points), func(i int) { writeLast(json, &a.Points[i], q.Resolve) })
	json.Flush()
	return nil
}

func (h *Handlers) parseLast(w http.ResponseWriter, r *http.Request) (q *request.Last, text string, err error) {
	if r.Method != http.MethodPost {
		v, err := request.Parameters(r.URL.RawQuery)
		if err != nil {
			return nil, "", err
		}
		q, err = h.parser.LastURL(v)
		return q, r.URL.RawQuery, err
	}
	body, err := h.body(w, r)
	if err != nil {
		return nil, "", err
	}
	q, err = h.parser.LastJSON(body)
	return q, string(body), err
}

// writeLast writes a point. Its value is a string, as in OpenTSDB.
func writeLast(json *promjson.Writer, p *opentsdb.LastPoint, resolve bool) {
	json.Raw(`{"timestamp":` + strconv.FormatInt(p.TsMs, 10) + `,"value":`)
	if aggregation.IsInteger(p.Value) {
		json.String(strconv.FormatInt(int64(p.Value), 10))
	} else {
		json.String(string(appendPlain(nil, p.Value)))
	}
	json.Raw(`,"tsuid":`)
	json.String(tsuid.Text(p.Series))
	if resolve {
		json.Raw(`,"metric":`)
		json.String(p.Series.Get(model.MetricNameLabel))
		json.Raw(`,"tags":`)
		json.Labels(labels.NewBuilder(p.Series).Del(model.MetricNameLabel).Labels())
	}
	json.Raw(`}`)
}
