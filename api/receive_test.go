package api_test

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/stretchr/testify/require"

	"halite/api"
	"halite/api/internal/comparison"
)

// send posts a body and returns the answer. Headers come in pairs.
func (s *stack) send(path, body string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
	for n := 0; n < len(header); n += 2 {
		r.Header.Set(header[n], header[n+1])
	}
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, r)
	return w
}

// query returns the answer to an instant query at the time of the comparison.
func (s *stack) query(t testing.TB, expr string) string {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, "/api/v1/query?query="+url.QueryEscape(expr)+
		"&time="+strconv.FormatInt(comparison.Now().Unix(), 10), nil)
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, r)
	require.Equal(t, http.StatusOK, w.Code, w.Body)
	return w.Body.String()
}

// senders returns the list of senders.
func (s *stack) senders() string {
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/api/v1/status/senders", nil))
	return w.Body.String()
}

func gzipped(t testing.TB, body string) string {
	t.Helper()
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, err := z.Write([]byte(body))
	require.NoError(t, err)
	require.NoError(t, z.Close())
	return packed.String()
}

func TestImportText(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	const path = "/api/v1/import/prometheus"
	for range 3 { // the second time the series is known by its text
		w := s.send(path, "temperature{room=\"attic\"} 21.5\n", "Content-Type", "application/x-www-form-urlencoded")
		require.Equal(t, http.StatusNoContent, w.Code, w.Body)
	}
	require.Contains(t, s.query(t, "temperature"), `"room":"attic"},"value":[`)
	require.Equal(t, http.StatusNoContent, s.send(path+"?extra_label=job=x", gzipped(t, "temperature{room=\"attic\"} 3\n"),
		"Content-Encoding", "gzip").Code)
	require.Contains(t, s.query(t, "temperature"), `"job":"x","room":"attic"},"value":[`)
	require.Contains(t, s.query(t, "count(temperature)"), `"2"`)

	w := s.send(path, "temperature{ 3\n")
	require.Equal(t, http.StatusBadRequest, w.Code)
	require.Contains(t, w.Body.String(), "line 1 or later")
	w = s.send(path, "temperature 3 99999999999999\nhumidity 4\n")
	require.Equal(t, http.StatusBadRequest, w.Code)
	require.Contains(t, w.Body.String(), "1 of 2 samples rejected (too_far_ahead: 1)")
	require.Contains(t, s.query(t, "humidity"), `"4"`)
	require.Equal(t, http.StatusBadRequest, s.send(path+"?timestamp=soon", "up 1\n").Code)
	require.Equal(t, http.StatusUnsupportedMediaType, s.send(path, "up 1\n", "Content-Encoding", "br").Code)
	require.Equal(t, http.StatusBadRequest, s.send(path, "up 1\n", "Content-Encoding", "gzip").Code)

	list := s.senders()
	require.Contains(t, list, `"protocol":"Prometheus text import"`)
	require.Contains(t, list, `"too_far_ahead":1`)
	require.Contains(t, list, `"parameter":1`)
}

func TestPushgateway(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	require.Equal(t, http.StatusOK, s.send("/metrics/job/backup/instance/a%2Fb", "last_success 1\n").Code)
	require.Contains(t, s.query(t, "last_success"), `{"__name__":"last_success","instance":"a/b","job":"backup"}`)
	require.Equal(t, http.StatusBadRequest, s.send("/metrics/job/", "up 1\n").Code)
	require.Equal(t, http.StatusBadRequest, s.send("/metrics/job/x", "up 1 1000\n").Code)
	require.Contains(t, s.senders(), `"protocol":"Pushgateway"`)
}

// TestWriteProtocol: the check of hosts finds out which requests write.
func TestWriteProtocol(t *testing.T) {
	for path, want := range map[string]string{
		"/x/api/v1/write": "remote write 1.0", "/x/api/v1/import/prometheus": "Prometheus text import",
		"/x/metrics/job/a": "Pushgateway", "/x/metrics": "", "/metrics/job/a": "", "/x/api/v1/query": "",
	} {
		require.Equal(t, want, api.WriteProtocol(httptest.NewRequest(http.MethodPost, path, nil), "/x"), path)
	}
}
