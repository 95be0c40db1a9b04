package tombstone

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"iter"
	"maps"
	"slices"
	"time"

	"halite/storage"
)

// The cleanup lock covers days of which a process removes hours without samples from an index that others write. It is a cell
// in the row of tombstones. A process takes the lock before it looks for samples, and releases it at the end. Each change of
// the row raises its version. So a writer that finds the version that it knew before, and no lock on those times, knows that
// the index still has its hours. Otherwise it announces the hours again.
//
// The owner of an old lock is dead, or was suspended. A process that steals the lock must keep the owner from removing
// anything more (CleanupLock.StoleLock), and the owner checks the lock before each step (CleanupLock.Check).

const (
	lockMark = 's' // and 8 random bytes; the value is when, and the first and last millisecond, 8 bytes each
	lockSize = 24
	// CleanupLockTTL is the age from which others may steal a cleanup lock. The owner renews it before.
	CleanupLockTTL = 5 * time.Minute
)

// lockCell is the content of a lock.
type lockCell struct{ madeMs, fromMs, toMs int64 }

func (m lockCell) overlaps(fromMs, toMs int64) bool { return m.fromMs <= toMs && m.toMs >= fromMs }

func (m lockCell) append(dst []byte) []byte {
	for _, ms := range []int64{m.madeMs, m.fromMs, m.toMs} {
		dst = binary.BigEndian.AppendUint64(dst, uint64(ms))
	}
	return dst
}

// parseLockCell reads what append wrote of lockSize bytes.
func parseLockCell(b []byte) lockCell {
	at := func(n int) int64 { return int64(binary.BigEndian.Uint64(b[8*n:])) }
	return lockCell{madeMs: at(0), fromMs: at(1), toMs: at(2)}
}

// CleanupLock keeps the tombstones of some days, while hours without samples leave the index.
type CleanupLock struct {
	// StoleLock is set if old locks of others were removed.
	StoleLock bool

	set  *Set
	now  func() time.Time
	mark []byte
	lockCell
}

// newCleanupLock locks whole days: the rollup state of a day may go as a whole, with all its hours.
func (s *Set) newCleanupLock(fromMs, toMs int64, now func() time.Time) *CleanupLock {
	c := &CleanupLock{set: s, now: now, mark: make([]byte, markedBytes)}
	c.madeMs = now().UnixMilli()
	c.fromMs, c.toMs = storage.WholeDays(fromMs, toMs)
	_, _ = rand.Read(c.mark) // never fails
	c.mark[0] = lockMark
	return c
}

func (c *CleanupLock) cell() storage.Entry { return setCell(c.mark, c.append(nil)) }

// LockCleanup locks the days of times whose hours are going to leave the index. It steals locks of others that overlap them and
// are older than CleanupLockTTL: their times are added. The set must be shared.
func (s *Set) LockCleanup(ctx context.Context, fromMs, toMs int64, now func() time.Time) (*CleanupLock, error) {
	c := s.newCleanupLock(fromMs, toMs, now)
	own := c.lockCell
	err := s.change(ctx, func(r *row) (entries []storage.Entry, _ error) {
		// A try before this one may have removed some, and its answer was lost: what it took over stays taken over.
		for q, m := range r.locks {
			if m.overlaps(own.fromMs, own.toMs) && m.old(now()) {
				entries = append(entries, remove([]byte(q)))
				c.fromMs, c.toMs, c.StoleLock = min(c.fromMs, m.fromMs), max(c.toMs, m.toMs), true
			}
		}
		return append(entries, c.cell()), nil
	})
	if err != nil {
		return nil, err
	}
	return c, nil
}

func (m lockCell) old(now time.Time) bool {
	return now.UnixMilli()-m.madeMs > CleanupLockTTL.Milliseconds()
}

// Span is the times of the lock, including those of stolen locks.
func (c *CleanupLock) Span() (fromMs, toMs int64) { return c.fromMs, c.toMs }

// Check fails with ErrOvertaken if others have stolen the lock. It renews a lock of half its age.
func (c *CleanupLock) Check(ctx context.Context) error {
	r, err := c.set.load(ctx)
	if err != nil {
		return err
	}
	m, held := r.locks[string(c.mark)]
	if !held {
		return ErrOvertaken
	}
	if now := c.now().UnixMilli(); now-m.madeMs > CleanupLockTTL.Milliseconds()/2 {
		return c.set.change(ctx, func(r *row) ([]storage.Entry, error) {
			if _, held := r.locks[string(c.mark)]; !held {
				return nil, ErrOvertaken
			}
			c.madeMs = now
			return []storage.Entry{c.cell()}, nil
		})
	}
	return nil
}

// Release removes the lock, and notes that tombstones are no longer pending.
func (c *CleanupLock) Release(ctx context.Context, ids ...uint64) error {
	tried := false
	return c.set.change(ctx, func(r *row) ([]storage.Entry, error) {
		if _, held := r.locks[string(c.mark)]; !held {
			if tried {
				return nil, errNothing // it may be the answer that was lost; if not, others see to the rest
			}
			return nil, ErrOvertaken
		}
		tried = true
		entries := []storage.Entry{remove(c.mark)}
		for _, t := range r.list {
			if t.Pending && slices.Contains(ids, t.ID) {
				settled := *t
				settled.Pending = false
				entries = append(entries, setCell(binary.BigEndian.AppendUint64(nil, t.ID), Append(nil, &settled)))
			}
		}
		return entries, nil
	})
}

// ExpiredLock bounds the locks that are older than CleanupLockTTL; not ok if there are none.
func (v *View) ExpiredLock(now time.Time) (fromMs, toMs int64, ok bool) {
	for _, m := range v.locks {
		if m.old(now) {
			if !ok {
				fromMs, toMs, ok = m.fromMs, m.toMs, true
			}
			fromMs, toMs = min(fromMs, m.fromMs), max(toMs, m.toMs)
		}
	}
	return fromMs, toMs, ok
}

// IsLocked reports whether hours with times from fromMs to toMs may be leaving the index.
func (v *View) IsLocked(fromMs, toMs int64) bool {
	return anyOverlaps(slices.Values(v.locks), fromMs, toMs)
}

func anyOverlaps(marks iter.Seq[lockCell], fromMs, toMs int64) bool {
	for m := range marks {
		if m.overlaps(fromMs, toMs) {
			return true
		}
	}
	return false
}

// dropShared is Drop of a shared set. Tombstones of locked times stay.
func (s *Set) dropShared(ctx context.Context, ids []uint64) (dropped int, err error) {
	err = s.change(ctx, func(r *row) (entries []storage.Entry, err error) {
		dropped = len(ids) // those that are gone already, perhaps by a try whose answer was lost, among them
		for _, t := range r.list {
			if !slices.Contains(ids, t.ID) {
				continue
			}
			if anyOverlaps(maps.Values(r.locks), t.FromMs, t.ToMs) {
				dropped--
				continue
			}
			entries = append(entries, remove(binary.BigEndian.AppendUint64(nil, t.ID)))
		}
		if len(entries) == 0 {
			err = errNothing
		}
		return entries, err
	})
	return dropped, err
}
