package tiers

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"halite/keyschema"
	"halite/storage"
	"halite/storage/jsoncell"
)

// Where the ledger is stored.
const (
	ledgerRow       = "rollup"
	ledgerQualifier = "ledger"
)

func ledgerCell() jsoncell.Cell {
	return jsoncell.Cell{Row: ledgerRow, Qualifier: ledgerQualifier, Remedy: "stop the server and run tsdb rollup rebuild --reset"}
}

// work says what is to be done about a day. The words are stored.
type work string

const (
	workWhole work = "whole" // no state of the day is valid
	workPart  work = "part"  // those with marks are not
)

// record is the ledger as stored.
type record struct {
	// Closed is the last closed day, since 1970; later days have no states. ClosedMonth likewise.
	Closed      int64 `json:"closed"`
	ClosedMonth int64 `json:"closed_month"`
	// Days and Months are those to compute; months that are not closed wait.
	Days   map[int64]work `json:"days,omitempty"`
	Months map[int64]bool `json:"months,omitempty"`
	// Deleted is the last deletion that all states are as of.
	Deleted uint64 `json:"deleted,omitempty"`
}

// ledger knows which days and months have valid states.
//
// Locks: gate before mu. A writer of rows holds gate shared from its announcement until its rows are in the table, so
// that whoever takes it exclusively knows of all rows that are, or will be told of all that come.
type ledger struct {
	store storage.Store
	meta  storage.Table

	gate sync.RWMutex

	seen   atomic.Pointer[record] // a copy of record for readers, who never wait for mu
	epochs *epochs                // of what readers may keep

	mu     sync.Mutex
	record record
	quiet  map[int64]calm // of the days to compute
	// putOff says until when the job leaves days alone because their rows are damaged.
	putOff  map[int64]time.Time
	notes   notes         // that several processes left
	shared  *sharedLedger // nil if there is one process
	pass    int64         // day being computed, −1 if none
	touched map[string]struct{}
	again   bool // the whole pass must be repeated
}

// calm is when a day was first and last announced.
type calm struct{ first, last time.Time }

// openLedger reads the ledger; found is false if there is none yet, or it is to be forgotten.
func openLedger(
	ctx context.Context, store storage.Store, reset bool, e *epochs, shared *Shared,
) (l *ledger, found bool, err error) {
	l = &ledger{
		store: store, pass: -1, quiet: map[int64]calm{}, putOff: map[int64]time.Time{}, epochs: e,
		record: record{Closed: -1, ClosedMonth: -1},
	}
	if l.meta, err = store.EnsureTable(ctx, storage.MetaSchema()); err != nil {
		return nil, false, fmt.Errorf("open table %s: %w", storage.TableMeta, err)
	}
	if shared != nil {
		l.shared = newSharedLedger(l, shared)
		if reset {
			if err := l.shared.reset(ctx); err != nil {
				return nil, false, err
			}
		}
		return l, true, l.shared.refresher.Refresh(ctx)
	}
	stored, err := l.read(ctx, reset)
	if err != nil {
		return nil, false, err
	}
	l.record, l.notes, found = stored.record, stored.notes, stored.found
	l.adopt()
	l.show()
	return l, found, nil
}

// adopt takes up days that processes which shared the tables have noted.
func (l *ledger) adopt() {
	l.record = l.record.with(l.notes)
}

// stored is the row of the ledger.
type stored struct {
	record record
	found  bool // there is a ledger
	notes  notes
	token  []byte // of the last change by one of several processes
}

