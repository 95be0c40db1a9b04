package main_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	syscalls "golang.org/x/sys/unix"
)

// BenchmarkTenantFlood measures small queries and writes of one tenant alone, and while another tenant has 30 range queries over
// 2,000 series, or 30 writes, under way. p50 and p95 are of the small requests, in milliseconds of two clocks: the time that
// passed, and the CPU time of the server, which other processes of the machine do not change. flood/s is the rate of the other
// tenant, client-cpu the share of a CPU that the clients take.
//
// "bound" has the bounds of a tenant while others are active, "cpus" only the bounds of CPUs, "free" none. "limits" also limits
// the tenant that floods. After a 503 a client waits for the time in Retry-After, as Prometheus does.
func BenchmarkTenantFlood(b *testing.B) {
	b.Run("free", func(b *testing.B) {
		tenantFlood(b, "--tenants.max-shared-cpus=1000", "--tenants.max-shared-log-bytes=0")
	})
	b.Run("cpus", func(b *testing.B) { tenantFlood(b, "--tenants.max-shared-log-bytes=0") })
	b.Run("bound", func(b *testing.B) { tenantFlood(b) })
	b.Run("limits", func(b *testing.B) {
		file := filepath.Join(b.TempDir(), "config.yml")
		limits := "tenants: [{name: acme, samples_per_second: {max: 100000}, query_concurrency: {max: 1}}]\n"
		require.NoError(b, os.WriteFile(file, []byte(limits), 0o600))
		tenantFlood(b, "--config.file", file)
	})
}

// flooded sends the requests of the benchmark.
type flooded struct {
	*tenantServer
	now time.Time
	// bodies are writes of the tenant that floods. They are made before, so that the clients need little of the CPUs.
	bodies []string
}

func tenantFlood(b *testing.B, flags ...string) {
	const bodies = 16
	f := &flooded{
		tenantServer: startTenants(b, b.TempDir(), append(flags, "--no-web.self-scrape")...),
		now:          time.Now().Truncate(time.Minute),
	}
	for at := f.now.Add(-time.Hour); !at.After(f.now); at = at.Add(15 * time.Second) {
		for who, series := range map[string]int{"acme": 2000, "beta": 3} {
			f.store(who, samplesAt(series, at))
		}
	}
	for n := range bodies {
		f.bodies = append(f.bodies, samplesAt(2000, f.now.Add(time.Duration(n)*time.Second)))
	}
	heavy := "/api/v1/query_range?" + url.Values{
		"query": {"sum by (i) (rate(m[5m]))"}, "start": {strconv.FormatInt(f.now.Add(-time.Hour).Unix(), 10)},
		"end": {strconv.FormatInt(f.now.Unix(), 10)}, "step": {"15"}, "nocache": {"1"},
	}.Encode()
	small := "/api/v1/query?" + url.Values{
		"query": {"sum(m)"}, "time": {strconv.FormatInt(f.now.Unix(), 10)}, "nocache": {"1"},
	}.Encode()
	const write = "/api/v1/import/prometheus"
	floods := map[string]func(ctx context.Context, n int64) error{
		"none":    nil,
		"queries": func(ctx context.Context, _ int64) error { return f.send(ctx, "acme", heavy, "") },
		"writes":  func(ctx context.Context, n int64) error { return f.send(ctx, "acme", write, f.bodies[n%bodies]) },
	}
	requests := map[string]func(n int64) error{
		"query": func(int64) error { return f.send(b.Context(), "beta", small, "") },
		"write": func(n int64) error {
			return f.send(b.Context(), "beta", write, samplesAt(3, f.now.Add(time.Duration(n)*time.Millisecond)))
		},
	}
	for _, flood := range []string{"none", "queries", "writes"} {
		for _, request := range []string{"query", "write"} {
			b.Run("flood="+flood+"/"+request, func(b *testing.B) {
				for b.Loop() {
					f.measure(b, floods[flood], requests[request])
				}
			})
		}
	}
}

// store writes samples, and repeats the request while a limit refuses it.
func (f *flooded) store(who, body string) {
	for {
		status, response := f.request(who, "", http.MethodPost, "/api/v1/import/prometheus", body)
		if status != http.StatusServiceUnavailable {
			require.Less(f.t, status, 300, response)
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// samplesAt is a write of one sample to each of some series.
func samplesAt(series int, at time.Time) string {
	var out strings.Builder
	for i := range series {
		fmt.Fprintf(&out, "m{i=\"%d\",job=\"j\"} %d %d\n", i, i, at.UnixMilli())
	}
	return out.String()
}

// send sends a request and discards the response without decompressing it.
func (f *flooded) send(ctx context.Context, who, target, body string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, f.url+target, strings.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+who)
	req.Header.Set("Accept-Encoding", "gzip")
	resp, err := http.DefaultClient.Do(req)
	if err == nil && resp.StatusCode == http.StatusServiceUnavailable {
		waitForRetry(ctx, resp.Header.Get("Retry-After"))
	}
	return discardResponse(resp, err)
}

// waitForRetry waits for the seconds of a header Retry-After.
func waitForRetry(ctx context.Context, header string) {
	seconds, _ := strconv.Atoi(header)
	select {
	case <-ctx.Done():
	case <-time.After(time.Duration(seconds) * time.Second):
	}
}

// measure sends requests one after the other while clients send others.
func (f *flooded) measure(b *testing.B, flood func(ctx context.Context, n int64) error, request func(n int64) error) {
	const clients, requests = 30, 300
	ctx, stop := context.WithCancel(b.Context())
	var running sync.WaitGroup
	var sent atomic.Int64
	began, client := time.Now(), cpuTime(b, 0)
	for range clients {
		if flood != nil {
			running.Go(func() {
				for ctx.Err() == nil {
					_ = flood(ctx, sent.Add(1)) // refusals are part of the flood
				}
			})
		}
	}
	time.Sleep(2 * time.Second)
	var took, used []time.Duration
	for n := range requests {
		at, cpu := time.Now(), cpuTime(b, f.cmd.Process.Pid)
		require.NoError(b, request(int64(n)), f.log)
		took, used = append(took, time.Since(at)), append(used, cpuTime(b, f.cmd.Process.Pid)-cpu)
		time.Sleep(20 * time.Millisecond)
		if time.Since(began) > 40*time.Second {
			break
		}
	}
	elapsed := time.Since(began).Seconds()
	b.ReportMetric((cpuTime(b, 0)-client).Seconds()/elapsed, "client-cpu")
	stop()
	running.Wait()
	slices.Sort(took)
	slices.Sort(used)
	b.ReportMetric(took[len(took)/2].Seconds()*1e3, "ms-p50")
	b.ReportMetric(took[len(took)*95/100].Seconds()*1e3, "ms-p95")
	b.ReportMetric(used[len(used)/2].Seconds()*1e3, "cpu-ms-p50")
	b.ReportMetric(used[len(used)*95/100].Seconds()*1e3, "cpu-ms-p95")
	b.ReportMetric(float64(sent.Load())/elapsed, "flood/s")
}

// cpuTime is the CPU time of all threads of a process; 0 stands for this process.
func cpuTime(b *testing.B, pid int) time.Duration {
	b.Helper()
	// The number of the clock of a process, see clock_getcpuclockid(3): its inverted number, and 2 for the time on CPUs.
	const onCPUs = 2
	var at syscalls.Timespec
	require.NoError(b, syscalls.ClockGettime(int32(^pid)<<3|onCPUs, &at))
	return time.Duration(at.Nano())
}

// discardResponse reads and discards a response.
func discardResponse(resp *http.Response, err error) error {
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return err
}
