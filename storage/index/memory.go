package index

import "unsafe"

// What things take in memory beside their arrays, with what the allocator adds.
const (
	pointerBytes    = int64(unsafe.Sizeof(uintptr(0)))
	stringBytes     = int(unsafe.Sizeof(""))
	tableBytes      = int64(unsafe.Sizeof(table{})) + 80 // with its places in the map and among the slots
	columnBytes     = int64(unsafe.Sizeof(column{})) + pointerBytes + 2
	dictionaryBytes = int64(unsafe.Sizeof(dictionary{})) + 80
	openDayBytes    = int64(unsafe.Sizeof(openDay{})) + 80
	refPageBytes    = 13568 // the allocator's size class of a refPage
	dayPageBytes    = 9472  // and that of a dayPage
)

// SizeBytes is the memory of the active catalogue and of the open days: all of the index that grows with series. It is
// kept up to date while they grow, so that it can be asked for every new series.
func (x *Index) SizeBytes() int64 {
	return x.cat.sizeBytes.Load() + x.cat.refs.SizeBytes() + x.open.sizeBytes.Load()
}

// ActiveSeries returns the number of active series of a metric.
func (x *Index) ActiveSeries(metric string) int {
	if t := x.cat.table(metric); t != nil {
		return t.series()
	}
	return 0
}

// EachMetric calls fn for every metric with at least the given number of active series, by name.
func (x *Index) EachMetric(seriesLeast int, fn func(metric string, series int)) {
	for _, t := range x.cat.sorted() {
		if n := t.series(); n >= max(1, seriesLeast) {
			fn(t.metric, n)
		}
	}
}
