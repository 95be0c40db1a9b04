package keyschema

import (
	"sync/atomic"
	"time"
)

// Retention holds the current retention. It is safe for concurrent use. A reload replaces it, and later
// calls see the new ages at once.
type Retention struct {
	current atomic.Pointer[RetentionByMetric]
}

// NewRetention returns a Retention with the given ages.
func NewRetention(ages *RetentionByMetric) *Retention {
	r := new(Retention)
	r.current.Store(ages)
	return r
}

// Load returns the current ages. The result does not follow later changes.
func (r *Retention) Load() *RetentionByMetric { return r.current.Load() }

// Replace sets other ages.
func (r *Retention) Replace(next *RetentionByMetric) { r.current.Store(next) }

// Tier returns the retention of one tier. It follows later changes of the ages.
func (r *Retention) Tier(t Tier) *TierRetention { return &TierRetention{r, t} }

// Tier returns the retention of one tier.
func (r *RetentionByMetric) Tier(t Tier) *TierRetention { return NewRetention(r).Tier(t) }

// KeepFor keeps the data of all metrics for some time; 0 keeps it forever. The retention does not change.
func KeepFor(d time.Duration) *TierRetention {
	return Uniform(NewRetentionByTier(d, d, d)).Tier(Raw)
}

// TierRetention has the retention of one tier for each metric. It is safe for concurrent use. Nil keeps everything forever.
type TierRetention struct {
	retention *Retention
	tier      Tier
}

// Tier returns the retention of another tier of the same metrics. It returns nil for a nil receiver.
func (r *TierRetention) Tier(t Tier) *TierRetention {
	if r == nil {
		return nil
	}
	return r.retention.Tier(t)
}

// Load returns the current ages of all tiers. The result does not follow later changes.
func (r *TierRetention) Load() *RetentionByMetric {
	if r == nil {
		return Uniform(RetentionByTier{})
	}
	return r.retention.Load()
}

// Snapshot returns the current retention. The result does not follow later changes. It returns nil for a nil receiver.
func (r *TierRetention) Snapshot() *TierRetention {
	if r == nil {
		return nil
	}
	return NewRetention(r.retention.Load()).Tier(r.tier)
}

// ForMetric returns the age of a metric.
func (r *TierRetention) ForMetric(metric string) Age {
	if r == nil {
		return 0
	}
	return r.retention.Load().ForMetric(metric)[r.tier]
}

// Longest returns the longest age of a metric.
func (r *TierRetention) Longest() Age {
	if r == nil {
		return 0
	}
	return r.retention.Load().longest[r.tier]
}

// Shortest returns the shortest age of a metric.
func (r *TierRetention) Shortest() Age {
	if r == nil {
		return 0
	}
	return r.retention.Load().shortest[r.tier]
}

// Since returns the cutoffs at a moment. It returns nil if no metric hides data after fromMs, or if all metrics have the
// same age. A nil receiver has no cutoffs.
func (r *TierRetention) Since(nowMs, fromMs int64) *Cutoffs {
	c := r.At(nowMs)
	if c == nil || c.ages.shortest[c.tier] == c.ages.longest[c.tier] || c.LatestMs() <= fromMs {
		return nil
	}
	return c
}

// At returns the cutoffs at a moment. A nil receiver has no cutoffs.
func (r *TierRetention) At(nowMs int64) *Cutoffs {
	if r == nil {
		return nil
	}
	return &Cutoffs{ages: r.retention.Load(), tier: r.tier, nowMs: nowMs}
}

// Cutoffs are the oldest times that metrics keep at one moment. They belong to one goroutine. Nil hides nothing.
type Cutoffs struct {
	ages   *RetentionByMetric
	tier   Tier
	nowMs  int64
	metric string // metric of the last call of Ms, if known
	ms     int64
	known  bool
}

// LatestMs returns the time after which no metric hides data.
func (c *Cutoffs) LatestMs() int64 {
	if c == nil {
		return 0
	}
	return c.ages.shortest[c.tier].CutoffMs(c.nowMs)
}

// Ms returns the oldest time that a metric keeps.
func (c *Cutoffs) Ms(metric string) int64 {
	if c == nil {
		return 0
	}
	if !c.known || c.metric != metric {
		c.metric, c.ms, c.known = metric, c.ages.ForMetric(metric)[c.tier].CutoffMs(c.nowMs), true
	}
	return c.ms
}
