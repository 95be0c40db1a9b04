package queries

import (
	"bufio"
	"math"
	"net/http"
	"strconv"
	"time"

	"halite/api/promjson"
	"halite/query/opentsdb"
	"halite/query/opentsdb/aggregation"
	"halite/query/opentsdb/request"
)

// writer writes the response to a query.
type writer struct {
	json     *promjson.Writer
	query    *request.Query
	response *opentsdb.Response
	arrays   bool // points as arrays instead of an object
	noted    annotations
	buf      []byte
}

func newWriter(w http.ResponseWriter, q *request.Query, a *opentsdb.Response) *writer {
	w.Header().Set("Content-Type", contentType)
	return &writer{json: promjson.NewWriter(w, nil), query: q, response: a}
}

// write writes the whole response. took is the time until now.
func (w *writer) write(took time.Duration) {
	n := len(w.response.Series)
	entries := n
	if w.query.ShowSummary {
		entries++
	}
	w.json.List(entries, func(i int) {
		if i < n {
			w.series(&w.response.Series[i])
			return
		}
		w.summary(took)
	})
	w.json.Flush()
}

func (w *writer) series(s *opentsdb.Series) {
	w.json.Raw(`{"metric":`)
	w.json.String(s.Metric)
	w.json.Raw(`,"tags":{`)
	for i, t := range s.Tags {
		if i > 0 {
			w.json.Raw(`,`)
		}
		w.json.String(t.Name)
		w.json.Raw(`:`)
		w.json.String(t.Value)
	}
	w.json.Raw(`},"aggregateTags":`)
	w.json.Strings(s.AggregateTags)
	if w.query.ShowQuery {
		w.json.Raw(`,"query":`)
		w.json.Marshal(echoOf(s.Sub, s.Rollup))
	}
	if w.query.ShowTSUIDs { // annotations may need them
		w.json.Raw(`,"tsuids":`)
		w.json.Strings(s.TSUIDs)
	}
	w.annotations(s)
	w.json.Raw(`,"dps":`)
	w.points(s)
	if w.query.ShowStats {
		w.json.Raw(`,"stats":`)
		w.json.Marshal(statsOf(w.response.Read[s.Sub.Index]))
	}
	w.json.Raw(`}`)
}

// writeLines writes the response to /q?ascii: a line for each point, without NaN. Its time is in seconds.
func writeLines(w http.ResponseWriter, a *opentsdb.Response) {
	w.Header().Set("Content-Type", "text/plain; charset=UTF-8")
	out := bufio.NewWriterSize(w, 64<<10)
	var line []byte
	for i := range a.Series {
		s := &a.Series[i]
		for n, tsMs := range s.TsMs {
			if s.Integers == nil && (math.IsNaN(s.Doubles[n]) || math.IsInf(s.Doubles[n], 0)) {
				continue
			}
			line = append(append(line[:0], s.Metric...), ' ')
			line = append(strconv.AppendInt(line, tsMs/1000, 10), ' ')
			if s.Integers != nil {
				line = strconv.AppendInt(line, s.Integers[n], 10)
			} else {
				line = appendDouble(line, s.Doubles[n])
			}
			for _, t := range s.Tags {
				line = append(append(append(append(line, ' '), t.Name...), '='), t.Value...)
			}
			line = append(line, '\n')
			if _, err := out.Write(line); err != nil {
				return // the client is gone
			}
		}
	}
	_ = out.Flush() // as above
}

// points writes points as an object, or as arrays. An object with times in seconds has only the last of several points in a
// second, because its keys must differ.
func (w *writer) points(s *opentsdb.Series) {
	open, closing := byte('{'), byte('}')
	if w.arrays {
		open, closing = '[', ']'
	}
	nulls := s.Sub.Down != nil && s.Sub.Down.Fill == aggregation.FillNull
	w.buf = append(w.buf[:0], open)
	for i, tsMs := range s.TsMs {
		at := tsMs
		if !w.query.MsResolution {
			at /= 1000
			if !w.arrays && i+1 < s.Len() && s.TsMs[i+1]/1000 == at {
				continue
			}
		}
		if len(w.buf) > 1 {
			w.buf = append(w.buf, ',')
		}
		if w.arrays {
			w.buf = append(strconv.AppendInt(append(w.buf, '['), at, 10), ',')
		} else {
			w.buf = append(strconv.AppendInt(append(w.buf, '"'), at, 10), `":`...)
		}
		w.value(&s.Result, i, nulls)
		if w.arrays {
			w.buf = append(w.buf, ']')
		}
	}
	w.json.RawBytes(append(w.buf, closing))
}

func (w *writer) value(a *aggregation.Result, i int, nulls bool) {
	switch {
	case a.Integers != nil:
		w.buf = strconv.AppendInt(w.buf, a.Integers[i], 10)
	case nulls && math.IsNaN(a.Doubles[i]):
		w.buf = append(w.buf, "null"...)
	default:
		w.buf = appendDouble(w.buf, a.Doubles[i])
	}
}

// summary writes the statistics of the whole query, and warnings.
func (w *writer) summary(took time.Duration) {
	all := map[string]any{"totalTime": float64(took.Microseconds()) / 1000}
	var sum opentsdb.Figures
	for i, f := range w.response.Read {
		name := strconv.Itoa(i)
		if i < 10 {
			name = "0" + name
		}
		all["queryIdx_"+name] = statsOf(f)
		sum.Add(f)
	}
	for name, v := range statsOf(sum) {
		all[name] = v
	}
	w.json.Raw(`{"statsSummary":`)
	w.json.Marshal(all)
	w.json.Raw(`,"warnings":`)
	w.json.Strings(w.response.Warnings)
	w.json.Raw(`}`)
}

// statsOf returns figures under OpenTSDB's names.
func statsOf(f opentsdb.Figures) map[string]int64 {
	return map[string]int64{
		"rowsFromStorage": f.Rows, "dpsFromStorage": f.Samples, "dpsPostFilter": f.Samples, "rowsPostFilter": f.Rows,
		"seriesPostFilter": f.Series, "emittedDPs": f.Points,
	}
}
