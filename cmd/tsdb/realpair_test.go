//go:build realinput

package main_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"halite/ingest/hatracker"
)

// realPairFailover is much shorter than the default, so that the test is short.
const realPairFailover = 5 * time.Second

const realPairConfig = `
global: {scrape_interval: 1s, external_labels: {cluster: eu-1, __replica__: %[3]s}}
scrape_configs:
  - job_name: node
    static_configs: [{targets: ["%[1]s"]}]
remote_write:
  - url: %[2]s/api/v1/write
    queue_config: {batch_send_deadline: 500ms}
`

// pairSample is a sample of the API.
type pairSample struct {
	at    float64
	value string
}

func (s *pairSample) UnmarshalJSON(text []byte) error {
	return json.Unmarshal(text, &[]any{&s.at, &s.value})
}

type pairSeries struct {
	Metric map[string]string
	Values []pairSample
}

// TestRealPair has two real Prometheus servers scrape the same target and kills the elected one twice. There are no gaps beyond
// the fail-over time, no query finds a hole, no sample comes twice, and each sample is one of the elected replica's.
func TestRealPair(t *testing.T) {
	prometheus, exporter := findBinary(t, "PROMETHEUS", "prometheus"), findBinary(t, "NODE_EXPORTER", "prometheus-node-exporter")
	dir := t.TempDir()
	rules := filepath.Join(dir, "halite.yml")
	require.NoError(t, os.WriteFile(rules, fmt.Appendf(nil,
		"ha: {cluster_label: cluster, replica_label: __replica__, failover: %s}", realPairFailover), 0o600))
	s := startServer(t, t.TempDir(), "--no-web.self-scrape", "--config.file", rules)
	target := freeAddress(t)
	startProcess(t, exporter, "--web.listen-address="+target)
	addresses, running := map[string]string{}, map[string]*exec.Cmd{}
	start := func(name string) {
		config := filepath.Join(dir, name+".yml")
		require.NoError(t, os.WriteFile(config, fmt.Appendf(nil, realPairConfig, target, s.url, name), 0o600))
		addresses[name] = freeAddress(t)
		cmd := exec.Command(prometheus, "--config.file="+config, "--storage.tsdb.path="+filepath.Join(dir, name),
			"--web.listen-address="+addresses[name])
		require.NoError(t, cmd.Start())
		t.Cleanup(func() { cmd.Process.Kill() })
		running[name] = cmd
	}
	start("a")
	start("b")
	begin := time.Now().Add(4 * time.Second) // both are up
	var known []pairSeries
	for round := range 2 {
		time.Sleep(15 * time.Second)
		elected := electedReplica(t, s)
		other := map[string]string{"a": "b", "b": "a"}[elected]
		known = append(known, pairSamples(t, "http://"+addresses[elected], begin)...)
		require.NoError(t, running[elected].Process.Kill())
		running[elected].Wait()
		time.Sleep(realPairFailover + 10*time.Second)
		require.Equal(t, other, electedReplica(t, s), "round %d", round)
		start(elected)
	}
	time.Sleep(10 * time.Second)
	known = append(known, pairSamples(t, "http://"+addresses[electedReplica(t, s)], begin)...)
	requireOneReplica(t, pairSamples(t, s.url, begin), known)
	requireNoHole(t, s, begin)
}

func electedReplica(t *testing.T, s *server) string {
	resp, err := http.Get(s.url + "/api/v1/status/senders")
	require.NoError(t, err)
	defer resp.Body.Close()
	var response struct {
		Data struct{ HAClusters []hatracker.ClusterStatus }
	}
	require.NoError(t, json.NewDecoder(resp.Body).Decode(&response))
	require.Len(t, response.Data.HAClusters, 1)
	return response.Data.HAClusters[0].Elected
}

// pairSamples returns the samples of two metrics since a time.
func pairSamples(t *testing.T, base string, begin time.Time) (out []pairSeries) {
	params := url.Values{"query": {fmt.Sprintf(`{__name__=~"up|node_time_seconds"}[%ds]`, int(time.Since(begin).Seconds()))}}
	resp, err := http.PostForm(base+"/api/v1/query", params)
	require.NoError(t, err)
	defer resp.Body.Close()
	var response struct {
		Data struct{ Result []pairSeries }
	}
	require.NoError(t, json.NewDecoder(resp.Body).Decode(&response))
	require.Len(t, response.Data.Result, 2)
	return response.Data.Result
}

// requireOneReplica checks the distances of samples, and that each one is known from a replica.
func requireOneReplica(t *testing.T, stored, known []pairSeries) {
	of := map[string]map[pairSample]bool{}
	for _, series := range known {
		name := series.Metric["__name__"]
		if of[name] == nil {
			of[name] = map[pairSample]bool{}
		}
		for _, sample := range series.Values {
			of[name][sample] = true
		}
	}
	for _, series := range stored {
		require.NotContains(t, series.Metric, "__replica__")
		require.Equal(t, "eu-1", series.Metric["cluster"])
		unknown, failovers := 0, 0
		for n, sample := range series.Values {
			if !of[series.Metric["__name__"]][sample] {
				unknown++ // samples that a killed replica scraped and sent after the query
			}
			if n == 0 {
				continue
			}
			gap := sample.at - series.Values[n-1].at
			require.Greater(t, gap, 0.5, "two replicas' samples")
			require.Less(t, gap, realPairFailover.Seconds()+4)
			if gap > 2.5 {
				failovers++
			}
		}
		t.Logf("%s: %d samples, %d gaps of a fail-over", series.Metric["__name__"], len(series.Values), failovers)
		require.LessOrEqual(t, unknown, 4)
		require.LessOrEqual(t, failovers, 2)
	}
}

// requireNoHole checks that a query finds a value at each second.
func requireNoHole(t *testing.T, s *server, begin time.Time) {
	end := time.Now().Add(-2 * time.Second)
	got, err := fetch(s.url+"/api/v1/query_range", url.Values{
		"query": {`count(up == 1)`},
		"start": {unix(begin.Add(10 * time.Second))}, "end": {unix(end)}, "step": {"1"},
	})
	require.NoError(t, err)
	values := got.([]any)[1].([]any)[0].(map[string]any)["values"].([]any)
	require.Len(t, values, int(end.Sub(begin.Add(10*time.Second)).Seconds())+1)
}
