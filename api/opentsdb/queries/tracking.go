package queries

import (
	"encoding/json"
	"net/http"
	"time"

	"halite/api/opentsdb/querystats"
	"halite/query/opentsdb"
	"halite/query/opentsdb/request"
	"halite/storage/principal"
)

// tracked follows a query for the list of queries. A nil *tracked follows none.
type tracked struct {
	query           *querystats.Query
	now             func() time.Time
	began, computed time.Time
	figures         map[string]float64
	complete        bool
}

// track adds a query to the list. document is its JSON.
func (h *Handlers) track(r *http.Request, document json.RawMessage) *tracked {
	if h.opts.Stats == nil {
		return nil
	}
	c := querystats.Client{Address: r.RemoteAddr, Headers: map[string]string{}}
	// Other headers may hold secrets.
	for _, name := range []string{"User-Agent", "Content-Type", "Accept"} {
		if v := r.Header.Get(name); v != "" {
			c.Headers[name] = v[:min(len(v), headerBytesMax)]
		}
	}
	if p := principal.From(r.Context()); p != nil {
		c.User = p.Name
	}
	return &tracked{query: h.opts.Stats.Begin(c, document), now: h.opts.Now, began: h.opts.Now()}
}

// headerBytesMax bounds a header in the list.
const headerBytesMax = 256

// recordResult notes the figures of a response that is about to be written.
func (t *tracked) recordResult(a *opentsdb.Response) {
	if t == nil {
		return
	}
	t.computed = t.now()
	var sum opentsdb.Figures
	for _, f := range a.Read {
		sum.Add(f)
	}
	t.figures = map[string]float64{"processingPreWriteTime": querystats.Milliseconds(t.computed.Sub(t.began))}
	for name, v := range statsOf(sum) {
		t.figures[name] = float64(v)
	}
}

// sent notes that the response is written, unless the client has gone.
func (t *tracked) sent(r *http.Request) {
	if t == nil {
		return
	}
	t.complete = r.Context().Err() == nil
	t.figures["serializationTime"] = querystats.Milliseconds(t.now().Sub(t.computed))
}

// end moves the query to the completed ones.
func (t *tracked) end(err error) {
	if t == nil {
		return
	}
	result := querystats.Result{Status: http.StatusOK, Sent: t.complete, Figures: t.figures}
	switch {
	case err != nil:
		result.Status, result.Fault = statusOf(err), err.Error()
	case t.figures == nil: // a panic
		result.Status, result.Fault = http.StatusInternalServerError, "the query ended without a response"
	}
	if result.Figures == nil {
		result.Figures = map[string]float64{}
	}
	result.Figures["totalTime"] = querystats.Milliseconds(t.now().Sub(t.began))
	t.query.End(result)
}

// document is a query in OpenTSDB's JSON.
type document struct {
	Start             string  `json:"start"`
	End               *string `json:"end"`
	Timezone          string  `json:"timezone"`
	Options           *string `json:"options"`
	Padding           bool    `json:"padding"`
	Queries           []echo  `json:"queries"`
	Delete            bool    `json:"delete"`
	NoAnnotations     bool    `json:"noAnnotations"`
	GlobalAnnotations bool    `json:"globalAnnotations"`
	ShowTSUIDs        bool    `json:"showTSUIDs"`
	MsResolution      bool    `json:"msResolution"`
	ShowQuery         bool    `json:"showQuery"`
	ShowStats         bool    `json:"showStats"`
	ShowSummary       bool    `json:"showSummary"`
}

// documentOf returns the JSON of a query.
func documentOf(q *request.Query) json.RawMessage {
	d := document{
		Start: q.Start, End: optional(q.End), Timezone: q.Zone.String(), Delete: q.Delete, NoAnnotations: q.NoAnnotations,
		GlobalAnnotations: q.GlobalAnnotations, ShowTSUIDs: q.ShowTSUIDs, MsResolution: q.MsResolution, ShowQuery: q.ShowQuery,
		ShowStats: q.ShowStats, ShowSummary: q.ShowSummary, Queries: make([]echo, len(q.Subs)),
	}
	for i := range q.Subs {
		d.Queries[i] = echoOf(&q.Subs[i], "")
	}
	text, err := json.Marshal(d)
	if err != nil {
		return json.RawMessage(`{}`) // percentiles are numbers, so this cannot happen
	}
	return text
}
