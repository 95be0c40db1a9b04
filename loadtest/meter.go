package loadtest

import (
	"context"
)

// meter measures a target's process and data directory around a load.
type meter struct {
	target *Target
	note   func(format string, args ...any)
	watch  watch

	begin, loadedAt processUse
	cpu             bool
	disk            *DiskUse
}

func newMeter(t *Target, note func(format string, args ...any)) *meter {
	m := &meter{target: t, note: note, watch: watch{pid: t.PID}}
	if t.PID > 0 {
		var err error
		if m.begin, err = readProcess(t.PID); err != nil {
			note("CPU and memory are not measured: %v", err)
		}
		m.cpu = err == nil
	}
	if t.Dir != "" {
		bytes, err := dirBytes(t.Dir)
		if err != nil {
			note("disk is not measured: %v", err)
		} else {
			m.disk = &DiskUse{BeforeBytes: bytes}
		}
	}
	return m
}

// run follows the memory until ctx ends.
func (m *meter) run(ctx context.Context) {
	if m.cpu {
		m.watch.run(ctx)
	}
}

// loaded notes that the load has ended.
func (m *meter) loaded() {
	if !m.cpu {
		return
	}
	u, err := readProcess(m.target.PID)
	if err != nil {
		m.note("CPU and memory are not measured: %v", err)
		m.cpu = false
	}
	m.loadedAt = u
}

// finish returns what was measured, with the rest behind the load; nil for what was not asked for or failed.
func (m *meter) finish(ctx context.Context, samples int64) (*ServerUse, *DiskUse) {
	var use *ServerUse
	if m.cpu {
		end, err := readProcess(m.target.PID)
		if err != nil {
			m.note("CPU and memory are not measured: %v", err)
		} else {
			use = &ServerUse{
				CPUSeconds: m.loadedAt.cpuSeconds - m.begin.cpuSeconds, CPUSecondsSettled: end.cpuSeconds - m.begin.cpuSeconds,
				PeakRSSBytes: max(m.watch.peak.Load(), m.loadedAt.rssBytes), PeakEverBytes: end.peakRSS, RSSBytes: end.rssBytes,
			}
			use.CPUPerMillion = perMillion(use.CPUSeconds, samples)
			use.CPUPerMillionSettled = perMillion(use.CPUSecondsSettled, samples)
		}
	}
	return use, m.finishDisk(ctx, samples)
}

// finishDisk has the target flushed, if that is wanted, and measures its directory, if it has one here, before and after.
func (m *meter) finishDisk(ctx context.Context, samples int64) *DiskUse {
	var err error
	if m.disk != nil {
		m.disk.AfterBytes, err = dirBytes(m.target.Dir)
	}
	flushed := false
	if err == nil && m.target.FlushURL != "" && ctx.Err() == nil {
		err = flush(ctx, m.target)
		flushed = err == nil
	}
	if flushed && m.disk != nil {
		m.disk.FlushedBytes, err = dirBytes(m.target.Dir)
	}
	if err != nil {
		m.note("disk: %v", err)
	}
	if m.disk != nil {
		m.disk.divide(samples)
	}
	return m.disk
}
