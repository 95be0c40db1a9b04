package tiers

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"time"

	"halite/storage"
	"halite/storage/refresh"
)

// Cells of the ledger's row that several processes write: notes have the qualifier 'n', the day in 4 bytes and 'w' or 'p', and
// their time as timestamp; of the token the last 8 bytes are random.
const (
	noteMark      = 'n'
	noteWhole     = 'w'
	notePart      = 'p'
	noteBytes     = 6
	tokenMark     = 't'
	tokenBytes    = 9
	lookTimeout   = 30 * time.Second
	patienceTimes = 12 // of Margin, after which a day is computed though its notes are young
)

// noted names a note.
type noted struct {
	day  int64
	what work
}

// notes are the times of the newest notes, in milliseconds since 1970.
type notes map[noted]int64

func (n noted) qualifier() []byte {
	kind := byte(notePart)
	if n.what == workWhole {
		kind = noteWhole
	}
	return append(binary.BigEndian.AppendUint32([]byte{noteMark}, uint32(n.day)), kind)
}

// take takes a cell besides the ledger.
func (s *stored) take(c *storage.Cell) {
	switch q := c.Qualifier; {
	case len(q) == noteBytes && q[0] == noteMark:
		n := noted{int64(binary.BigEndian.Uint32(q[1:])), workPart}
		if q[noteBytes-1] == noteWhole {
			n.what = workWhole
		}
		if n.day <= dayMax { // of others nobody has samples
			s.notes[n] = max(s.notes[n], c.TsMs)
		}
	case len(q) == tokenBytes && q[0] == tokenMark:
		s.token = bytes.Clone(q)
	}
}

// with is the record with the days of notes.
func (r record) with(n notes) record {
	if len(n) == 0 {
		return r
	}
	r.Days = maps.Clone(r.Days)
	for note := range n {
		if note.what == workWhole || r.Days[note.day] == "" {
			r.Days[note.day] = note.what
		}
	}
	return r
}

// remove takes notes away that are not newer than a time.
func (n notes) remove(toMs int64) (entries []storage.Entry) {
	for note := range n {
		entries = append(entries, note.remove(toMs))
	}
	return entries
}

func (n noted) remove(toMs int64) storage.Entry {
	return storage.Entry{Kind: storage.DeleteCells, Family: storage.FamilyMeta, Qualifier: n.qualifier(), ToMs: toMs + 1}
}

// sharedLedger is what a ledger has besides where several processes use it. The job's fields are guarded by ledger.mu.
type sharedLedger struct {
	l         *ledger
	refresher refresh.Refresher // re-reads the row for readers

	token    []byte          // the row as the job knows it
	cutoffMs int64           // notes and marks that are older may go; the pass's own
	waits    map[int64]int64 // since when days have been waited for
	margin   int64           // Shared.Margin in milliseconds
	computed int64           // the day whose pass ends, −1 if none does
	mine     []byte          // the last token that this process wrote
	since    time.Time       // when it took over

	mu   sync.Mutex
	left map[noted]time.Time // when this process left which note
}

func newSharedLedger(l *ledger, o *Shared) *sharedLedger {
	s := &sharedLedger{l: l, margin: o.Margin.Milliseconds(), computed: -1, waits: map[int64]int64{}, left: map[noted]time.Time{}}
	s.refresher.Timeout = lookTimeout
	s.refresher.Do = func(ctx context.Context) error {
		stored, err := l.read(ctx, false)
		if err != nil {
			return err
		}
		view := stored.record.with(stored.notes)
		former := l.seen.Load()
		if former == nil {
			former = &record{Closed: -1, ClosedMonth: -1}
		}
		days, months := differences(former, &view)
		l.epochs.change(days, months)
		l.seen.Store(&view)
		l.epochs.change(days, months)
		return nil
	}
	return s
}

