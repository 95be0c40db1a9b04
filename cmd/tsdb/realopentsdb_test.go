//go:build realinput

package main_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// tsdSeries is the number of series of a collector with three tags.
const tsdSeries = 20_000

// TestRealOpenTSDBCPU sends the same data points by telnet and by /api/put, and reports the CPU time of the server a million
// data points of known series. VICTORIA_METRICS names the binary of the other server, REALWRITE_ROUNDS the points a series.
func TestRealOpenTSDBCPU(t *testing.T) {
	rounds := envInt(t, "REALWRITE_ROUNDS", 100)
	for _, protocol := range []string{"telnet", "put"} {
		t.Run(protocol+"/Halite", func(t *testing.T) {
			addr := freeAddress(t)
			s := startServer(t, t.TempDir(), "--no-web.self-scrape", "--log.level=warn", "--opentsdb.listen-address", addr)
			writeTSD(t, protocol, addr, addr, s.cmd, rounds)
			s.cmd.Process.Signal(syscall.SIGTERM)
		})
		path := os.Getenv("VICTORIA_METRICS")
		if path == "" {
			continue
		}
		t.Run(protocol+"/VictoriaMetrics", func(t *testing.T) {
			telnet, put := freeAddress(t), freeAddress(t)
			_, cmd := startReceiver(t, "/health", path, "-storageDataPath="+t.TempDir(), "-opentsdbListenAddr="+telnet,
				"-opentsdbHTTPListenAddr="+put, "-httpListenAddr=%s")
			writeTSD(t, protocol, telnet, put, cmd, rounds)
			cmd.Process.Signal(syscall.SIGTERM)
		})
	}
}

// writeTSD writes one round of new series, then the rounds that count.
func writeTSD(t *testing.T, protocol, telnet, put string, cmd *exec.Cmd, rounds int) {
	var conn net.Conn
	if protocol == "telnet" {
		var err error
		conn, err = net.Dial("tcp", telnet)
		require.NoError(t, err)
		defer conn.Close()
	}
	random := rand.New(rand.NewPCG(1, 1))
	values := make([]int, tsdSeries)
	start := time.Now().Unix() - int64(rounds+1)*15
	var before time.Duration
	for round := range rounds + 1 {
		if round == 1 {
			before = settledCPU(t, cmd)
		}
		for from := 0; from < tsdSeries; from += 2000 {
			var body bytes.Buffer
			for n := from; n < from+2000; n++ {
				values[n] += random.IntN(1000)
				format := "put sys.cpu.%s %d %d host=web%04d.example.com cpu=%d dc=lga\n"
				if conn == nil {
					format = `{"metric":"sys.cpu.%s","timestamp":%d,"value":%d,"tags":{"host":"web%04d.example.com","cpu":"%d","dc":"lga"}}`
					body.WriteByte("[,"[min(n-from, 1)])
				}
				fmt.Fprintf(&body, format, [...]string{"user", "nice"}[n%2], start+int64(round)*15, values[n], n/16, n/2%8)
			}
			if conn == nil {
				body.WriteByte(']')
				postBody(t, "http://"+put+"/api/put", body.Bytes())
				continue
			}
			_, err := conn.Write(body.Bytes())
			require.NoError(t, err)
		}
	}
	cpu := settledCPU(t, cmd) - before
	t.Logf("%s: %.2f CPU s a million data points", strings.TrimPrefix(t.Name(), "TestRealOpenTSDBCPU/"),
		cpu.Seconds()/float64(rounds*tsdSeries)*1e6)
}

// settledCPU returns the CPU time of a process when it has nothing left to do.
func settledCPU(t *testing.T, cmd *exec.Cmd) time.Duration {
	for {
		before := processCPU(t, cmd)
		time.Sleep(300 * time.Millisecond)
		if after := processCPU(t, cmd); after-before <= 20*time.Millisecond {
			return after
		}
	}
}
