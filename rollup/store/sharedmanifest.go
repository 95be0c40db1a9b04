package store

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"halite/storage"
	"halite/storage/refresh"
)

// A fence token is a cell of the manifest's row, with the qualifier 't' and 8 random bytes.
const (
	tokenKind      = 't'
	tokenBytes     = 9
	refreshTimeout = 30 * time.Second
	patienceTimes  = 12 // times Margin; after that the job computes a day despite young records
)

// addCell adds a cell of the row other than the record.
func (row *manifestContent) addCell(c *storage.Cell) {
	switch q := c.Qualifier; {
	case len(q) == dirtyDayBytes && q[0] == dirtyDayKind:
		d := dirtyDay{int64(binary.BigEndian.Uint32(q[1:])), WorkPart}
		if q[dirtyDayBytes-1] == dirtyDayWhole {
			d.work = WorkWhole
		}
		if d.day <= dayMax { // later days have no samples
			row.dirtyDays[d] = max(row.dirtyDays[d], c.TsMs)
		}
	case len(q) == tokenBytes && q[0] == tokenKind:
		row.token = bytes.Clone(q)
	}
}

// sharedManifest is the part of a manifest that several processes need. Manifest.mu guards the job's fields.
type sharedManifest struct {
	m         *Manifest
	refresher refresh.Refresher // re-reads the row for readers

	token    []byte          // token of the row that the job has read
	cutoffMs int64           // the pass may remove older records and marks
	waiting  map[int64]int64 // time since which the job has waited for a day
	marginMs int64           // Shared.Margin
	computed int64           // the day whose pass ends, −1 if none does
	ownToken []byte          // the last token that this process wrote
	since    time.Time       // when this process took over

	mu       sync.Mutex
	recorded map[dirtyDay]time.Time // when this process wrote each record
}

func newSharedManifest(m *Manifest, o *Shared) *sharedManifest {
	s := &sharedManifest{
		m: m, marginMs: o.Margin.Milliseconds(), computed: -1, waiting: map[int64]int64{}, recorded: map[dirtyDay]time.Time{},
	}
	s.refresher.Timeout = refreshTimeout
	s.refresher.Do = func(ctx context.Context) error {
		row, err := m.read(ctx)
		if err != nil {
			return err
		}
		after, before := row.record.with(row.dirtyDays), m.published.Load()
		if before == nil {
			before = &Record{Closed: -1, ClosedMonth: -1}
		}
		m.replacePublished(before, &after)
		return nil
	}
	return s
}

// Reload makes the job use the stored manifest. Dirty-day records after the cutoff stay when a pass ends. Only one of
// several processes calls it.
func (m *Manifest) Reload(ctx context.Context, cutoffMs int64) error {
	s := m.shared
	if err := s.refresher.Refresh(ctx); err != nil {
		return err
	}
	row, err := m.read(ctx)
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.record, m.dirtyDays, s.token, s.cutoffMs = row.record, row.dirtyDays, row.token, cutoffMs
	for day := range s.waiting {
		if _, dirty := row.record.with(row.dirtyDays).Days[day]; !dirty {
			delete(s.waiting, day)
		}
	}
	return nil
}

// due reports whether a day is closed and its records are old, or the job has waited long enough. The caller holds
// Manifest.mu.
func (s *sharedManifest) due(day int64) bool {
	if day > s.m.record.Closed {
		return false
	}
	newest := max(s.m.dirtyDays[dirtyDay{day, WorkWhole}], s.m.dirtyDays[dirtyDay{day, WorkPart}])
	if newest <= s.cutoffMs {
		return true
	}
	since, waiting := s.waiting[day]
	if !waiting {
		s.waiting[day] = s.cutoffMs
		return false
	}
	return s.m.work(day) == WorkPart && s.cutoffMs-since > patienceTimes*s.marginMs
}

// ErrOvertaken says that another process has taken over the computation.
var ErrOvertaken = errors.New("another server has changed the rollup manifest meanwhile")

