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

// Hours without samples leave the catalogue of several processes while these write. Who takes some out says so in the row of
// tombstones before it looks whether there are samples, and takes that back when it is done. Each change of the row raises
// its version. So who has written samples and finds the version that it knew before, and nobody who settles those times, may
// be sure that the catalogue still has what it had then; else it tells the catalogue once more.
//
// A mark that is old belongs to somebody who is dead, or has been asleep. Whoever removes it must see to it that nothing comes
// of what its owner may have begun (Settling.Overtook), and the owner asks before each step whether it is still there (Held).

const (
	settleMark   = 's' // and 8 random bytes; the value is when, and the first and last millisecond, 8 bytes each
	settlingSize = 24
	// SettlingMax is how old the mark of somebody who settles may be; it is renewed before.
	SettlingMax = 5 * time.Minute
)

// settling is what a mark says.
type settling struct{ madeMs, fromMs, toMs int64 }

func (m settling) overlaps(fromMs, toMs int64) bool { return m.fromMs <= toMs && m.toMs >= fromMs }

func (m settling) append(dst []byte) []byte {
	for _, ms := range []int64{m.madeMs, m.fromMs, m.toMs} {
		dst = binary.BigEndian.AppendUint64(dst, uint64(ms))
	}
	return dst
}

// parseSettling reads what append wrote of settlingSize bytes.
func parseSettling(b []byte) settling {
	at := func(n int) int64 { return int64(binary.BigEndian.Uint64(b[8*n:])) }
	return settling{madeMs: at(0), fromMs: at(1), toMs: at(2)}
}

// Settling is a mark that hours of some time leave the catalogue.
type Settling struct {
	// Overtook is set if marks of others were removed because they were old.
	Overtook bool

	set  *Set
	now  func() time.Time
	mark []byte
	settling
}

// newSettling marks whole days: a state of a day may go as a whole, with all its hours.
func (s *Set) newSettling(fromMs, toMs int64, now func() time.Time) *Settling {
	c := &Settling{set: s, now: now, mark: make([]byte, markedBytes)}
	c.madeMs = now().UnixMilli()
	c.fromMs, c.toMs = storage.WholeDays(fromMs, toMs)
	_, _ = rand.Read(c.mark) // never fails
	c.mark[0] = settleMark
	return c
}

func (c *Settling) cell() storage.Entry { return setCell(c.mark, c.append(nil)) }

// StartSettling marks the days of times whose hours are going to leave the catalogue. Marks of others that overlap them and
// are older than SettlingMax are taken over: their times are added, and they are gone. Set must be shared.
func (s *Set) StartSettling(ctx context.Context, fromMs, toMs int64, now func() time.Time) (*Settling, error) {
	c := s.newSettling(fromMs, toMs, now)
	own := c.settling
	err := s.change(ctx, func(r *row) (entries []storage.Entry, _ error) {
		// A try before this one may have removed some, and its answer was lost: what it took over stays taken over.
		for q, m := range r.settling {
			if m.overlaps(own.fromMs, own.toMs) && m.old(now()) {
				entries = append(entries, remove([]byte(q)))
				c.fromMs, c.toMs, c.Overtook = min(c.fromMs, m.fromMs), max(c.toMs, m.toMs), true
			}
		}
		return append(entries, c.cell()), nil
	})
	if err != nil {
		return nil, err
	}
	return c, nil
}

func (m settling) old(now time.Time) bool {
	return now.UnixMilli()-m.madeMs > SettlingMax.Milliseconds()
}

// Span is the times that the mark speaks of, those that were taken over included.
func (c *Settling) Span() (fromMs, toMs int64) { return c.fromMs, c.toMs }

// Held fails with ErrOvertaken if others have removed the mark. It renews a mark of half its age.
func (c *Settling) Held(ctx context.Context) error {
	r, err := c.set.load(ctx)
	if err != nil {
		return err
	}
	m, held := r.settling[string(c.mark)]
	if !held {
		return ErrOvertaken
	}
	if now := c.now().UnixMilli(); now-m.madeMs > SettlingMax.Milliseconds()/2 {
		return c.set.change(ctx, func(r *row) ([]storage.Entry, error) {
			if _, held := r.settling[string(c.mark)]; !held {
				return nil, ErrOvertaken
			}
			c.madeMs = now
			return []storage.Entry{c.cell()}, nil
		})
	}
	return nil
}

// Done removes the mark, and notes of tombstones that they are settled.
func (c *Settling) Done(ctx context.Context, ids ...uint64) error {
	tried := false
	return c.set.change(ctx, func(r *row) ([]storage.Entry, error) {
		if _, held := r.settling[string(c.mark)]; !held {
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

// OldSettling is the hull of the marks that are older than SettlingMax; not ok if there are none.
func (v *View) OldSettling(now time.Time) (fromMs, toMs int64, ok bool) {
	for _, m := range v.settling {
		if m.old(now) {
			if !ok {
				fromMs, toMs, ok = m.fromMs, m.toMs, true
			}
			fromMs, toMs = min(fromMs, m.fromMs), max(toMs, m.toMs)
		}
	}
	return fromMs, toMs, ok
}

// Settling reports whether hours that have times from fromMs to toMs may be leaving the catalogue.
func (v *View) Settling(fromMs, toMs int64) bool {
	return anyOverlaps(slices.Values(v.settling), fromMs, toMs)
}

func anyOverlaps(marks iter.Seq[settling], fromMs, toMs int64) bool {
	for m := range marks {
		if m.overlaps(fromMs, toMs) {
			return true
		}
	}
	return false
}

// dropShared is Drop of a shared set. Tombstones stay whose hours somebody is about to take out of the catalogue.
func (s *Set) dropShared(ctx context.Context, ids []uint64) (dropped int, err error) {
	err = s.change(ctx, func(r *row) (entries []storage.Entry, err error) {
		dropped = len(ids) // those that are gone already, perhaps by a try whose answer was lost, among them
		for _, t := range r.list {
			if !slices.Contains(ids, t.ID) {
				continue
			}
			if anyOverlaps(maps.Values(r.settling), t.FromMs, t.ToMs) {
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
