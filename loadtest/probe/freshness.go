package probe

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"halite/keyschema"
	"halite/loadtest/client"
	"halite/loadtest/fleet"
	"halite/loadtest/load"
	"halite/loadtest/measure"
)

// FreshnessMetric is the metric that a FreshnessProbe writes and reads.
const FreshnessMetric = "loadtest_freshness"

const (
	freshnessPauseMin = time.Millisecond
	freshnessPauseMax = 100 * time.Millisecond
	freshnessTimeout  = 30 * time.Second
)

// Freshness is the time from the acknowledgement of a sample to the end of the first instant query that returned it. The
// first query begins at the acknowledgement, so one round trip is the minimum.
type Freshness struct {
	Visible measure.Quantiles `json:"visible"`
	// Unseen samples were not returned within 30 s. Failed samples were not acknowledged.
	Unseen int64 `json:"unseen"`
	Failed int64 `json:"failed"`
}

// FreshnessProbe measures freshness, one sample at a time.
type FreshnessProbe struct {
	writer  *client.Writer
	querier *client.Querier
	every   time.Duration
	job     string
	series  fleet.Series
	now     func() time.Time
	value   float64 // of the last sample; each sample has another one

	visible        measure.Histogram
	unseen, failed atomic.Int64
}

// NewFreshnessProbe returns a probe that pauses for every between two measurements.
func NewFreshnessProbe(
	w *client.Writer, q *client.Querier, job string, every time.Duration, now func() time.Time,
) *FreshnessProbe {
	return &FreshnessProbe{writer: w, querier: q, every: every, job: job, now: now,
		series: fleet.Series{Metric: FreshnessMetric, Tags: []keyschema.Tag{
			{Name: "instance", Value: "freshness.loadtest.example:9100"}, {Name: "job", Value: job},
		}}}
}

// Run measures until ctx ends.
func (p *FreshnessProbe) Run(ctx context.Context) {
	for ctx.Err() == nil {
		p.measure(ctx)
		client.Sleep(ctx, p.every)
	}
}

// measure writes one sample and queries it until it is visible.
func (p *FreshnessProbe) measure(ctx context.Context) {
	p.value++
	tsMs := p.now().UnixMilli()
	if !p.writer.Send(ctx, load.EncodeSample(p.series, tsMs, p.value), 1, time.Time{}) {
		p.failed.Add(1)
		return
	}
	acknowledged := p.now()
	for wait := freshnessPauseMin; ; wait = min(2*wait, freshnessPauseMax) {
		if p.isVisible(ctx, tsMs) {
			p.visible.Observe(p.now().Sub(acknowledged))
			return
		}
		if ctx.Err() != nil {
			return // the outcome stays unknown
		}
		if p.now().Sub(acknowledged) > freshnessTimeout {
			p.unseen.Add(1)
			return
		}
		client.Sleep(ctx, wait)
	}
}

// isVisible queries the raw sample with a range selector, because some servers shift instant selectors into the past.
func (p *FreshnessProbe) isVisible(ctx context.Context, tsMs int64) bool {
	selector := fmt.Sprintf("%s{job=%s}", FreshnessMetric, client.QuoteLabel(p.job))
	list, err := p.querier.RawSamples(ctx, selector, tsMs, tsMs)
	if err != nil {
		return false
	}
	for _, r := range list {
		for _, x := range r.Values {
			if x.TsMs == tsMs && x.Value == p.value {
				return true
			}
		}
	}
	return false
}

// Report returns the measurements so far.
func (p *FreshnessProbe) Report() *Freshness {
	return &Freshness{Visible: p.visible.Quantiles(), Unseen: p.unseen.Load(), Failed: p.failed.Load()}
}
