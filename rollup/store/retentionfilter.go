package store

import (
	"bytes"

	"halite/keyschema"
)

// retentionFilter knows the retention of one tier by series. It remembers the last metric, so it is fast for series in
// key order. It belongs to one goroutine.
type retentionFilter struct {
	retention *keyschema.RetentionByMetric
	tier      keyschema.Tier
	nowMs     int64
	metric    []byte // first field of the last key
	lastMs    int64  // the cutoff of metric
}

func (s *Store) retentionFilter(tier keyschema.Tier) *retentionFilter {
	return &retentionFilter{retention: s.opts.RetentionByMetric, tier: tier, nowMs: s.opts.Now().UnixMilli()}
}

// cutoffMs returns the time before which cells of the series are too old; 0 if there is none.
func (f *retentionFilter) cutoffMs(prefix []byte) int64 {
	if len(f.metric) > 0 && bytes.HasPrefix(prefix, f.metric) {
		return f.lastMs
	}
	metric, err := keyschema.MetricOf(prefix)
	if err != nil {
		return 0 // not a key of ours; the reader reports it
	}
	field, _ := keyschema.CutFields(prefix, 1)
	f.metric = append(f.metric[:0], field...)
	f.lastMs = f.retention.Of(metric)[f.tier].CutoffMs(f.nowMs)
	return f.lastMs
}
