package loadtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// processUse is what a process has used so far.
type processUse struct {
	cpuSeconds        float64
	rssBytes, peakRSS int64 // peakRSS since the process started
}

// clockTicks is USER_HZ, in which the kernel tells CPU time; it is 100 on all of Go's Linux ports.
const clockTicks = 100

// readProcess reads what the Linux kernel says below /proc. Elsewhere, and for processes that are gone, it fails.
func readProcess(pid int) (processUse, error) {
	var u processUse
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return u, fmt.Errorf("CPU time of process %d: %w", pid, err)
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return u, fmt.Errorf("memory of process %d: %w", pid, err)
	}
	u.cpuSeconds, err = parseStat(string(stat))
	if fine, ok := processCPU(pid); ok {
		u.cpuSeconds = fine
	}
	u.rssBytes, u.peakRSS = statusBytes(string(status), "VmRSS:"), statusBytes(string(status), "VmHWM:")
	return u, err
}

var errStat = errors.New("/proc stat has another form than expected")

// parseStat returns user and system time: fields 14 and 15, counted behind the name, which may hold anything.
func parseStat(stat string) (float64, error) {
	at := strings.LastIndexByte(stat, ')')
	fields := strings.Fields(stat[at+1:])
	if at < 0 || len(fields) < 13 {
		return 0, errStat
	}
	user, err1 := strconv.ParseInt(fields[11], 10, 64)
	system, err2 := strconv.ParseInt(fields[12], 10, 64)
	if err := errors.Join(err1, err2); err != nil {
		return 0, fmt.Errorf("%w: %w", errStat, err)
	}
	return float64(user+system) / clockTicks, nil
}

// statusBytes returns a field of /proc status that is in KiB; 0 if it is missing.
func statusBytes(status, field string) int64 {
	for line := range strings.Lines(status) {
		if rest, ok := strings.CutPrefix(line, field); ok {
			kib, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 64)
			if err == nil {
				return kib << 10
			}
		}
	}
	return 0
}

// memoryEvery is how often a process's memory is looked at.
const memoryEvery = 250 * time.Millisecond

// watch follows the memory of a process; peak is the most seen.
type watch struct {
	pid  int
	peak atomic.Int64
}

func (w *watch) run(ctx context.Context) {
	for ctx.Err() == nil {
		u, err := readProcess(w.pid)
		if err != nil {
			return // the report says so when it asks again
		}
		w.peak.Store(max(w.peak.Load(), u.rssBytes))
		sleep(ctx, memoryEvery)
	}
}

// ServerUse is what the server's process used.
type ServerUse struct {
	// CPUSeconds were used while the load was sent, CPUSecondsSettled with the rest that followed; PerMillion divides by
	// the acknowledged samples. Queries beside the load are in both.
	CPUSeconds           float64 `json:"cpu_seconds"`
	CPUPerMillion        float64 `json:"cpu_seconds_per_million_samples"`
	CPUSecondsSettled    float64 `json:"cpu_seconds_settled"`
	CPUPerMillionSettled float64 `json:"cpu_seconds_per_million_samples_settled"`
	// PeakRSSBytes is the most seen during the load, looking four times a second; PeakEverBytes since the start of the
	// process.
	PeakRSSBytes  int64 `json:"peak_rss_bytes"`
	PeakEverBytes int64 `json:"peak_rss_bytes_since_start"`
	RSSBytes      int64 `json:"rss_bytes_settled"`
}

func perMillion(x float64, samples int64) float64 {
	if samples == 0 {
		return 0
	}
	return x / float64(samples) * 1e6
}
