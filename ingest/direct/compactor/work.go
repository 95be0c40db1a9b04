package compactor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"halite/keyschema"
	"halite/storage"
	"halite/storage/tombstone"
)

const (
	// triesMax bounds how often rows are read again: they had marks, or there was something in them that the compactor has to know
	// more of first.
	triesMax = 3
	// rowChunksMax is the most chunks that a row can need.
	rowChunksMax = keyschema.HourMs/chunkSamplesMax + 1
)

// work is the packing of some rows of an hour.
type work struct {
	p    *Compactor
	hour int64
	// all says that rows without single samples are written anew, too, if something of them was deleted.
	all bool

	above atomic.Uint32 // a number that the next one must be above

	leaving sync.Mutex
	left    [][]byte // keys of rows for the next time
	// done are rows that were written, gone those of them of which nothing is left, freed what they had less.
	done, gone, freed atomic.Int64
}

// pass is what is known while rows are read once and written.
type pass struct {
	*work
	seq    uint32          // of the chunks to be written
	view   *tombstone.View // nil if nothing can be deleted
	filter *tombstone.Filter
	// old are the deletions that all queries know, and byOld takes out what they delete; nil if all of the hour's are old.
	old   *tombstone.View
	byOld *tombstone.Filter
}

// do packs rows; those that it cannot are counted.
func (w *work) do(ctx context.Context, keys [][]byte) (err error) {
	for range triesMax {
		if len(keys) == 0 {
			break
		}
		if keys, err = w.pass(ctx, keys); err != nil {
			return err
		}
	}
	w.left = append(w.left, keys...)
	return nil
}

// leave leaves a row for the next time.
func (w *work) leave(r *row) {
	w.leaving.Lock()
	defer w.leaving.Unlock()
	w.left = append(w.left, r.key)
}

// pass reads rows and packs those without marks. It takes the marks off the others and returns the keys of those that are
// to be read again.
func (w *work) pass(ctx context.Context, keys [][]byte) (again [][]byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, w.p.opts.MarkAfter)
	defer cancel()
	s := pass{work: w}
	ready, err := s.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer s.end()
	if !ready {
		return keys, nil
	}
	it := w.p.opts.Data.ReadRows(ctx, storage.RowSet{Keys: keys}, storage.ReadOptions{Filter: filter(w.hour, nil)})
	defer func() { err = errors.Join(err, it.Close()) }()
	group, working := errgroup.WithContext(ctx)
	group.SetLimit(w.p.opts.Concurrency)
	for it.Next() && working.Err() == nil {
		r, err := s.read(ctx, it.Row())
		if err != nil {
			return nil, errors.Join(err, group.Wait())
		}
		switch {
		case r.recent:
			w.leave(r)
			continue
		case !s.knows(r):
			again = append(again, r.key)
			continue
		case len(r.unmark) > 0:
			again = append(again, r.key)
			group.Go(func() error { return s.fence(working, r) })
			continue
		case r.singles == 0 && !(w.all && r.deleted):
			continue
		case r.more:
			again = append(again, r.key)
		}
		group.Go(func() error { return s.replace(working, r) })
	}
	return again, errors.Join(group.Wait(), it.Err())
}

// begin takes a number and then what is deleted, in this order: so the number is above those of all deletions that are known
// and below those of all others. Not ready is who has to wait for a deletion that is under way.
func (s *pass) begin(ctx context.Context) (ready bool, err error) {
	for {
		if s.seq, err = s.p.opts.Sequence(ctx, rowChunksMax, s.above.Load()); err != nil || s.p.opts.Tombstones == nil {
			return err == nil, err
		}
		if err := s.p.opts.Tombstones.Refresh(ctx); err != nil {
			return false, err
		}
		s.end()
		s.view = s.p.opts.Tombstones.View()
		if s.view.Floor() < s.seq {
			break
		}
		s.above.Store(s.view.Floor())
	}
	s.filter = s.view.NewFilter()
	recentMs := s.p.opts.Now().Add(-s.p.opts.Delay).UnixMilli()
	recent := false
	for _, t := range s.view.List() {
		recent = recent || t.MadeMs > recentMs && t.FromMs <= keyschema.HourCellMs(s.hour) &&
			t.ToMs >= keyschema.HourStartMs(s.hour)
	}
	if recent {
		s.old = s.p.opts.Tombstones.SnapshotIf(func(t *tombstone.Tombstone) bool { return t.MadeMs <= recentMs })
		s.byOld = s.old.NewFilter()
	}
	return len(s.view.Announced()) == 0, nil
}

func (s *pass) end() {
	for _, view := range []**tombstone.View{&s.view, &s.old} {
		if *view != nil {
			(*view).Release()
			*view = nil
		}
	}
}

// knows reports whether nothing in the row is newer than the number and the deletions of the pass.
func (s *pass) knows(r *row) bool {
	if r.chunks && r.lastSeq >= s.seq {
		s.above.Store(max(s.above.Load(), r.lastSeq))
		return false
	}
	return s.view == nil || r.after <= s.view.Floor()
}

// giveUp removes what deletions have left whose servers died in the middle, for packing waits for them.
func (p *Compactor) giveUp(ctx context.Context) error {
	if p.opts.Tombstones == nil {
		return nil
	}
	if err := p.opts.Tombstones.Refresh(ctx); err != nil {
		return err
	}
	view := p.opts.Tombstones.View()
	defer view.Release()
	if len(view.Announced()) == 0 {
		return nil
	}
	return p.opts.Tombstones.GiveUp(ctx, p.opts.Now().Add(-p.opts.Delay).UnixMilli())
}

// Delay is that of the options.
func (p *Compactor) Delay() time.Duration { return p.opts.Delay }

// Cleaned is what Clean has done.
type Cleaned struct {
	// Rows were written anew; of Removed, which are among them, nothing was left.
	Rows, Removed int64
	// Left are the keys of rows that have to wait: somebody was writing to them, or a deletion that is not older than
	// Options.Delay has taken something from them.
	Left [][]byte
	// Bytes is by how much the values have become less.
	Bytes int64
}

// Clean takes what was deleted out of rows of one hour, whose keys come sorted. It may run beside Run and in several
// processes.
func (p *Compactor) Clean(ctx context.Context, hour int64, keys [][]byte) (Cleaned, error) {
	w := work{p: p, hour: hour, all: true}
	err := w.do(ctx, keys)
	if err != nil {
		err = fmt.Errorf("clean %d rows of hour %d: %w", len(keys), hour, err)
	}
	return Cleaned{Rows: w.done.Load(), Removed: w.gone.Load(), Left: w.left, Bytes: w.freed.Load()}, err
}

// read copies of a row what is of use.
func (s *pass) read(ctx context.Context, stored storage.Row) (*row, error) {
	left := stored
	deleted := false
	if s.filter != nil {
		var err error
		if _, deleted, err = s.filter.Row(ctx, &left); err != nil {
			return nil, err
		}
	}
	r := &row{key: bytes.Clone(stored.Key), hour: s.hour, deleted: deleted}
	if deleted && s.old != nil {
		before := stored
		if _, _, err := s.byOld.Row(ctx, &before); err != nil {
			return nil, err
		}
		r.recent = !slices.EqualFunc(before.Cells, left.Cells, sameCell)
	}
	return r, r.read(stored, left)
}

// sameCell compares cells of a row and family.
func sameCell(a, b storage.Cell) bool {
	return bytes.Equal(a.Qualifier, b.Qualifier) && bytes.Equal(a.Value, b.Value)
}