// reload has the job go by what is stored. What is noted after the cutoff stays when a pass ends.
func (s *sharedLedger) reload(ctx context.Context, cutoffMs int64) error {
	if err := s.refresher.Refresh(ctx); err != nil {
		return err
	}
	stored, err := s.l.read(ctx, false)
	if err != nil {
		return err
	}
	s.l.mu.Lock()
	defer s.l.mu.Unlock()
	s.l.record, s.l.notes, s.token, s.cutoffMs = stored.record, stored.notes, stored.token, cutoffMs
	for day := range s.waits {
		if _, noted := stored.record.with(stored.notes).Days[day]; !noted {
			delete(s.waits, day)
		}
	}
	return nil
}

// due tells whether a day is closed and its notes are old, or have been waited for long enough. The caller holds ledger.mu.
func (s *sharedLedger) due(day int64) bool {
	if day > s.l.record.Closed {
		return false
	}
	newest := max(s.l.notes[noted{day, workWhole}], s.l.notes[noted{day, workPart}])
	if newest <= s.cutoffMs {
		return true
	}
	since, waiting := s.waits[day]
	if !waiting {
		s.waits[day] = s.cutoffMs
		return false
	}
	return s.l.work(day) == workPart && s.cutoffMs-since > patienceTimes*s.margin
}

// errOvertaken: another process works, too.
var errOvertaken = errors.New("another server has changed the rollup ledger meanwhile")

// save stores the ledger if nobody else has changed it since it was read. The caller holds ledger.mu.
func (s *sharedLedger) save(ctx context.Context, m storage.RowMutation) error {
	token := binary.BigEndian.AppendUint64([]byte{tokenMark}, rand.Uint64())
	m.Entries = append(m.Entries, storage.Entry{Kind: storage.SetCell, Family: storage.FamilyMeta, Qualifier: token})
	if s.computed >= 0 {
		for _, what := range []work{workWhole, workPart} {
			m.Entries = append(m.Entries, noted{s.computed, what}.remove(s.cutoffMs))
		}
	}
	cond := storage.Filter{Families: []string{storage.FamilyMeta}, QualifierStart: []byte{tokenMark},
		QualifierEnd: []byte{tokenMark + 1}}
	then, otherwise := storage.RowMutation{}, m
	if s.token != nil {
		m.Entries = append(m.Entries, storage.Entry{Kind: storage.DeleteCells, Family: storage.FamilyMeta, Qualifier: s.token})
		cond.QualifierStart, cond.QualifierEnd = s.token, append(bytes.Clone(s.token), 0)
		then, otherwise = m, storage.RowMutation{}
	}
	matched, err := s.l.meta.CheckAndApply(ctx, []byte(ledgerRow), cond, then, otherwise)
	if err != nil {
		return fmt.Errorf("write rollup ledger: %w", err)
	}
	if matched != (s.token != nil) {
		return errOvertaken
	}
	s.token, s.mine = token, token
	for note, ms := range s.l.notes {
		if note.day == s.computed && ms <= s.cutoffMs {
			delete(s.l.notes, note)
		}
	}
	return nil
}

// note leaves a note of a day, unless this process has left one that still protects what is written now.
func (s *sharedLedger) note(ctx context.Context, day int64, what work, now time.Time, limit time.Duration) error {
	n := noted{day, what}
	s.mu.Lock()
	at, left := s.left[n]
	s.mu.Unlock()
	if left && now.Sub(at) < limit && !now.Before(at) {
		return nil
	}
	err := s.l.meta.Apply(ctx, []storage.RowMutation{{Key: []byte(ledgerRow), Entries: []storage.Entry{{
		Kind: storage.SetCell, Family: storage.FamilyMeta, Qualifier: n.qualifier(), TsMs: now.UnixMilli(),
	}}}})
	if err != nil {
		return fmt.Errorf("note that states of %s are stale: %w", dayText(day), err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for o, at := range s.left {
		if now.Sub(at) >= limit {
			delete(s.left, o)
		}
	}
	s.left[n] = now
	return nil
}
