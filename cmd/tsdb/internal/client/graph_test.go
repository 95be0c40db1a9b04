package client

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"
)

// TestDrawGraph: heights follow the values on one scale for all series; what a series lacks stays empty.
func TestDrawGraph(t *testing.T) {
	answer := ""
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		require.NoError(t, r.ParseForm())
		require.Equal(t, "up", r.PostForm.Get("query"))
		require.Equal(t, "1", r.PostForm.Get("step"))
		start := r.PostForm.Get("start")
		fmt.Fprint(w, strings.ReplaceAll(answer, "START", start))
	}))
	defer s.Close()
	draw := func() (string, error) {
		var out strings.Builder
		span, err := model.ParseDuration("5s")
		require.NoError(t, err)
		err = drawGraph(&graphConfig{server: Server{URL: s.URL}, query: "up", span: span, width: 5}, &out)
		return out.String(), err
	}
	answer = `{"status":"success","data":{"resultType":"matrix","result":[
		{"metric":{"instance":"b"},"values":[[START,"8"]]},
		{"metric":{"instance":"a"},"values":[[START,"0"],[START.999,"4"]]}]}}`
	text, err := draw()
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(text, "a  ▄      4\nb  █      8\n"), text)
	require.Contains(t, text, "full height 8 (bottom 0)")

	answer = `{"status":"success","data":{"resultType":"matrix","result":[{"metric":{},"values":[[START,"16"]]}]}}`
	text, err = draw()
	require.NoError(t, err)
	require.Equal(t, graphTall, strings.Count(text, "█"), "a series that is alone is tall")

	answer = `{"status":"error","error":"no such function"}`
	_, err = draw()
	require.ErrorContains(t, err, "no such function")
	answer = `{"status":"success","data":{"result":[]}}`
	_, err = draw()
	require.ErrorContains(t, err, "no samples")
	answer = "<html>"
	_, err = draw()
	require.ErrorContains(t, err, "no JSON")
}
