package tiers

import (
	"bytes"

	"halite/keyschema"
)

// kept tells from when on something is kept of the series that come one after the other. It belongs to one goroutine.
type kept struct {
	ages   *keyschema.Retention
	tier   keyschema.Tier
	nowMs  int64
	metric []byte // asked for last, as keys have it, and '#'
	ms     int64
}

func (t *Tiers) keptOf(tier keyschema.Tier) *kept {
	return &kept{ages: t.opts.Ages, tier: tier, nowMs: t.opts.Now().UnixMilli()}
}

// sinceMs is the time before which cells of the series are too old; 0 if none is.
func (k *kept) sinceMs(prefix []byte) int64 {
	if len(k.metric) > 0 && bytes.HasPrefix(prefix, k.metric) {
		return k.ms
	}
	metric, err := keyschema.MetricOf(prefix)
	if err != nil {
		return 0 // no key of ours, which others will name
	}
	k.metric = append(k.metric[:0], prefix[:bytes.IndexByte(prefix, '#')+1]...)
	k.ms = k.ages.Of(metric)[k.tier].CutoffMs(k.nowMs)
	return k.ms
}
