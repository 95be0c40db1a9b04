package ingest

import (
	"halite/ingest/head"
	"halite/keyschema"
	"halite/storage/index"
)

// Active series may take three quarters of HeadOptions.TotalBytesMax, so that a quarter is always left for their samples.
const (
	seriesShare = 3
	totalShares = 4
)

// memoryBudget divides memory between active series and their unflushed samples.
type memoryBudget struct {
	index    *index.Index
	registry *head.Registry
	head     *head.Head
	// headBytesMax and totalBytesMax are HeadOptions.BytesMax and TotalBytesMax. If headBytesMax is 0, there is no limit.
	headBytesMax, totalBytesMax int64
	seriesWarn                  float64 // Limits.SeriesWarn
}

// lacks returns the memory for lack of which writes are refused, and the reason in words; "" if there is none.
func (m *memoryBudget) lacks() (resource, reason string) {
	switch {
	case m.headBytesMax == 0:
	case m.head.Bytes() > m.rowBytesMax()/4*5:
		return resourceHead, "the memory for unflushed samples is used up"
	case m.totalBytesMax > 0 && m.seriesBytes() > m.totalBytesMax:
		return resourceSeries, "the memory for active series is used up"
	}
	return "", ""
}

// seriesBytes is the memory of active series without their rows. A flush does not free it.
func (m *memoryBudget) seriesBytes() int64 {
	return m.index.SizeBytes() + m.registry.SizeBytes() + m.head.SeriesBytes()
}

// seriesUse is the limit of seriesBytes and how far it is used.
func (m *memoryBudget) seriesUse() LimitUse {
	if m.headBytesMax == 0 {
		return LimitUse{}
	}
	use := LimitUse{Used: m.seriesBytes(), Max: m.totalBytesMax / totalShares * seriesShare}
	share := m.seriesWarn
	if share > 1 { // a number of series
		share = 0
	}
	use.Warn = int64(keyschema.SeriesWarn(int(use.Max), share))
	return use
}

// rowBytesMax is the memory of rows from which they are flushed early: HeadOptions.BytesMax, or what active series leave of
// HeadOptions.TotalBytesMax if that is less.
func (m *memoryBudget) rowBytesMax() int64 {
	if m.totalBytesMax == 0 {
		return m.headBytesMax
	}
	return min(m.headBytesMax, max(m.totalBytesMax-m.seriesBytes(), m.totalBytesMax/totalShares))
}
