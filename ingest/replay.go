package ingest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"halite/ingest/wal"
)

// replayReportInterval is the time between two log lines of a replay, replayWatchInterval that between two calls of
// Options.Replaying.
const (
	replayReportInterval = 5 * time.Second
	replayWatchInterval  = 500 * time.Millisecond
)

// errOrphan: the log has samples of a series that it does not describe.
var errOrphan = errors.New("samples without a series record in the write-ahead log")

// ReplayProgress says how much of the write-ahead log Open has read back.
type ReplayProgress struct {
	// Bytes of TotalBytes were read.
	Bytes, TotalBytes int64
	// Series are registered, Samples are applied.
	Series, Samples int64
}

// Percent is the share of the log that was read.
func (p ReplayProgress) Percent() int64 { return p.Bytes * 100 / max(1, p.TotalBytes) }

// replayLog runs once, before anything is written. Two goroutines share the work: a replayReader decodes records, a replay
// applies them.
func (i *Ingester) replayLog(ctx context.Context) error {
	start := time.Now()
	reader, err := newReplayReader(ctx, i.registry)
	if err != nil {
		return err
	}
	defer reader.packer.Close()
	p := newReplay(ctx, i)
	go func() { reader.stop(p.run(reader.batches, reader.used)) }()
	reported := p.report(start)
	stats, err := i.log.Replay(reader.record, reader.finish)
	err = errors.Join(err, reader.finish())
	reported()
	if err != nil {
		return fmt.Errorf("replay the write-ahead log: %w", err)
	}
	until, err := i.log.Cut()
	if err != nil {
		return fmt.Errorf("cut the log: %w", err)
	}
	i.flusher.StaleUntil(until)
	if err := p.settle(); err != nil {
		return err
	}
	p.summarize(stats, time.Since(start))
	return nil
}

// summarize counts and logs the result.
func (p *replay) summarize(stats wal.ReplayStats, took time.Duration) {
	i := p.i
	i.metrics.replayed.Add(float64(p.samples.Load()))
	i.metrics.orphans.Add(float64(p.lost))
	i.opts.Logger.Info("write-ahead log read back", "segments", stats.Segments, "series", i.series.Load(),
		"samples", p.samples.Load(), "clean", stats.Clean, "duration", took.Round(time.Millisecond))
	for _, loss := range stats.Losses {
		i.opts.Logger.Warn("part of the write-ahead log is lost, as accepted", "damage", loss.Damage.Error())
	}
	if p.lost > 0 {
		i.opts.Logger.Warn("samples lost with the log's series records, as accepted", "samples", p.lost)
	}
}

// progress is that of a replay under way.
func (p *replay) progress() ReplayProgress {
	now := ReplayProgress{Series: p.i.series.Load(), Samples: p.samples.Load()}
	now.Bytes, now.TotalBytes = p.i.log.ReplayProgress()
	return now
}

// report tells Options.Replaying and the logger of the progress until stop is called.
func (p *replay) report(start time.Time) (stop func()) {
	ctx, cancel := context.WithCancel(p.ctx)
	done := make(chan struct{})
	watcher := p.i.opts.Replaying
	if watcher == nil {
		watcher = func(ReplayProgress) {}
	}
	go func() {
		defer close(done)
		defer func() { watcher(p.progress()) }()
		watch, lines := time.NewTicker(replayWatchInterval), time.NewTicker(replayReportInterval)
		defer watch.Stop()
		defer lines.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-watch.C:
				watcher(p.progress())
			case <-lines.C:
				now := p.progress()
				p.i.opts.Logger.Info("replaying the write-ahead log", "percent", now.Percent(), "bytes", now.Bytes,
					"total_bytes", now.TotalBytes, "series", now.Series, "samples", now.Samples,
					"elapsed", time.Since(start).Round(time.Second))
			}
		}
	}()
	return func() {
		cancel()
		<-done
	}
}
