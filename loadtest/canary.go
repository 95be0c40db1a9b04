package loadtest

import (
	"context"
	"encoding/json"
	"fmt"
	"sync/atomic"
	"time"

	"halite/keyschema"
	"halite/loadtest/fleet"
)

// canaryMetric is written and asked for to measure freshness.
const canaryMetric = "loadtest_canary"

// Bounds of the wait for a canary.
const (
	canaryPollEvery = time.Millisecond
	canaryPollMax   = 100 * time.Millisecond
	canaryUnseen    = 30 * time.Second
)

// Freshness is the time from the acknowledgement of a sample to the end of the first instant query that returned it.
// The queries begin at the acknowledgement, so that one round trip is the least.
type Freshness struct {
	Visible Quantiles `json:"visible"`
	// Unseen counts samples that no query returned within 30 s, Failed those that were not acknowledged.
	Unseen int64 `json:"unseen"`
	Failed int64 `json:"failed"`
}

// canary measures freshness beside the load, one sample at a time.
type canary struct {
	poster *poster
	reader *reader
	every  time.Duration
	job    string
	series fleet.Series
	now    func() time.Time
	seq    float64

	visible        latencies
	unseen, failed atomic.Int64
}

func newCanary(t *Target, o *Options) *canary {
	c := &canary{poster: newPoster(t, o), reader: newReader(t, o), every: o.CanaryEvery, job: o.Fleet.Job, now: o.Now}
	c.series = fleet.Series{Metric: canaryMetric, Tags: []keyschema.Tag{
		{Name: "instance", Value: "canary.loadtest.example:9100"}, {Name: "job", Value: c.job},
	}}
	return c
}

// run measures until ctx ends.
func (c *canary) run(ctx context.Context) {
	for ctx.Err() == nil {
		c.once(ctx)
		sleep(ctx, c.every)
	}
}

func (c *canary) once(ctx context.Context) {
	c.seq++
	tsMs := c.now().UnixMilli()
	var b batch
	var r request
	b.add(sample{labels: appendSeriesLabels(nil, c.series), tsMs: tsMs, value: c.seq}, true)
	b.encode(&r, nil)
	if c.poster.send(ctx, &r, time.Time{}) != acknowledged {
		c.failed.Add(1)
		return
	}
	acked := c.now()
	for wait := canaryPollEvery; ; wait = min(2*wait, canaryPollMax) {
		if c.seen(ctx, tsMs) {
			c.visible.add(c.now().Sub(acked))
			return
		}
		if ctx.Err() != nil {
			return // nobody can tell
		}
		if c.now().Sub(acked) > canaryUnseen {
			c.unseen.Add(1)
			return
		}
		sleep(ctx, wait)
	}
}

// seen asks for the raw sample: a range selector in an instant query, as some servers shift instant selectors away from
// the present on purpose.
func (c *canary) seen(ctx context.Context, tsMs int64) bool {
	selector := fmt.Sprintf("%s{job=%s}", canaryMetric, quote(c.job))
	list, err := c.reader.rawSamples(ctx, selector, tsMs, tsMs)
	if err != nil {
		return false
	}
	for _, r := range list {
		for _, p := range r.Values {
			if p.tsMs == tsMs && p.value == c.seq {
				return true
			}
		}
	}
	return false
}

func (c *canary) report() *Freshness {
	return &Freshness{Visible: c.visible.quantiles(), Unseen: c.unseen.Load(), Failed: c.failed.Load()}
}

// quote writes a string literal of PromQL, which is one of JSON as far as label values go.
func quote(s string) string {
	text, err := json.Marshal(s)
	if err != nil { // strings always marshal
		return `""`
	}
	return string(text)
}
