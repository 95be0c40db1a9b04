package rules

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/prometheus/model/exemplar"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/metadata"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/storage"

	"halite/ingest"
)

// Write stores samples and returns when they are durable, as ingest.Ingester.Write does.
type Write func(ctx context.Context, in ingest.Input) (ingest.Result, error)

// appendable gives the rule manager appenders over the write path.
type appendable struct {
	write Write
	last  lastTimes
}

// Appender returns an appender for the results of one rule.
func (a *appendable) Appender(ctx context.Context) storage.Appender {
	return &appender{to: a, ctx: ctx}
}

// appender collects the samples of one rule. Commit stores them in one write.
type appender struct {
	to      *appendable
	ctx     context.Context
	samples []ingest.Sample
}

// errNoSamplesOnly means that rules append floats and histograms alone.
var errNoSamplesOnly = errors.New("rules write samples and histograms only")

// Append adds a float. A stale marker that is not newer than the newest sample of its series is refused, because another rule
// continues the series. A write of the marker would hide that sample.
func (a *appender) Append(_ storage.SeriesRef, l labels.Labels, tsMs int64, v float64) (storage.SeriesRef, error) {
	if value.IsStaleNaN(v) && a.to.last.newestMs(l) >= tsMs {
		return 0, storage.ErrOutOfOrderSample
	}
	a.samples = append(a.samples, ingest.Sample{Labels: l, TsMs: tsMs, Value: v})
	return 0, nil
}

// AppendHistogram adds a native histogram.
func (a *appender) AppendHistogram(
	_ storage.SeriesRef, l labels.Labels, tsMs int64, h *histogram.Histogram, fh *histogram.FloatHistogram,
) (storage.SeriesRef, error) {
	a.samples = append(a.samples, ingest.Sample{Labels: l, TsMs: tsMs, H: h, FH: fh})
	return 0, nil
}

// Commit stores the samples. The error says why some or all of them were not stored.
func (a *appender) Commit() error {
	samples := a.samples
	a.samples = nil
	if len(samples) == 0 {
		return nil
	}
	result, err := a.to.write(a.ctx, ingest.SamplesInput(samples))
	if err != nil {
		return fmt.Errorf("store the results: %w", err)
	}
	a.to.last.note(samples)
	if result.Rejected > 0 {
		return errors.New(result.Summary())
	}
	return nil
}

// Rollback discards the samples.
func (a *appender) Rollback() error {
	a.samples = nil
	return nil
}

// SetOptions does nothing: late samples are ordinary here.
func (a *appender) SetOptions(*storage.AppendOptions) {}

// AppendExemplar fails: rules have no exemplars.
func (a *appender) AppendExemplar(storage.SeriesRef, labels.Labels, exemplar.Exemplar) (storage.SeriesRef, error) {
	return 0, errNoSamplesOnly
}

// UpdateMetadata fails: rules have no metadata.
func (a *appender) UpdateMetadata(storage.SeriesRef, labels.Labels, metadata.Metadata) (storage.SeriesRef, error) {
	return 0, errNoSamplesOnly
}

// AppendSTZeroSample fails: rules have no start timestamps.
func (a *appender) AppendSTZeroSample(storage.SeriesRef, labels.Labels, int64, int64) (storage.SeriesRef, error) {
	return 0, errNoSamplesOnly
}

// AppendHistogramSTZeroSample fails: rules have no start timestamps.
func (a *appender) AppendHistogramSTZeroSample(
	storage.SeriesRef, labels.Labels, int64, int64, *histogram.Histogram, *histogram.FloatHistogram,
) (storage.SeriesRef, error) {
	return 0, errNoSamplesOnly
}

// lastKept is the minimum time for which lastTimes remembers a series. Rules write stale markers within two intervals.
const lastKept = time.Hour

// lastTimes knows the times of the newest samples of the series that rules wrote within lastKept.
type lastTimes struct {
	mu              sync.Mutex
	current, before map[uint64]int64 // milliseconds since 1970, by hash of the labels
	fromMs          int64            // of current
}

// newestMs returns the time of the newest sample of a series; 0 if there is none.
func (l *lastTimes) newestMs(ls labels.Labels) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	hash := ls.Hash()
	return max(l.current[hash], l.before[hash])
}

// note takes samples that were stored.
func (l *lastTimes) note(samples []ingest.Sample) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for n := range samples {
		s := &samples[n]
		if l.current == nil || s.TsMs-l.fromMs > lastKept.Milliseconds() {
			l.before, l.current, l.fromMs = l.current, make(map[uint64]int64), s.TsMs
		}
		if hash := s.Labels.Hash(); !value.IsStaleNaN(s.Value) {
			l.current[hash] = max(l.current[hash], s.TsMs)
		}
	}
}