// read reads the row; with reset it leaves out the ledger.
func (l *ledger) read(ctx context.Context, reset bool) (s stored, err error) {
	s = stored{record: record{Closed: -1, ClosedMonth: -1}, notes: notes{}}
	it := l.meta.ReadRows(ctx, storage.RowSet{Keys: [][]byte{[]byte(ledgerRow)}},
		storage.ReadOptions{Filter: storage.Filter{Families: []string{storage.FamilyMeta}, VersionsMax: 1}})
	defer it.Close()
	for it.Next() {
		for _, c := range it.Row().Cells {
			if !bytes.Equal(c.Qualifier, []byte(ledgerQualifier)) {
				s.take(&c)
				continue
			}
			if reset {
				continue
			}
			s.found = true
			if err := ledgerCell().Decode(c.Value, &s.record); err != nil {
				return s, fmt.Errorf("rollup ledger: %w", err)
			}
			if err := s.record.check(); err != nil {
				return s, fmt.Errorf("rollup ledger: %w", ledgerCell().Corrupt(err))
			}
		}
	}
	if s.record.Days == nil {
		s.record.Days = map[int64]work{}
	}
	if s.record.Months == nil {
		s.record.Months = map[int64]bool{}
	}
	if err := it.Err(); err != nil {
		return s, fmt.Errorf("read rollup ledger: %w", err)
	}
	return s, nil
}

// dayMax is the last day of which row keys can have an hour.
const dayMax = keyschema.HourMax / keyschema.DayHours

// check refuses days and months that there are not.
func (r *record) check() error {
	if r.Closed < -1 || r.Closed > dayMax || r.ClosedMonth < -1 || r.ClosedMonth > MonthOfDay(dayMax) {
		return fmt.Errorf("day %d or month %d is out of range", r.Closed, r.ClosedMonth)
	}
	for day, what := range r.Days {
		if day < 0 || day > dayMax || what != workWhole && what != workPart {
			return fmt.Errorf("work %q of day %d is unknown or out of range", what, day)
		}
	}
	for month := range r.Months {
		if month < 0 || month > MonthOfDay(dayMax) {
			return fmt.Errorf("month %d is out of range", month)
		}
	}
	return nil
}

// save stores the ledger. The caller holds mu.
func (l *ledger) save(ctx context.Context) error {
	l.show()
	entry, err := ledgerCell().Entry(l.record)
	if err != nil {
		return fmt.Errorf("rollup ledger: %w", err)
	}
	m := storage.RowMutation{Key: []byte(ledgerRow), Entries: []storage.Entry{entry}}
	if l.shared != nil {
		return l.shared.save(ctx, m)
	}
	m.Entries = append(m.Entries, l.notes.remove(math.MaxInt64-1)...) // the ledger has them
	if err = l.meta.Apply(ctx, []storage.RowMutation{m}); err == nil {
		l.notes = nil
	}
	if err != nil {
		return fmt.Errorf("write rollup ledger: %w", err)
	}
	return nil
}

// saveSynced is save, durable.
func (l *ledger) saveSynced(ctx context.Context) error {
	if err := l.save(ctx); err != nil {
		return err
	}
	if err := l.store.Sync(ctx); err != nil {
		return fmt.Errorf("sync rollup ledger: %w", err)
	}
	return nil
}

// close moves the last closed day on; those of days are to be computed. It returns once every write that was let
// through as one of open days is in the table.
func (l *ledger) close(ctx context.Context, day int64, days []int64) error {
	l.gate.Lock()
	defer l.gate.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	former := l.record.Closed
	l.record.Closed = max(former, day)
	for _, d := range days {
		l.record.Days[d] = workWhole
	}
	return l.saveSynced(ctx)
}

// begin starts a pass over a day and returns what is to be done.
func (l *ledger) begin(day int64) work {
	l.gate.Lock()
	defer l.gate.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pass, l.touched, l.again = day, map[string]struct{}{}, false
	delete(l.quiet, day)
	return l.work(day)
}

// start starts a pass over a day of which the ledger stays as it is; end ends it.
func (l *ledger) start(day int64) {
	l.gate.Lock()
	defer l.gate.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pass, l.touched, l.again = day, map[string]struct{}{}, false
}

func (l *ledger) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pass, l.touched, l.again = -1, nil, false
}

