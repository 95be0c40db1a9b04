package partition

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"halite/storage"
	"halite/storage/pebble/cellkey"
)

// Family is a column family: its identity, which never changes, and its live partitions.
type Family struct {
	Name string
	ID   uint8
	Kind storage.FamilyKind
	Days daySet
	// Mixed means that columns may have several versions. A family of a HourKeys table starts unmixed: all its cells have
	// the last millisecond of their row's hour. Then each column has one version, and version limits are free. The table's
	// record has Mixed before the first other cell is written. Mixed is never reset.
	Mixed atomic.Bool
	// Unswept means that columns may have more versions since the last sweep.
	Unswept atomic.Bool
}

// daySet is the set of days with cells of a family, newest first. It may have empty days, but never lacks a day with a
// visible cell. Writers add a day before their batch commits, and readers load the set after they take their view of the
// tree.
type daySet struct {
	days atomic.Pointer[dayList]
	mu   sync.Mutex // held while replacing days
	// dayChunksOnce are the removed days that had day chunks. Reads that began earlier may still find these.
	dayChunksOnce map[int32]bool
}

// dayList is immutable.
type dayList struct {
	days   []int32
	states []*State // of the same days
}

// State is the state of a partition, without its cells.
type State struct {
	Day int32
	// HasDayChunks means that the partition may have day chunks. It is set before the first one is written, and never reset.
	HasDayChunks atomic.Bool
	// Writes counts changes, each before it becomes visible. It does not change while a caller holds all stripe locks.
	Writes atomic.Uint64
	// WroteMs is the approximate time of the last change, by Options.Now. 0 means before the store was opened.
	WroteMs atomic.Int64
	// LateBytes counts the bytes that were written since the partition was packed.
	LateBytes atomic.Int64
	// Complete means that the whole partition was packed once, and only LateBytes came later. FailedTimes and FailedMs
	// describe failed attempts since then. The holder of Store.dayChunkMu owns the three fields.
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

// Add adds a day if the set lacks it, and returns its state.
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

// Remove removes days. No writer may add to them at the same time.
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

// Within appends the days that can have timestamps in [fromMs, toMs). toMs 0 is unbounded.
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

// Changed records a change of the partition. The caller holds locks of rows and is about to make the change.
func (s *State) Changed(now func() time.Time) {
	s.Writes.Add(1)
	s.WroteMs.Store(now().UnixMilli())
}
