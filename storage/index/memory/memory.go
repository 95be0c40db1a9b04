package memory

import "unsafe"

// Sizes of structures without their arrays, rounded like the allocator does.
const (
	pointerBytes    = int64(unsafe.Sizeof(uintptr(0)))
	stringBytes     = int(unsafe.Sizeof(""))
	tableBytes      = int64(unsafe.Sizeof(Table{})) + 80 // including its entries in the map and among the slots
	columnBytes     = int64(unsafe.Sizeof(column{})) + pointerBytes + 2
	dictionaryBytes = int64(unsafe.Sizeof(Dictionary{})) + 80
	openDayBytes    = int64(unsafe.Sizeof(OpenDay{})) + 80
	refPageBytes    = 13568 // the allocator's size class of a refPage
	dayPageBytes    = 9472  // the allocator's size class of a dayPage
)

// SizeBytes is the memory of tables, dictionaries and refs. Each change updates it.
func (c *Index) SizeBytes() int64 { return c.bytes.Load() + c.refs.SizeBytes() }

// SizeBytes is the memory of all open days.
func (o *OpenDays) SizeBytes() int64 { return o.bytes.Load() }

// SeriesOf is the number of active series of a metric.
func (c *Index) SeriesOf(metric string) int {
	if t := c.Table(metric); t != nil {
		return t.SeriesCount()
	}
	return 0
}

// EachMetric calls fn for every metric with at least seriesMin active series, by name.
func (c *Index) EachMetric(seriesMin int, fn func(metric string, series int)) {
	for _, t := range c.Tables() {
		if n := t.SeriesCount(); n >= max(1, seriesMin) {
			fn(t.Metric, n)
		}
	}
}

// WalkedBytes adds up the sizes of all parts. Tests compare it with SizeBytes.
func WalkedBytes(c *Index, days *OpenDays) (size int64) {
	for _, t := range c.Tables() {
		t.mu.Lock()
		size += t.SizeBytes()
		t.mu.Unlock()
	}
	for _, d := range c.dicts {
		d.mu.Lock()
		size += d.SizeBytes()
		d.mu.Unlock()
	}
	size += c.refs.SizeBytes()
	for _, d := range days.All() {
		size += openDayBytes + pointerBytes*int64(len(*d.pages.Load()))
		for _, p := range *d.pages.Load() {
			if p != nil {
				size += dayPageBytes
			}
		}
	}
	return size
}
