package measure

import (
	"context"
	"sync/atomic"
	"time"
)

// Server names the parts of a server that run on this machine. Zero fields are not measured.
type Server struct {
	PID      int
	Dir      string // data directory
	Token    string // bearer token for FlushURL; empty sends none
	FlushURL string // called with POST before the last measurement of Dir
}

// ServerUsage is the CPU time and memory of the server's process. It includes queries asked during the load.
type ServerUsage struct {
	// CPUSeconds is the CPU time during the load. CPUSecondsSettled adds the settle time that follows. The PerMillion
	// fields divide by millions of acknowledged samples.
	CPUSeconds           float64 `json:"cpu_seconds"`
	CPUPerMillion        float64 `json:"cpu_seconds_per_million_samples"`
	CPUSecondsSettled    float64 `json:"cpu_seconds_settled"`
	CPUPerMillionSettled float64 `json:"cpu_seconds_per_million_samples_settled"`
	// PeakRSSBytes is the maximum during the load, sampled four times a second. PeakEverBytes is the maximum since the
	// process started.
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

// Recorder measures a server's process and data directory before, during and after a load.
type Recorder struct {
	server Server
	note   func(format string, args ...any)

	processOK    bool // all reads of the process succeeded so far
	begin, ended Process
	peakRSS      atomic.Int64
	disk         *DiskUsage
}

// NewRecorder takes the measurements before the load. It calls note with the reason for each measurement that fails.
func NewRecorder(s Server, note func(format string, args ...any)) *Recorder {
	r := &Recorder{server: s, note: note}
	if s.PID > 0 {
		var err error
		if r.begin, err = ReadProcess(s.PID); err != nil {
			note("CPU and memory are not measured: %v", err)
		}
		r.processOK = err == nil
	}
	if s.Dir != "" {
		bytes, err := dirBytes(s.Dir)
		if err != nil {
			note("disk is not measured: %v", err)
		} else {
			r.disk = &DiskUsage{BeforeBytes: bytes}
		}
	}
	return r
}

// memoryEvery is the time between two samples of a process's memory.
const memoryEvery = 250 * time.Millisecond

// WatchMemory samples the process's memory until ctx ends.
func (r *Recorder) WatchMemory(ctx context.Context) {
	if !r.processOK {
		return
	}
	ticker := time.NewTicker(memoryEvery)
	defer ticker.Stop()
	for ctx.Err() == nil {
		p, err := ReadProcess(r.server.PID)
		if err != nil {
			return // the next read of the process reports the error
		}
		r.peakRSS.Store(max(r.peakRSS.Load(), p.RSSBytes))
		select {
		case <-ctx.Done():
		case <-ticker.C:
		}
	}
}

// EndLoad takes the measurements at the end of the load.
func (r *Recorder) EndLoad() {
	if !r.processOK {
		return
	}
	p, err := ReadProcess(r.server.PID)
	if err != nil {
		r.note("CPU and memory are not measured: %v", err)
		r.processOK = false
	}
	r.ended = p
}

// Finish takes the measurements after the settle time and returns all of them. A result is nil if it was not requested or
// its measurement failed. samples is the number of acknowledged samples.
func (r *Recorder) Finish(ctx context.Context, samples int64) (*ServerUsage, *DiskUsage) {
	var use *ServerUsage
	if r.processOK {
		end, err := ReadProcess(r.server.PID)
		if err != nil {
			r.note("CPU and memory are not measured: %v", err)
		} else {
			use = &ServerUsage{
				CPUSeconds: r.ended.CPUSeconds - r.begin.CPUSeconds, CPUSecondsSettled: end.CPUSeconds - r.begin.CPUSeconds,
				PeakRSSBytes: max(r.peakRSS.Load(), r.ended.RSSBytes), PeakEverBytes: end.PeakRSSBytes, RSSBytes: end.RSSBytes,
			}
			use.CPUPerMillion = perMillion(use.CPUSeconds, samples)
			use.CPUPerMillionSettled = perMillion(use.CPUSecondsSettled, samples)
		}
	}
	return use, r.finishDisk(ctx, samples)
}

// finishDisk calls the flush URL and measures the data directory before and after the call. It calls the URL even if the
// directory is on another machine.
func (r *Recorder) finishDisk(ctx context.Context, samples int64) *DiskUsage {
	var err error
	if r.disk != nil {
		r.disk.AfterBytes, err = dirBytes(r.server.Dir)
	}
	flushed := false
	if err == nil && r.server.FlushURL != "" && ctx.Err() == nil {
		err = flush(ctx, &r.server)
		flushed = err == nil
	}
	if flushed && r.disk != nil {
		r.disk.FlushedBytes, err = dirBytes(r.server.Dir)
	}
	if err != nil {
		r.note("disk: %v", err)
	}
	if r.disk != nil {
		r.disk.setPerSample(samples)
	}
	return r.disk
}