// save stores the manifest if no other process has changed it since it was read. The caller holds Manifest.mu.
func (s *sharedManifest) save(ctx context.Context, m storage.RowMutation) error {
	token := binary.BigEndian.AppendUint64([]byte{tokenKind}, rand.Uint64())
	m.Entries = append(m.Entries, storage.Entry{Kind: storage.SetCell, Family: storage.FamilyMeta, Qualifier: token})
	if s.computed >= 0 {
		for _, work := range []Work{WorkWhole, WorkPart} {
			m.Entries = append(m.Entries, dirtyDay{s.computed, work}.removal(s.cutoffMs))
		}
	}
	cond := storage.Filter{Families: []string{storage.FamilyMeta}, QualifierStart: []byte{tokenKind},
		QualifierEnd: []byte{tokenKind + 1}}
	then, otherwise := storage.RowMutation{}, m
	if s.token != nil {
		m.Entries = append(m.Entries, storage.Entry{Kind: storage.DeleteCells, Family: storage.FamilyMeta, Qualifier: s.token})
		cond.QualifierStart, cond.QualifierEnd = s.token, append(bytes.Clone(s.token), 0)
		then, otherwise = m, storage.RowMutation{}
	}
	matched, err := s.m.meta.CheckAndApply(ctx, []byte(manifestRow), cond, then, otherwise)
	if err != nil {
		return fmt.Errorf("write rollup manifest: %w", err)
	}
	if matched != (s.token != nil) {
		return ErrOvertaken
	}
	s.token, s.ownToken = token, token
	for d, ms := range s.m.dirtyDays {
		if d.day == s.computed && ms <= s.cutoffMs {
			delete(s.m.dirtyDays, d)
		}
	}
	return nil
}

// RecordDirty records a dirty day for the process that computes. Only one of several processes calls it.
func (m *Manifest) RecordDirty(ctx context.Context, day int64, work Work, now time.Time) error {
	return m.shared.recordDirty(ctx, day, work, now, 0)
}

// recordDirty records a dirty day, unless a record of this process still protects the current writes.
func (s *sharedManifest) recordDirty(ctx context.Context, day int64, work Work, now time.Time, limit time.Duration) error {
	d := dirtyDay{day, work}
	s.mu.Lock()
	at, recorded := s.recorded[d]
	s.mu.Unlock()
	if recorded && now.Sub(at) < limit && !now.Before(at) {
		return nil
	}
	err := s.m.meta.Apply(ctx, []storage.RowMutation{{Key: []byte(manifestRow), Entries: []storage.Entry{{
		Kind: storage.SetCell, Family: storage.FamilyMeta, Qualifier: d.qualifier(), TsMs: now.UnixMilli(),
	}}}})
	if err != nil {
		return fmt.Errorf("record %s as dirty: %w", DayText(day), err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for other, at := range s.recorded {
		if now.Sub(at) >= limit {
			delete(s.recorded, other)
		}
	}
	s.recorded[d] = now
	return nil
}

// reset replaces a manifest that may be damaged. The new one has no closed days, but states may exist. Deletions stay
// until these states reflect them. The reset overtakes a process that computes.
func (s *sharedManifest) reset(ctx context.Context) error {
	row, err := s.m.readWithoutRecord(ctx)
	if err != nil {
		return err
	}
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	s.token, s.m.record = row.token, Record{}
	return s.m.save(ctx)
}

// One of several processes computes. It may be suspended, and continue after another process has taken over. The fence
// token in the manifest's row separates them. A process that takes over replaces the token. No process writes states unless
// the token is its own, which it checks within Shared.Limit of the write. So after twice that time, the table has all
// states of other processes. It gets no more of them while the token stays.
//
// Deletions wait for that moment. Then the process computes the states that a deletion invalidates. It changes the deletion
// horizon in the manifest if the token is still its own. Afterwards all states reflect the deletion. Later processes read
// the manifest first and the deletions second. So they compute states that reflect this deletion, or they read rows from
// which cleaning has removed its samples.

// TakeOver gives the computation to this process unless it already has it. tick is a clock.
func (m *Manifest) TakeOver(ctx context.Context, tick func() time.Time) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.shared
	if s.ownToken != nil && bytes.Equal(s.token, s.ownToken) {
		return nil
	}
	if err := m.save(ctx); err != nil {
		return err
	}
	s.since = tick()
	return nil
}

// TookOver returns when this process took over.
func (m *Manifest) TookOver() time.Time { return m.shared.since }

// CutoffMs returns the time up to which the pass may remove marks. shared is false for a single process, which may remove
// all marks. The job calls it during a pass.
func (m *Manifest) CutoffMs() (ms int64, shared bool) {
	if m.shared == nil {
		return 0, false
	}
	return m.shared.cutoffMs, true
}

// CheckToken returns ErrOvertaken if another process has changed the manifest since this one did. It is called within
// WriteStates.
func (m *Manifest) CheckToken(ctx context.Context) error {
	it := m.meta.ReadRows(ctx, storage.RowSet{Keys: [][]byte{[]byte(manifestRow)}}, storage.ReadOptions{Filter: storage.Filter{
		Families: []string{storage.FamilyMeta}, VersionsMax: 1, QualifierStart: []byte{tokenKind},
		QualifierEnd: []byte{tokenKind + 1},
	}})
	defer it.Close()
	for it.Next() {
		for _, c := range it.Row().Cells {
			if bytes.Equal(c.Qualifier, m.shared.token) {
				return nil
			}
		}
	}
	if err := it.Err(); err != nil {
		return fmt.Errorf("read rollup manifest: %w", err)
	}
	return ErrOvertaken
}
