package keyschema

// TierRetention has the retention of one tier for each metric. It is immutable and safe for concurrent use.
type TierRetention struct {
	retention         *RetentionByMetric
	tier              Tier
	longest, shortest Age
}

// Tier returns the retention of one tier.
func (r *RetentionByMetric) Tier(t Tier) *TierRetention {
	return &TierRetention{retention: r, tier: t, longest: r.Longest()[t], shortest: r.Shortest()[t]}
}

// Tier returns the retention of another tier of the same metrics. It returns nil for a nil receiver.
func (r *TierRetention) Tier(t Tier) *TierRetention {
	if r == nil {
		return nil
	}
	return r.retention.Tier(t)
}

// Of returns the age of a metric.
func (r *TierRetention) Of(metric string) Age { return r.retention.Of(metric)[r.tier] }

// Longest returns the longest age of a metric.
func (r *TierRetention) Longest() Age { return r.longest }

// Shortest returns the shortest age of a metric.
func (r *TierRetention) Shortest() Age { return r.shortest }

// Since returns the cutoffs at a moment. It returns nil if no metric hides data after fromMs, or if all metrics have the
// same age. A nil receiver has no cutoffs.
func (r *TierRetention) Since(nowMs, fromMs int64) *Cutoffs {
	if r == nil || r.shortest == r.longest || r.shortest.CutoffMs(nowMs) <= fromMs {
		return nil
	}
	return &Cutoffs{retention: r, nowMs: nowMs}
}

// At returns the cutoffs at a moment. A nil receiver has no cutoffs.
func (r *TierRetention) At(nowMs int64) *Cutoffs {
	if r == nil {
		return nil
	}
	return &Cutoffs{retention: r, nowMs: nowMs}
}

// Cutoffs are the oldest times that metrics keep at one moment. They belong to one goroutine. Nil hides nothing.
type Cutoffs struct {
	retention *TierRetention
	nowMs     int64
	metric    string // metric of the last call of Ms, if known
	ms        int64
	known     bool
}

// LatestMs returns the time after which no metric hides data.
func (c *Cutoffs) LatestMs() int64 {
	if c == nil {
		return 0
	}
	return c.retention.shortest.CutoffMs(c.nowMs)
}

// Ms returns the oldest time that a metric keeps.
func (c *Cutoffs) Ms(metric string) int64 {
	if c == nil {
		return 0
	}
	if !c.known || c.metric != metric {
		c.metric, c.ms, c.known = metric, c.retention.Of(metric).CutoffMs(c.nowMs), true
	}
	return c.ms
}
