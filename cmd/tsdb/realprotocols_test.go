//go:build realinput

package main_test

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/stretchr/testify/require"
)

// TestRealProtocolsCPU sends the same samples by the text format and by InfluxDB's line protocol, and reports the CPU time of the
// server a million samples. VICTORIA_METRICS names the binary of the other server, REALWRITE_ROUNDS the samples a series.
func TestRealProtocolsCPU(t *testing.T) {
	servers := slices.DeleteFunc(receivers(), func(r receiver) bool { return r.name == "Prometheus" }) // it has neither path
	rounds := envInt(t, "REALWRITE_ROUNDS", 100)
	for _, protocol := range []struct {
		name, path string
		body       func(series []labels.Labels, values []float64, tsMs int64) []byte
	}{
		{"text", "/api/v1/import/prometheus", textBody},
		{"influx", "/write?precision=ms", influxBody},
	} {
		for _, server := range servers {
			t.Run(protocol.name+"/"+server.name, func(t *testing.T) {
				url, cmd := server.start(t)
				series := writeSeries()
				random := rand.New(rand.NewPCG(1, 1))
				values := make([]float64, len(series))
				startMs := time.Now().UnixMilli() - int64(rounds+1)*15_000
				var before time.Duration
				for round := range rounds + 1 {
					if round == 1 {
						before = processCPU(t, cmd)
					}
					for from := 0; from < len(series); from += writeSamplesRequest {
						to := from + writeSamplesRequest
						for i := from; i < to; i++ {
							values[i] += float64(random.IntN(1000))
						}
						postBody(t, url+protocol.path, protocol.body(series[from:to], values[from:to], startMs+int64(round)*15_000))
					}
				}
				cpu := processCPU(t, cmd) - before
				t.Logf("%s, %s: %.2f CPU s a million samples", server.name, protocol.name,
					cpu.Seconds()/float64(rounds*len(series))*1e6)
				cmd.Process.Signal(syscall.SIGTERM)
			})
		}
	}
}

func textBody(series []labels.Labels, values []float64, tsMs int64) []byte {
	var b bytes.Buffer
	for i, ls := range series {
		b.WriteString(ls.Get("__name__"))
		sep := byte('{')
		ls.Range(func(l labels.Label) {
			if l.Name != "__name__" {
				b.WriteByte(sep)
				fmt.Fprintf(&b, "%s=%q", l.Name, l.Value)
				sep = ','
			}
		})
		fmt.Fprintf(&b, "} %g %d\n", values[i], tsMs)
	}
	return b.Bytes()
}

// influxBody writes ten fields a line, as Telegraf's inputs do.
func influxBody(series []labels.Labels, values []float64, tsMs int64) []byte {
	const fields = 10
	var b bytes.Buffer
	for i := 0; i < len(series); i += fields {
		b.WriteString("node,line=" + strconv.Itoa(i))
		series[i].Range(func(l labels.Label) {
			if l.Name != "__name__" {
				b.WriteString("," + l.Name + "=" + l.Value)
			}
		})
		sep := byte(' ')
		for n := range fields {
			b.WriteByte(sep)
			fmt.Fprintf(&b, "metric_%d_total=%g", n, values[i+n])
			sep = ','
		}
		fmt.Fprintf(&b, " %d\n", tsMs)
	}
	return b.Bytes()
}

func postBody(t *testing.T, url string, body []byte) {
	resp, err := http.Post(url, "text/plain", bytes.NewReader(body))
	require.NoError(t, err)
	answer, _ := io.ReadAll(resp.Body)
	resp.Body.Close()
	require.Equal(t, 2, resp.StatusCode/100, "%s", answer)
}
