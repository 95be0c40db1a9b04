package partition

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"halite/storage"
	"halite/storage/pebble/cellkey"
)

// Family is a column family as stored: its identity, which never changes, and its live partitions.
type Family struct {
	Name string
	ID   uint8
	Kind storage.FamilyKind
	Days daySet
	// Mixed says that columns may have several versions. While a family of a HourKeys table has only cells with the
	// last millisecond of their row's hour, each column has one, and version limits cost nothing. It is stored in the
	// table's record before the first other cell is written, and never reset.
	Mixed atomic.Bool
	// Unswept says that versions may have come since the last sweep.
	Unswept atomic.Bool
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
	states []*State // of the same days
}

// State is what the process knows of a partition beyond its cells.
type State struct {
	Day int32
	// packed says that there may be day chunks. It is stored before the first one comes, and not reset.
	HasDayChunks atomic.Bool
	// Writes counts changes, each before it is visible; who holds all stripe locks sees it settled.
	Writes atomic.Uint64
	// WroteMs is about when the last change was, by Options.Now; 0 is before the store was opened.
	WroteMs atomic.Int64
	// LateBytes counts what was written since the partition was packed.
	LateBytes atomic.Int64
	// Complete says that all was packed once, but for LateBytes; FailedTimes and FailedMs tell of tries in vain since
	// then. They belong to Store.dayChunkMu.
	Complete    bool
	FailedTimes int
	FailedMs    int64
}

func (s *daySet) Load() *dayList {
	if p := s.days.Load(); p != nil {
		return p
	}
	return &dayList{}
}

// List returns the days, newest first. The caller must not change it.
func (s *daySet) List() []int32 { return s.Load().days }

// States returns the states of the days, newest first. The caller must not change it.
func (s *daySet) States() []*State { return s.Load().states }

// State returns the state of a day, or nil if the set lacks it.
func (l *dayList) State(day int32) *State {
	if at, ok := slices.BinarySearchFunc(l.days, day, cellkey.NewestFirst); ok {
		return l.states[at]
	}
	return nil
}

// Add makes sure that the set has the day, and returns its state.
func (s *daySet) Add(day int32) *State {
	if state := s.Load().State(day); state != nil {
		return state
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.Load()
	at, ok := slices.BinarySearchFunc(old.days, day, cellkey.NewestFirst)
	if ok {
		return old.states[at]
	}
	state := &State{Day: day}
	state.HasDayChunks.Store(s.dayChunksOnce[day])
	s.days.Store(&dayList{slices.Insert(slices.Clone(old.days), at, day), slices.Insert(slices.Clone(old.states), at, state)})
	return state
}

// Remove takes days out. No writer may be adding to them.
func (s *daySet) Remove(gone []int32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := &dayList{}
	for _, state := range s.Load().states {
		if !slices.Contains(gone, state.Day) {
			list.days, list.states = append(list.days, state.Day), append(list.states, state)
		} else if state.HasDayChunks.Load() {
			if s.dayChunksOnce == nil {
				s.dayChunksOnce = map[int32]bool{}
			}
			s.dayChunksOnce[state.Day] = true
		}
	}
	s.days.Store(list)
}

// Within appends the days that can hold timestamps in [fromMs, toMs); toMs 0 is unbounded.
func (l *dayList) Within(dst []int32, fromMs, toMs int64) []int32 {
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

// Changed notes that somebody who holds locks of rows is about to change the partition.
func (s *State) Changed(now func() time.Time) {
	s.Writes.Add(1)
	s.WroteMs.Store(now().UnixMilli())
}
