package index

import (
	"sync"

	"github.com/prometheus/prometheus/model/labels"

	"halite/keyschema"
	"halite/storage/index/memory"
	"halite/storage/index/presence"
)

// Idle returns, in ascending order, the active series that Retire would remove if busy returned false for all of them.
func (x *Index) Idle(idleBeforeHour int64) []memory.Ref { return x.active.Idle(x.open, idleBeforeHour) }

// Retire removes idle series from the active index and returns them. A series is idle if it was neither added nor active in
// idleBeforeHour or later, all its days are in segments, and busy returns false. Once busy has returned false, the caller no
// longer marks the series active; after Retire it no longer uses the refs. busy must not call the Index. Retired series stay
// in the segments of their days; Maintain frees their memory.
//
// Retire takes about 100 ns a series and does not wait for compactions. A concurrent Add waits for less than a millisecond.
func (x *Index) Retire(refs []memory.Ref, idleBeforeHour int64, busy func(memory.Ref) bool) []memory.Ref {
	gone := x.active.Retire(x.open, refs, idleBeforeHour, busy)
	x.metrics.retired.Add(float64(len(gone)))
	return gone
}

// FreeRetired frees the memory of retired series. Maintain does so as well.
func (x *Index) FreeRetired() {
	x.maint.Lock()
	defer x.maint.Unlock()
	x.active.FreeRetired()
}

// SizeBytes is the memory of active series and open days: the part of the index that grows with the number of series. The
// Index maintains the sum, so a call is cheap.
func (x *Index) SizeBytes() int64 { return x.active.SizeBytes() + x.open.SizeBytes() }

// ActiveSeries returns the number of active series of a metric.
func (x *Index) ActiveSeries(metric string) int { return x.active.SeriesOf(metric) }

// EachMetric calls fn for every metric with at least seriesMin active series, by name.
func (x *Index) EachMetric(seriesMin int, fn func(metric string, series int)) {
	x.active.EachMetric(seriesMin, fn)
}

// NewLoader returns a loader. Its series are not retired while the hour of the call counts as active.
func (x *Index) NewLoader() *memory.Loader {
	return memory.NewLoader(x.active, keyschema.HourOf(max(0, x.opts.Now().UnixMilli())), x.metrics.added.Inc)
}

// Add returns the Ref of a label set, and adds a new set to the active index. Labels are sorted, have a metric name
// and no empty value. The caller may reuse them. Errors wrap ErrBadLabels, or say that the process has used up its
// refs. Reads see the series after MarkActive. The series is not retired while the hour of the call counts as
// active.
func (x *Index) Add(ls labels.Labels) (ref memory.Ref, created bool, err error) {
	ref, created, err = x.active.Add(ls, keyschema.HourOf(max(0, x.opts.Now().UnixMilli())))
	if created {
		x.metrics.added.Inc()
	}
	return ref, created, err
}

// MarkActive records that the series has samples in the unix hour. Readers see it when MarkActive returns. The caller calls
// it for each series and hour before it acknowledges the sample. Repeated calls are cheap. MarkActive ignores an unknown ref
// and an hour that row keys cannot hold.
func (x *Index) MarkActive(ref memory.Ref, hour int64) {
	if !presence.ValidHour(hour) || !x.active.Knows(ref) {
		return
	}
	if x.open.MarkActive(ref, hour) {
		x.active.RaiseLastHour(ref, hour)
	}
}

// Labels returns the label set of an active series, empty if ref is unknown or retired.
func (x *Index) Labels(ref memory.Ref) labels.Labels {
	var out labels.Labels
	b := labels.NewScratchBuilder(16)
	if !x.active.Row(ref, func(v *memory.View, row uint32) { out = v.Labels(row, &b) }) {
		return labels.EmptyLabels()
	}
	return out
}

// Metric returns the metric of an active series, empty if ref is unknown or retired.
func (x *Index) Metric(ref memory.Ref) string {
	var metric string
	if !x.active.Row(ref, func(v *memory.View, _ uint32) { metric = v.Metric() }) {
		return ""
	}
	return metric
}

// ReadLabels is Labels for many series, one by one. It builds the labels in b and overwrites the memory of into, which
// nothing else may use. It reports whether ref is active.
func (x *Index) ReadLabels(ref memory.Ref, b *labels.ScratchBuilder, into *labels.Labels) bool {
	return x.active.Row(ref, func(v *memory.View, row uint32) { v.Build(row, b); b.Overwrite(into) })
}

// AppendKey is AppendRowKey for callers that do not use Ref.
func (x *Index) AppendKey(dst []byte, ref uint32, hour int64) []byte {
	return x.AppendRowKey(dst, memory.Ref(ref), hour)
}

// AppendRowKey appends the series' logical row key of an hour, under the rule in force at that hour. It appends
// nothing if ref is unknown or retired.
func (x *Index) AppendRowKey(dst []byte, ref memory.Ref, hour int64) []byte {
	tags := tagPool.Get().(*[]keyschema.Tag)
	defer tagPool.Put(tags)
	out := dst
	if !x.active.Row(ref, func(v *memory.View, row uint32) {
		*tags = v.Tags((*tags)[:0], row)
		out = x.opts.Schema.RuleAt(v.Metric(), hour).AppendPrefix(dst, v.Metric(), *tags)
		out = keyschema.AppendHour(out, hour)
	}) {
		return dst
	}
	return out
}

var tagPool = sync.Pool{New: func() any { return new([]keyschema.Tag) }}