// deleted notes that all states are as of a deletion.
func (l *ledger) deleted(ctx context.Context, id uint64) error {
	// What is noted must not outlive what it stands for.
	if err := l.store.Sync(ctx); err != nil {
		return fmt.Errorf("sync rollups: %w", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.record.Deleted = id
	return l.saveSynced(ctx)
}

// finish ends a pass over a day; done tells that it went through.
func (l *ledger) finish(ctx context.Context, day int64, done bool) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	again, touched := l.again, len(l.touched) > 0
	l.pass, l.touched, l.again = -1, nil, false
	if !done {
		return nil
	}
	switch {
	case again:
		l.record.Days[day] = workWhole
	case touched:
		l.record.Days[day] = workPart
	default:
		delete(l.record.Days, day)
	}
	if l.shared != nil {
		l.shared.computed = day
		defer func() { l.shared.computed = -1 }()
	}
	l.record.Months[MonthOfDay(day)] = true // for when it is closed, if it is not
	return l.saveSynced(ctx)
}

// next returns a day to compute, the newest first, that has been quiet for long enough.
func (l *ledger) next(now time.Time, settle time.Duration) (day int64, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	days := slices.Sorted(maps.Keys(l.record.with(l.notes).Days))
	for _, day := range slices.Backward(days) {
		if l.shared != nil && !l.shared.due(day) || now.Before(l.putOff[day]) {
			continue
		}
		c, announced := l.quiet[day]
		if !announced || now.Sub(c.last) >= settle || now.Sub(c.first) >= 12*settle {
			return day, true
		}
	}
	return 0, false
}

// damagedRest is how long the job leaves a day alone whose rows are damaged, so that it comes to other days.
const damagedRest = time.Hour

// leave puts off a day whose rows are damaged.
func (l *ledger) leave(day int64, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.putOff[day] = now.Add(damagedRest)
}

// closeMonths moves the last closed month on; a month is closed with its last day.
func (l *ledger) closeMonths(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	month := MonthOfDay(l.record.Closed+1) - 1
	if month <= l.record.ClosedMonth {
		return nil
	}
	l.record.ClosedMonth = month
	return l.saveSynced(ctx)
}

// nextMonth returns a closed month to compute none of whose days is to be.
func (l *ledger) nextMonth() (month int64, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	months := slices.Sorted(maps.Keys(l.record.Months))
	for _, month := range slices.Backward(months) {
		if month <= l.record.ClosedMonth && !l.hasDays(month) {
			return month, true
		}
	}
	return 0, false
}

// hasDays tells whether a day of the month is to be computed. The caller holds mu.
func (l *ledger) hasDays(month int64) bool {
	for day := range l.record.with(l.notes).Days {
		if MonthOfDay(day) == month {
			return true
		}
	}
	return false
}

// work is what is to be done about a day. The caller holds mu.
func (l *ledger) work(day int64) work { return l.record.with(l.notes).Days[day] }

// finishMonth ends the pass over a month, unless one of its days has to be computed by now.
func (l *ledger) finishMonth(ctx context.Context, month int64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.hasDays(month) {
		return nil
	}
	delete(l.record.Months, month)
	return l.saveSynced(ctx)
}

// show lets readers see the ledger as it is. The caller holds mu.
func (l *ledger) show() {
	if l.shared != nil {
		return // looks do
	}
	r := l.record
	r.Days, r.Months = maps.Clone(r.Days), maps.Clone(r.Months)
	former := l.seen.Load()
	if former == nil {
		l.seen.Store(&r) // nobody has kept anything
		return
	}
	days, months := differences(former, &r)
	l.epochs.change(days, months)
	l.seen.Store(&r)
	l.epochs.change(days, months)
}

// view is the ledger as readers see it; it is not to be changed.
func (l *ledger) view() *record { return l.seen.Load() }

// hasHours tells whether the states of a day's hours may be used where no mark forbids it.
func (r *record) hasHours(day int64) bool { return day <= r.Closed && r.Days[day] != workWhole }

// hasMonth tells whether the states of a month's days may be used.
func (r *record) hasMonth(month int64) bool {
	if month > r.ClosedMonth || r.Months[month] {
		return false
	}
	for day := range r.Days {
		if MonthOfDay(day) == month {
			return false
		}
	}
	return true
}
