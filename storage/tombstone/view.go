package tombstone

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"halite/keyschema"
)

// View holds the tombstones in force at one moment. The caller releases it. Rows are rewritten for a tombstone only after
// all views without it are released.
type View struct {
	set      *Set
	list     []*Tombstone            // by id
	byMetric map[string][]*Tombstone // tombstones with a selector that names the metric
	others   []*Tombstone
	fromMs   int64 // bounds of all tombstones
	toMs     int64

	version   uint64 // of a shared set
	floor     uint32
	announced []int64 // times of announced deletions that are not in force yet
	locks     []lockCell

	users int           // guarded by set.mu
	done  chan struct{} // closed when users is 0 and the view is not the latest
}

func newView(set *Set, r *row) *View {
	v := &View{
		set: set, list: r.list, byMetric: map[string][]*Tombstone{}, fromMs: math.MaxInt64, toMs: -1, version: r.version,
		floor: r.floor, announced: slices.Collect(maps.Values(r.announced)), locks: slices.Collect(maps.Values(r.locks)),
		done: make(chan struct{}),
	}
	slices.SortFunc(v.list, func(a, b *Tombstone) int { return cmp.Compare(a.ID, b.ID) })
	for _, t := range v.list {
		v.floor = max(v.floor, t.Seq)
		v.fromMs, v.toMs = min(v.fromMs, t.FromMs), max(v.toMs, t.ToMs)
		names, ok := Metrics(t.Selectors)
		if !ok {
			v.others = append(v.others, t)
			continue
		}
		for _, name := range names {
			if list := v.byMetric[name]; len(list) == 0 || list[len(list)-1] != t {
				v.byMetric[name] = append(list, t)
			}
		}
	}
	return v
}

// with returns a view with another list.
func (v *View) with(list []*Tombstone) *View {
	return newView(v.set, &row{list: list, version: v.version, floor: v.floor})
}

// SnapshotIf returns a view of the tombstones in force, in the order of their ids, up to the first one that keep refuses.
func (s *Set) SnapshotIf(keep func(t *Tombstone) bool) *View {
	v := s.View()
	n := 0
	for n < len(v.list) && keep(v.list[n]) {
		n++
	}
	if n == len(v.list) {
		return v
	}
	defer v.Release()
	part := v.with(slices.Clone(v.list[:n]))
	part.users = 1
	return part
}

// Version identifies the views of a shared set. Views with different versions may have different tombstones.
func (v *View) Version() uint64 { return v.version }

// Floor returns the highest number of all deletions, 0 without deletions.
func (v *View) Floor() uint32 { return v.floor }

// Announced lists the times, in milliseconds since 1970, of announced deletions that are not in force yet. Their numbers are
// unknown.
func (v *View) Announced() []int64 { return v.announced }

// Len returns the number of tombstones.
func (v *View) Len() int { return len(v.list) }

// List returns the tombstones by id. Do not change it.
func (v *View) List() []*Tombstone { return v.list }

// LastID returns the largest id of the tombstones, 0 without tombstones.
func (v *View) LastID() uint64 {
	if len(v.list) == 0 {
		return 0
	}
	return v.list[len(v.list)-1].ID
}

// Current reports whether no tombstone was added or dropped since the view was taken.
func (v *View) Current() bool { return v.set.latest.Load() == v }

// Release ends the use of the view.
func (v *View) Release() {
	s := v.set
	s.mu.Lock()
	defer s.mu.Unlock()
	if v.users--; v.users == 0 && s.latest.Load() != v {
		delete(s.older, v)
		close(v.done)
	}
}

// overlaps reports whether a tombstone may apply to a time from mintMs to before endMs; endMs 0 means no bound.
func (v *View) overlaps(mintMs, endMs int64) bool {
	return len(v.list) > 0 && v.toMs >= mintMs && (endMs == 0 || v.fromMs < endMs)
}

// appendMatching appends the tombstones that apply to a series to dst.
func (v *View) appendMatching(dst []*Tombstone, metric string, tags []keyschema.Tag) []*Tombstone {
	for _, list := range [][]*Tombstone{v.byMetric[metric], v.others} {
		for _, t := range list {
			if t.Matches(metric, tags) {
				dst = append(dst, t)
			}
		}
	}
	return dst
}

// mayDelete reports whether a tombstone may apply to series of a metric.
func (v *View) mayDelete(metric string) bool { return len(v.byMetric[metric])+len(v.others) > 0 }

// Within returns the given view, or a view of the current tombstones if it is nil. It returns nil if no tombstone
// applies to the times from mintMs to before endMs; endMs 0 means no bound. The caller calls done at the end.
func (s *Set) Within(given *View, mintMs, endMs int64) (v *View, done func()) {
	v = cmp.Or(given, s.latest.Load())
	if !v.overlaps(mintMs, endMs) {
		return nil, func() {}
	}
	if given != nil {
		return v, func() {}
	}
	v = s.View()
	return v, v.Release
}
