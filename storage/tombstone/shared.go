package tombstone

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"halite/storage"
)

// Several processes may share the tombstones of a store (Options.Shared). Then the row has a version. Every change raises it
// by a conditional mutation. Refresh reads the version, and the rest of the row only if the version is new.
//
// A tombstone hides samples with a lower number, so numbers and tombstones must have one order. A deletion writes an
// announcement to the row. It takes a sequence number above all earlier ones, and replaces the announcement by the
// tombstone.
//
// A writer of chunks takes a number first, then calls Refresh, and stops if there is an announcement (View.Announced). So
// its number is above all tombstones that it has applied to the row, and below all others. A writer of single samples puts
// View.Floor into their qualifiers. After the write it checks that the view is still current.

const (
	versionMark    = 'v' // then the version in 8 bytes; the value is random
	announceMark   = 'a' // then 8 random bytes; the value is the time in milliseconds, 8 bytes
	markedBytes    = 9
	floorQualifier = "floor"
	floorBytes     = 4
	// changeTriesMax bounds the tries of a change when other processes change the row first.
	changeTriesMax = 32
	// refreshTimeout bounds one reading of the row.
	refreshTimeout = 30 * time.Second
)

// ErrOvertaken is returned for a deletion that took too long, so another process has removed its announcement.
var ErrOvertaken = errors.New("the deletion took too long, so another server cancelled it; send it again")

// row is the row of tombstones in the meta table.
type row struct {
	list      []*Tombstone
	next      uint64
	version   uint64
	token     []byte // of the version
	floor     uint32
	announced map[string]int64 // times of announcements by qualifier
	locks     map[string]lockCell
}

// readMark reads a cell that is not a tombstone. It returns false for a tombstone.
func (r *row) readMark(c *storage.Cell) (isMark bool, err error) {
	switch q := c.Qualifier; {
	case string(q) == nextQualifier && len(c.Value) == idBytes && binary.BigEndian.Uint64(c.Value) < math.MaxInt64:
		r.next = max(r.next, binary.BigEndian.Uint64(c.Value))
	case string(q) == floorQualifier && len(c.Value) == floorBytes:
		r.floor = max(r.floor, binary.BigEndian.Uint32(c.Value))
	case len(q) == markedBytes && q[0] == versionMark && binary.BigEndian.Uint64(q[1:]) < math.MaxInt64:
		if v := binary.BigEndian.Uint64(q[1:]); v >= r.version {
			r.version, r.token = v, bytes.Clone(c.Value)
		}
	case len(q) == markedBytes && q[0] == announceMark && len(c.Value) == idBytes:
		r.announced[string(q)] = int64(binary.BigEndian.Uint64(c.Value))
	case len(q) == markedBytes && q[0] == lockMark && len(c.Value) == lockSize:
		r.locks[string(q)] = parseLockCell(c.Value)
	case len(q) != idBytes || binary.BigEndian.Uint64(q) >= math.MaxInt64:
		return true, fmt.Errorf("%w: table %s, row %s: qualifier %x with %d bytes", storage.ErrCorrupt, storage.TableMeta, metaRow, q,
			len(c.Value))
	default:
		return false, nil
	}
	return true, nil
}

func versionQualifier(version uint64) []byte {
	return binary.BigEndian.AppendUint64([]byte{versionMark}, version)
}

// Refresh reads the tombstones of other processes. Later views have all tombstones that any process put in force before the
// call. Concurrent calls share one request. Refresh does nothing unless the set is shared.
func (s *Set) Refresh(ctx context.Context) error {
	if !s.opts.Shared {
		return nil
	}
	return s.refresher.Refresh(ctx)
}

// refresh makes the content of the row the latest view. One call at a time runs.
func (s *Set) refresh(ctx context.Context) error {
	if err := s.adoptNewer(ctx); err != nil {
		return fmt.Errorf("read the deletions of other servers: %w", err)
	}
	return nil
}

// adoptNewer adopts the row if it has another version than the latest view.
func (s *Set) adoptNewer(ctx context.Context) error {
	version, err := s.readVersion(ctx)
	if err != nil || version == s.latest.Load().version {
		return err
	}
	r, err := s.load(ctx)
	if err != nil {
		return err
	}
	return s.adopt(ctx, r)
}

func (s *Set) readVersion(ctx context.Context) (version uint64, err error) {
	it := s.meta.ReadRows(ctx, storage.RowSet{Keys: [][]byte{[]byte(metaRow)}}, storage.ReadOptions{Filter: storage.Filter{
		Families: []string{storage.FamilyMeta}, VersionsMax: 1, QualifierStart: []byte{versionMark},
		QualifierEnd: []byte{versionMark + 1},
	}})
	defer func() { err = errors.Join(err, it.Close()) }()
	for it.Next() {
		for _, c := range it.Row().Cells {
			if len(c.Qualifier) == markedBytes {
				version = max(version, binary.BigEndian.Uint64(c.Qualifier[1:]))
			}
		}
	}
	return version, it.Err()
}

