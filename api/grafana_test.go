package api_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"halite/api/internal/comparison"
	"halite/query"
)

// TestOpenTSDBGrafana sends the queries that Grafana's data source for OpenTSDB sends, in each of its settings for the version
// of OpenTSDB: up to 2.1, 2.2, 2.3 and 2.4.
func TestOpenTSDBGrafana(t *testing.T) {
	t.Parallel()
	s := newOTSDB(t, query.Options{})
	span := fmt.Sprintf(`"start":%d,"end":%d`, otsdbStart, comparison.End)
	type series struct {
		Metric        string
		Tags          map[string]string
		AggregateTags []string
		Dps           json.RawMessage
		Query         *struct{ Index int }
	}
	post := func(target, body string) (response []series) {
		w := s.send(http.MethodPost, target, body, "Content-Type", "application/json")
		require.Equal(t, http.StatusOK, w.Code, w.Body.String())
		require.Contains(t, w.Header().Get("Content-Type"), "application/json")
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), &response))
		return response
	}
	old := post("/api/query", `{`+span+`,"queries":[{"metric":"sys.cpu","aggregator":"avg","downsample":"1m-avg","rate":true,
		"rateOptions":{"counter":true,"counterMax":100,"resetValue":60},"tags":{"host":"web01|web02"}}]}`)
	require.Len(t, old, 2)
	require.Equal(t, map[string]string{"host": "web02", "dc": "lga"}, old[1].Tags)
	filtered := post("/api/query", `{`+span+`,"msResolution":true,"globalAnnotations":true,"queries":[{"metric":"sys.cpu",
		"aggregator":"sum","downsample":"5m-avg-zero","explicitTags":false,
		"filters":[{"tagk":"host","type":"iliteral_or","filter":"WEB01","groupBy":false}]}]}`)
	points := map[string]float64{}
	require.NoError(t, json.Unmarshal(filtered[0].Dps, &points))
	require.Equal(t, 20.0, points[fmt.Sprint(otsdbStart*1000)])
	shown := post("/api/query", `{`+span+`,"showQuery":true,"queries":[{"metric":"mem","aggregator":"sum"},
		{"metric":"sys.cpu","aggregator":"sum"}]}`)
	require.Equal(t, 1, shown[1].Query.Index)
	arrays := post("/api/query?arrays=true", `{`+span+`,"showQuery":true,"msResolution":false,"queries":[{"metric":"sys.cpu",
		"aggregator":"none","disableDownsampling":true}]}`)
	var pairs [][2]float64
	require.NoError(t, json.Unmarshal(arrays[0].Dps, &pairs))
	require.Equal(t, [2]float64{otsdbStart, 0}, pairs[0])
	require.Len(t, pairs, 10)
}
