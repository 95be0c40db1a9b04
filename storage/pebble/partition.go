package pebble

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"

	"halite/storage"
)

// family is a column family as stored: its identity, which never changes, and its live partitions.
type family struct {
	name string
	id   uint8
	kind storage.FamilyKind
	days daySet
	// mixed says that columns may have several versions. While a family of a HourKeys table has only cells with the
	// last millisecond of their row's hour, each column has one, and version limits cost nothing. It is stored in the
	// table's record before the first other cell is written, and never reset.
	mixed atomic.Bool
	// unswept says that versions may have come since the last sweep.
	unswept atomic.Bool
}

// daySet is the set of days with cells of a family, newest first. It may name empty days, but never lacks one with a
// visible cell: writers add a day before their batch commits, readers load the set after they have fixed their view.
type daySet struct {
	days atomic.Pointer[[]int32]
	mu   sync.Mutex // held while replacing days
}

func newestFirst(day, other int32) int { return cmp.Compare(other, day) }

// list returns the days, newest first. The caller must not change it.
func (s *daySet) list() []int32 {
	if p := s.days.Load(); p != nil {
		return *p
	}
	return nil
}

// add makes sure that the set has the day.
func (s *daySet) add(day int32) {
	if _, ok := slices.BinarySearchFunc(s.list(), day, newestFirst); ok {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	days := s.list()
	if at, ok := slices.BinarySearchFunc(days, day, newestFirst); !ok {
		days = slices.Insert(slices.Clone(days), at, day)
		s.days.Store(&days)
	}
}

// remove takes days out. No writer may be adding to them.
func (s *daySet) remove(gone []int32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	days := slices.DeleteFunc(slices.Clone(s.list()), func(d int32) bool { return slices.Contains(gone, d) })
	s.days.Store(&days)
}

// within appends the days that can hold timestamps in [fromMs, toMs); toMs 0 is unbounded.
func (s *daySet) within(dst []int32, fromMs, toMs int64) []int32 {
	for _, day := range s.list() {
		startMs := int64(day) * dayMs
		if toMs > 0 && startMs >= toMs {
			continue
		}
		if startMs+dayMs <= fromMs {
			break
		}
		dst = append(dst, day)
	}
	return dst
}
