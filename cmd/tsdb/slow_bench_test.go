package main_test

import (
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// BenchmarkSlowReaders starts 24 clients. Each queries a server of 1 GiB for all samples of 10,000 series, and reads nothing. It
// reports: MiB-peak, the peak of the resident set; begun, the clients with a response; refused, the clients with 503; small-
// ms, the median time of a small query meanwhile; large-failed, the number of ten large queries that get no memory.
func BenchmarkSlowReaders(b *testing.B) {
	const clients, series = 24, 10_000
	cmd := command(b)
	cmd.Env = append(os.Environ(), "GOMEMLIMIT=1GiB")
	s := launchWith(b, cmd, b.TempDir(), freeAddress(b), "--no-web.self-scrape")
	s.awaitReady()
	to := time.Now().Truncate(time.Second)
	for at := to.Add(-time.Hour); at.Before(to); at = at.Add(10 * time.Second) {
		s.write(wave("slow", series, at, at.Add(time.Second), 10*time.Second))
	}
	path := "/api/v1/query?" + url.Values{"query": {"slow[1h]"}, "time": {strconv.FormatInt(to.Unix(), 10)}}.Encode()
	before := s.peakMiB(b)
	for b.Loop() {
		var readers sync.WaitGroup
		var begun, refused atomic.Int64
		for range clients {
			readers.Go(func() {
				code := s.queryWithoutReading(b, path)
				if code == http.StatusOK {
					begun.Add(1)
				} else if code == http.StatusServiceUnavailable {
					refused.Add(1)
				}
			})
		}
		readers.Wait()
		failed := 0
		for range 10 {
			status, _ := s.get("/api/v1/query", url.Values{"query": {"sum(rate(slow[5m]))"}, "nocache": {"1"}})
			if status != http.StatusOK {
				failed++
			}
		}
		began := time.Now()
		status, a := s.get("/api/v1/query", url.Values{"query": {`slow{instance="host-7"}`}})
		require.Equal(b, http.StatusOK, status, a.Error)
		b.ReportMetric(time.Since(began).Seconds()*1e3, "small-ms")
		b.ReportMetric(float64(begun.Load()), "begun")
		b.ReportMetric(float64(refused.Load()), "refused")
		b.ReportMetric(float64(failed), "large-failed")
	}
	b.ReportMetric(s.peakMiB(b), "MiB-peak")
	b.ReportMetric(before, "MiB-before")
}

// queryWithoutReading sends a request, and reads at most the status of the response.
func (s *server) queryWithoutReading(b *testing.B, path string) int {
	addr := strings.TrimPrefix(s.url, "http://")
	c, err := net.Dial("tcp", addr)
	require.NoError(b, err)
	b.Cleanup(func() { c.Close() })
	require.NoError(b, c.(*net.TCPConn).SetReadBuffer(8<<10))
	_, err = fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: %s\r\n\r\n", path, addr)
	require.NoError(b, err)
	require.NoError(b, c.SetReadDeadline(time.Now().Add(2*time.Minute)))
	status := make([]byte, len("HTTP/1.1 200"))
	if _, err := c.Read(status); err != nil {
		return 0
	}
	code, _ := strconv.Atoi(string(status[len("HTTP/1.1 "):]))
	return code
}

var peakLine = regexp.MustCompile(`VmHWM:\s+(\d+) kB`)

// peakMiB is the peak of the server's resident set.
func (s *server) peakMiB(b *testing.B) float64 {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.cmd.Process.Pid))
	require.NoError(b, err)
	match := peakLine.FindSubmatch(status)
	require.NotNil(b, match)
	kib, err := strconv.ParseFloat(string(match[1]), 64)
	require.NoError(b, err)
	return kib / 1024
}
