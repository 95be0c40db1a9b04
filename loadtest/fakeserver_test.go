package loadtest

import (
	"encoding/json"
	"fmt"
	"halite/loadtest/client"
	"halite/loadtest/load"
	"halite/loadtest/probe"
	"io"
	"net/http"
	"net/http/httptest"
	"sort"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/klauspost/compress/snappy"
	"github.com/prometheus/prometheus/prompb"
)

// fakeServer is a server in memory. Its fields make it fail in chosen ways.
type fakeServer struct {
	*httptest.Server
	t          testing.TB
	remoteRead bool // false: the endpoint is missing
	busyReads  int  // number of reads to answer 503 first
	// store returns the value to store for a sample of a load, and whether to store it at all.
	store func(labels string, s prompb.Sample) (float64, bool)
	// refuse answers the write request number n, from 1, or returns false to accept it.
	refuse func(n int, w http.ResponseWriter) bool

	mu     sync.Mutex
	writes int
	data   map[string]map[int64]float64 // by labels, encoded as a JSON object, and timestamp
}

func newFakeServer(t testing.TB) *fakeServer {
	s := &fakeServer{t: t, remoteRead: true, data: make(map[string]map[int64]float64)}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /api/v1/write", s.write)
	mux.HandleFunc("POST /api/v1/read", s.read)
	mux.HandleFunc("GET /api/v1/query", s.query)
	s.Server = httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s
}

func (s *fakeServer) target() client.Target {
	return client.Target{WriteURL: s.URL + "/api/v1/write", QueryURL: s.URL}
}

func labelsKey(labels []prompb.Label) string {
	m := make(map[string]string)
	for _, l := range labels {
		m[l.Name] = l.Value
	}
	text, err := json.Marshal(m)
	if err != nil {
		panic(err)
	}
	return string(text)
}

func (s *fakeServer) write(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writes++
	if s.refuse != nil && s.refuse(s.writes, w) {
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		s.t.Error(err)
	}
	message, err := snappy.Decode(nil, body)
	if err != nil {
		s.t.Error(err)
	}
	var req prompb.WriteRequest
	if err := req.Unmarshal(message); err != nil {
		s.t.Error(err)
	}
	for _, ts := range req.Timeseries {
		key := labelsKey(ts.Labels)
		for _, x := range ts.Samples {
			v, keep := x.Value, true
			if s.store != nil && !strings.Contains(key, probe.FreshnessMetric) {
				v, keep = s.store(key, x)
			}
			if !keep {
				continue
			}
			if s.data[key] == nil {
				s.data[key] = make(map[int64]float64)
			}
			s.data[key][x.Timestamp] = v
		}
	}
	w.WriteHeader(http.StatusNoContent)
}

// find returns the samples of all matching series, sorted by time.
func (s *fakeServer) find(matchers map[string]string, fromMs, toMs int64) []prompb.TimeSeries {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []prompb.TimeSeries
	for key, samples := range s.data {
		var m map[string]string
		if err := json.Unmarshal([]byte(key), &m); err != nil {
			s.t.Error(err)
		}
		match := true
		for name, value := range matchers {
			match = match && m[name] == value
		}
		if !match {
			continue
		}
		var ts prompb.TimeSeries
		for name, value := range m {
			ts.Labels = append(ts.Labels, prompb.Label{Name: name, Value: value})
		}
		sort.Slice(ts.Labels, func(i, j int) bool { return ts.Labels[i].Name < ts.Labels[j].Name })
		for at, v := range samples {
			if at >= fromMs && at <= toMs {
				ts.Samples = append(ts.Samples, prompb.Sample{Timestamp: at, Value: v})
			}
		}
		sort.Slice(ts.Samples, func(i, j int) bool { return ts.Samples[i].Timestamp < ts.Samples[j].Timestamp })
		if len(ts.Samples) > 0 {
			list = append(list, ts)
		}
	}
	return list
}

func (s *fakeServer) read(w http.ResponseWriter, r *http.Request) {
	if !s.remoteRead {
		http.NotFound(w, r)
		return
	}
	s.mu.Lock()
	s.busyReads--
	busy := s.busyReads >= 0
	s.mu.Unlock()
	if busy {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	body, _ := io.ReadAll(r.Body)
	message, err := snappy.Decode(nil, body)
	if err != nil {
		s.t.Error(err)
	}
	var req prompb.ReadRequest
	if err := req.Unmarshal(message); err != nil {
		s.t.Error(err)
	}
	q := req.Queries[0]
	matchers := make(map[string]string)
	for _, m := range q.Matchers {
		matchers[m.Name] = m.Value
	}
	resp := prompb.ReadResponse{Results: []*prompb.QueryResult{{}}}
	for _, ts := range s.find(matchers, q.StartTimestampMs, q.EndTimestampMs) {
		resp.Results[0].Timeseries = append(resp.Results[0].Timeseries, &ts)
	}
	response, err := resp.Marshal()
	if err != nil {
		s.t.Error(err)
	}
	w.Write(snappy.Encode(nil, response))
}

// query answers raw range selectors. It answers all other queries with an empty vector.
func (s *fakeServer) query(w http.ResponseWriter, r *http.Request) {
	type series struct {
		Metric map[string]string `json:"metric"`
		Values [][2]any          `json:"values"`
	}
	result, typ := []series{}, "vector"
	text := r.FormValue("query")
	if name, rest, ok := strings.Cut(text, "{"); ok && strings.HasSuffix(rest, "ms]") {
		typ = "matrix"
		inner, span, _ := strings.Cut(rest, "}[")
		matchers := make(map[string]string)
		if name != "" {
			matchers[load.MetricLabel] = name
		}
		for _, pair := range strings.Split(inner, ",") {
			k, v, _ := strings.Cut(pair, "=")
			matchers[k], _ = strconv.Unquote(v)
		}
		spanMs, err := strconv.ParseInt(strings.TrimSuffix(span, "ms]"), 10, 64)
		if err != nil {
			s.t.Error(err)
		}
		secs, err := strconv.ParseFloat(r.FormValue("time"), 64)
		if err != nil {
			s.t.Error(err)
		}
		endMs := int64(secs*1000 + 0.5)
		for _, ts := range s.find(matchers, endMs-spanMs+1, endMs) {
			one := series{Metric: make(map[string]string)}
			for _, l := range ts.Labels {
				one.Metric[l.Name] = l.Value
			}
			for _, x := range ts.Samples {
				one.Values = append(one.Values, [2]any{float64(x.Timestamp) / 1000, strconv.FormatFloat(x.Value, 'g', -1, 64)})
			}
			result = append(result, one)
		}
	}
	response, err := json.Marshal(map[string]any{"status": "success", "data": map[string]any{"resultType": typ, "result": result}})
	if err != nil {
		s.t.Error(err)
	}
	fmt.Fprintf(w, "%s", response)
}
