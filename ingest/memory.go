package ingest

import "halite/keyschema"

// Active series may take three quarters of HeadOptions.TotalBytesMax, so that a quarter is always left for their samples.
const (
	seriesShare = 3
	totalShares = 4
)

// seriesBytes is the memory of active series beside their rows: all of it that a flush does not free.
func (i *Ingester) seriesBytes() int64 {
	return i.index.SizeBytes() + i.registry.SizeBytes() + i.head.SeriesBytes()
}

// seriesMemory is the limit of seriesBytes.
func (i *Ingester) seriesMemory() LimitUse {
	use := LimitUse{Used: i.seriesBytes(), Max: i.hopts.TotalBytesMax / totalShares * seriesShare}
	share := i.limits.SeriesWarn
	if share > 1 { // a number of series
		share = 0
	}
	use.Warn = int64(keyschema.SeriesWarn(int(use.Max), share))
	return use
}

// rowBytesMax is the memory of rows from which they are flushed early: HeadOptions.BytesMax, or what active series leave of
// HeadOptions.TotalBytesMax if that is less.
func (i *Ingester) rowBytesMax() int64 {
	total := i.hopts.TotalBytesMax
	if total == 0 {
		return i.hopts.BytesMax
	}
	return min(i.hopts.BytesMax, max(total-i.seriesBytes(), total/totalShares))
}
