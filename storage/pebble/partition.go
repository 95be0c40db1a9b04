package pebble

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"halite/storage"
	"halite/storage/pebble/cellkey"
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
	days atomic.Pointer[dayList]
	mu   sync.Mutex // held while replacing days
	// dayChunksOnce has the days that left the set with day chunks. A read that began before may meet them still.
	dayChunksOnce map[int32]bool
}

// dayList never changes once it is in force.
type dayList struct {
	days   []int32
	states []*dayState // of the same days
}

// dayState is what the process knows of a partition beyond its cells.
type dayState struct {
	day int32
	// packed says that there may be day chunks. It is stored before the first one comes, and not reset.
	hasDayChunks atomic.Bool
	// writes counts changes, each before it is visible; who holds all stripe locks sees it settled.
	writes atomic.Uint64
	// wroteMs is about when the last change was, by Options.Now; 0 is before the store was opened.
	wroteMs atomic.Int64
	// lateBytes counts what was written since the partition was packed.
	lateBytes atomic.Int64
	// complete says that all was packed once, but for lateBytes; failedTimes and failedMs tell of tries in vain since
	// then. They belong to Store.dayChunkMu.
	complete    bool
	failedTimes int
	failedMs    int64
}

func (s *daySet) load() *dayList {
	if p := s.days.Load(); p != nil {
		return p
	}
	return &dayList{}
}

// list returns the days, newest first. The caller must not change it.
func (s *daySet) list() []int32 { return s.load().days }

// states returns the states of the days, newest first. The caller must not change it.
func (s *daySet) states() []*dayState { return s.load().states }

// state returns the state of a day, or nil if the set lacks it.
func (l *dayList) state(day int32) *dayState {
	if at, ok := slices.BinarySearchFunc(l.days, day, cellkey.NewestFirst); ok {
		return l.states[at]
	}
	return nil
}

// add makes sure that the set has the day, and returns its state.
func (s *daySet) add(day int32) *dayState {
	if state := s.load().state(day); state != nil {
		return state
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.load()
	at, ok := slices.BinarySearchFunc(old.days, day, cellkey.NewestFirst)
	if ok {
		return old.states[at]
	}
	state := &dayState{day: day}
	state.hasDayChunks.Store(s.dayChunksOnce[day])
	s.days.Store(&dayList{slices.Insert(slices.Clone(old.days), at, day), slices.Insert(slices.Clone(old.states), at, state)})
	return state
}

// remove takes days out. No writer may be adding to them.
func (s *daySet) remove(gone []int32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := &dayList{}
	for _, state := range s.load().states {
		if !slices.Contains(gone, state.day) {
			list.days, list.states = append(list.days, state.day), append(list.states, state)
		} else if state.hasDayChunks.Load() {
			if s.dayChunksOnce == nil {
				s.dayChunksOnce = map[int32]bool{}
			}
			s.dayChunksOnce[state.day] = true
		}
	}
	s.days.Store(list)
}

// within appends the days that can hold timestamps in [fromMs, toMs); toMs 0 is unbounded.
func (l *dayList) within(dst []int32, fromMs, toMs int64) []int32 {
	for _, day := range l.days {
		startMs := int64(day) * cellkey.DayMs
		if toMs > 0 && startMs >= toMs {
			continue
		}
		if startMs+cellkey.DayMs <= fromMs {
			break
		}
		dst = append(dst, day)
	}
	return dst
}

// changed notes that somebody who holds locks of rows is about to change the partition.
func (s *dayState) changed(now func() time.Time) {
	s.writes.Add(1)
	s.wroteMs.Store(now().UnixMilli())
}