// adopt puts the tombstones of the row in force, after it has called the function of SetChanged.
func (s *Set) adopt(ctx context.Context, r *row) error {
	if do := s.changed.Load(); do != nil {
		if err := (*do)(ctx); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.latest.Load().version >= r.version {
		return nil
	}
	s.next, s.saved = max(s.next, r.next), max(s.next, r.next)
	s.publish(newView(s, r))
	return nil
}

// errNothing is returned by an edit that finds nothing to change.
var errNothing = errors.New("nothing to change")

// change applies the entries that edit returns for the current row, or returns the error of edit.
func (s *Set) change(ctx context.Context, edit func(r *row) ([]storage.Entry, error)) error {
	token := make([]byte, idBytes)
	_, _ = rand.Read(token) // never fails
	for range changeTriesMax {
		r, err := s.load(ctx)
		if err != nil {
			return err
		}
		if bytes.Equal(r.token, token) { // this change took effect, and its reply was lost
			return s.Refresh(ctx)
		}
		entries, err := edit(r)
		if errors.Is(err, errNothing) {
			return s.Refresh(ctx)
		}
		if err != nil {
			return err
		}
		entries = append(entries, remove(versionQualifier(r.version)), setCell(versionQualifier(r.version+1), token))
		newer, err := s.meta.CheckAndApply(ctx, []byte(metaRow), storage.Filter{
			Families: []string{storage.FamilyMeta}, QualifierStart: versionQualifier(r.version + 1),
			QualifierEnd: []byte{versionMark + 1},
		}, storage.RowMutation{}, storage.RowMutation{Entries: entries})
		switch {
		case errors.Is(err, storage.ErrUnavailable): // the next try finds out whether the change took effect
		case err != nil:
			return fmt.Errorf("write the tombstones to table %s: %w", storage.TableMeta, err)
		case !newer:
			return s.Refresh(ctx)
		}
	}
	return fmt.Errorf("%w: cannot change the tombstones: other servers changed them at each attempt, or the table did not answer",
		storage.ErrUnavailable)
}

func remove(qualifier []byte) storage.Entry {
	return storage.Entry{Kind: storage.DeleteCells, Family: storage.FamilyMeta, Qualifier: slices.Clone(qualifier)}
}

func setCell(qualifier, value []byte) storage.Entry {
	return storage.Entry{Kind: storage.SetCell, Family: storage.FamilyMeta, Qualifier: qualifier, Value: value}
}

// Publish puts a tombstone in force for all processes and returns it with its ID and Seq. Publish calls number for a sequence
// number above all numbers assigned so far. The set must be shared.
func (s *Set) Publish(
	ctx context.Context, t Tombstone, number func(ctx context.Context) (uint32, error),
) (*Tombstone, error) {
	announcement := make([]byte, markedBytes)
	_, _ = rand.Read(announcement) // never fails
	announcement[0] = announceMark
	if err := s.change(ctx, func(r *row) ([]storage.Entry, error) {
		if len(r.list) >= s.opts.TombstonesMax {
			return nil, &LimitError{Max: s.opts.TombstonesMax}
		}
		return []storage.Entry{setCell(announcement, binary.BigEndian.AppendUint64(nil, uint64(t.MadeMs)))}, nil
	}); err != nil {
		return nil, err
	}
	err := s.change(ctx, func(r *row) (_ []storage.Entry, err error) {
		if _, held := r.announced[string(announcement)]; !held {
			if slices.ContainsFunc(r.list, func(o *Tombstone) bool { return o.ID == t.ID && o.Seq == t.Seq }) {
				return nil, errNothing // it took effect, its reply was lost, and the row has changed since
			}
			return nil, ErrOvertaken
		}
		if t.Seq, err = number(ctx); err != nil {
			return nil, err
		}
		if t.Seq <= r.floor {
			return nil, fmt.Errorf("%w: the deletion has sequence number %d, which is not above %d", storage.ErrUnavailable,
				t.Seq, r.floor)
		}
		t.ID = r.next
		return []storage.Entry{
			remove(announcement), setCell(binary.BigEndian.AppendUint64(nil, t.ID), Append(nil, &t)),
			setCell([]byte(nextQualifier), binary.BigEndian.AppendUint64(nil, t.ID+1)),
			setCell([]byte(floorQualifier), binary.BigEndian.AppendUint32(nil, t.Seq)),
		}, nil
	})
	if err != nil {
		return nil, errors.Join(err, s.withdraw(context.WithoutCancel(ctx), func(q string, _ int64) bool {
			return q == string(announcement)
		}))
	}
	return &t, nil
}

// withdraw removes announcements.
func (s *Set) withdraw(ctx context.Context, which func(qualifier string, madeMs int64) bool) error {
	ctx, cancel := context.WithTimeout(ctx, refreshTimeout)
	defer cancel()
	return s.change(ctx, func(r *row) (entries []storage.Entry, err error) {
		for q, madeMs := range r.announced {
			if which(q, madeMs) {
				entries = append(entries, remove([]byte(q)))
			}
		}
		if len(entries) == 0 {
			err = errNothing
		}
		return entries, err
	})
}

// GiveUp removes announcements older than a time, because their owners are probably dead. If an owner is alive, its deletion
// fails with ErrOvertaken.
func (s *Set) GiveUp(ctx context.Context, beforeMs int64) error {
	return s.withdraw(ctx, func(_ string, madeMs int64) bool { return madeMs < beforeMs })
}
