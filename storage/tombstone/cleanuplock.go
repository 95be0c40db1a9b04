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

// The cleanup lock covers days on which a process removes hours without samples from an index that other processes write. It
// is a cell in the row of tombstones. A process takes the lock before it looks for samples, and releases it at the end. Each
// change of the row raises its version. If a writer finds an unchanged version and no lock on its times, the index still has
// its hours. Otherwise the writer adds the hours again.
//
// The owner of an old lock is dead or suspended. A process that steals the lock must prevent the owner from removing more
// hours (CleanupLock.StoleLock). The owner checks the lock before each step (CleanupLock.Check).

const (
	lockMark = 's' // then 8 random bytes; the value is the time of the lock, its first and its last millisecond, 8 bytes each
	lockSize = 24
	// CleanupLockTTL is the age at which other processes may steal a cleanup lock. The owner renews it earlier.
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

// parseLockCell is the inverse of append. value has lockSize bytes.
func parseLockCell(b []byte) lockCell {
	at := func(n int) int64 { return int64(binary.BigEndian.Uint64(b[8*n:])) }
	return lockCell{madeMs: at(0), fromMs: at(1), toMs: at(2)}
}

// CleanupLock keeps the tombstones of its days in force while a process removes hours without samples from the index.
type CleanupLock struct {
	// StoleLock is set if the lock replaced old locks of other processes.
	StoleLock bool

	set  *Set
	now  func() time.Time
	mark []byte
	lockCell
}

// newCleanupLock covers whole days, because the rollup state of a day is deleted with all its hours.
func (s *Set) newCleanupLock(fromMs, toMs int64, now func() time.Time) *CleanupLock {
	c := &CleanupLock{set: s, now: now, mark: make([]byte, markedBytes)}
	c.madeMs = now().UnixMilli()
	c.fromMs, c.toMs = storage.WholeDays(fromMs, toMs)
	_, _ = rand.Read(c.mark) // never fails
	c.mark[0] = lockMark
	return c
}

func (c *CleanupLock) cell() storage.Entry { return setCell(c.mark, c.append(nil)) }

// LockCleanup locks the days of a time range, from which hours will leave the index. It steals overlapping locks that are
// older than CleanupLockTTL and adds their times to its own. The set must be shared.
func (s *Set) LockCleanup(ctx context.Context, fromMs, toMs int64, now func() time.Time) (*CleanupLock, error) {
	c := s.newCleanupLock(fromMs, toMs, now)
	own := c.lockCell
	err := s.change(ctx, func(r *row) (entries []storage.Entry, _ error) {
		// An earlier attempt may have stolen locks before its reply was lost. Their times stay part of this lock.
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

// Span returns the first and last millisecond of the lock, including stolen locks.
func (c *CleanupLock) Span() (fromMs, toMs int64) { return c.fromMs, c.toMs }

// Check returns ErrOvertaken if another process has stolen the lock. It renews a lock at half of its TTL.
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

// Release removes the lock and marks tombstones as no longer pending.
func (c *CleanupLock) Release(ctx context.Context, ids ...uint64) error {
	tried := false
	return c.set.change(ctx, func(r *row) ([]storage.Entry, error) {
		if _, held := r.locks[string(c.mark)]; !held {
			if tried {
				return nil, errNothing // an earlier try removed it and its reply was lost, or it was stolen
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

// ExpiredLock returns the first and last millisecond of all locks that are older than CleanupLockTTL; ok is false if
// there are none.
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

// dropShared is Drop for a shared set. Tombstones that overlap a lock stay.
func (s *Set) dropShared(ctx context.Context, ids []uint64) (dropped int, err error) {
	err = s.change(ctx, func(r *row) (entries []storage.Entry, err error) {
		dropped = len(ids) // including tombstones that an earlier try may have removed before its reply was lost
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
