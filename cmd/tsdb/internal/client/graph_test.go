package client

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"
)

// TestDrawGraph: all series share one scale of heights. Missing values stay empty.
func TestDrawGraph(t *testing.T) {
	response := ""
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		require.NoError(t, r.ParseForm())
		require.Equal(t, "up", r.PostForm.Get("query"))
		require.Equal(t, "1", r.PostForm.Get("step"))
		start := r.PostForm.Get("start")
		fmt.Fprint(w, strings.ReplaceAll(response, "START", start))
	}))
	defer s.Close()
	draw := func() (string, error) {
		var out strings.Builder
		c := &graphConfig{server: Server{URL: s.URL}, query: "up", from: "5s", to: "now", zone: "UTC", width: 5}
		err := c.draw(t.Context(), &out)
		return out.String(), err
	}
	response = `{"status":"success","data":{"resultType":"matrix","result":[
		{"metric":{"instance":"b"},"values":[[START,"8"]]},
		{"metric":{"instance":"a"},"values":[[START,"0"],[START.999,"4"]]}]}}`
	text, err := draw()
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(text, "a  ▄      4\nb  █      8\n"), text)
	require.Contains(t, text, "full height 8 (bottom 0)")

	response = `{"status":"success","data":{"resultType":"matrix","result":[{"metric":{},"values":[[START,"16"]]}]}}`
	text, err = draw()
	require.NoError(t, err)
	require.Equal(t, graphTall, strings.Count(text, "█"), "a series that is alone is tall")

	response = `{"status":"error","error":"no such function"}`
	_, err = draw()
	require.ErrorContains(t, err, "no such function")
	response = `{"status":"success","data":{"result":[]}}`
	_, err = draw()
	require.ErrorContains(t, err, "no samples")
	response = "<html>"
	_, err = draw()
	require.ErrorContains(t, err, "without JSON")
}

// TestGraphNames: series that share labels are named by the others, and no name loses where it differs.
func TestGraphNames(t *testing.T) {
	long := strings.Repeat("x", 100)
	list := []plottedSeries{
		{metric: model.Metric{"__name__": "up", "job": "node", "path": model.LabelValue(long + "a")}},
		{metric: model.Metric{"__name__": "up", "job": "node", "path": model.LabelValue(long + "b")}},
	}
	common := nameSeries(list)
	require.Equal(t, `up{job="node"}`, common.String())
	require.NotEqual(t, list[0].name, list[1].name)
	require.True(t, strings.HasSuffix(list[1].name, "xb"), list[1].name)
	alone := []plottedSeries{{metric: model.Metric{"__name__": "up"}}}
	require.Equal(t, "up", nameSeries(alone).String())
	require.Empty(t, alone[0].name)
}

func TestGraphTimes(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	c := graphConfig{from: "2h", to: "now-1h", zone: "Europe/Berlin", width: 60}
	s, err := c.span(now)
	require.NoError(t, err)
	require.Equal(t, "12:00:00", s.to.Format(time.TimeOnly))
	require.Equal(t, time.Minute, s.step)
	require.Equal(t, now.Add(-time.Hour-59*time.Minute).UnixMilli(), s.from.UnixMilli())
	for want, change := range map[string]func(c *graphConfig){
		"--from: ": func(c *graphConfig) { c.from = "soon" }, "--to: ": func(c *graphConfig) { c.to = "soon" },
		"--time-zone: ":      func(c *graphConfig) { c.zone = "Mars/Base" },
		"at least 1s before": func(c *graphConfig) { c.from = "now-1h" },
	} {
		wrong := c
		change(&wrong)
		_, err := wrong.span(now)
		require.ErrorContains(t, err, want)
	}
}
