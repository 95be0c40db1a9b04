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
	// triesMax bounds the reads of a row. The first read may find marks, or samples newer than the pass.
	triesMax = 3
	// rowChunksMax is the largest number of chunks of a row.
	rowChunksMax = keyschema.HourMs/chunkSamplesMax + 1
)

// work packs some rows of one hour.
type work struct {
	p    *Compactor
	hour int64
	// If all is set, rows without single samples are rewritten too if deletions affect them.
	all bool

	above atomic.Uint32 // lower bound of the next chunk number

	leaving sync.Mutex
	left    [][]byte // keys of rows for the next run
	// done counts the written rows, and gone those that had no samples left. freed is the number of bytes saved.
	done, gone, freed atomic.Int64
}

// pass reads rows once and writes them. It uses a snapshot of the deletions.
type pass struct {
	*work
	seq    uint32          // number of the new chunks
	view   *tombstone.View // nil if deletions are not supported
	filter *tombstone.Filter
	// old is the view of the deletions that all queries know, and byOld is its filter. Both are nil if no recent deletion
	// affects the hour.
	old   *tombstone.View
	byOld *tombstone.Filter
}

// do packs rows. It adds the keys of rows that it cannot pack to left.
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

// leave adds a row to left.
func (w *work) leave(r *row) {
	w.leaving.Lock()
	defer w.leaving.Unlock()
	w.left = append(w.left, r.key)
}

// pass reads rows and packs the rows without marks. It removes the marks of the others and returns the keys to read again.
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

// begin takes a number and then the view of deletions. In this order the number is above all known deletions and below all
// others. ready is false while a deletion is being published.
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

// knows reports whether the row has nothing newer than the number and the deletions of the pass.
func (s *pass) knows(r *row) bool {
	if r.chunks && r.lastSeq >= s.seq {
		s.above.Store(max(s.above.Load(), r.lastSeq))
		return false
	}
	return s.view == nil || r.after <= s.view.Floor()
}

// giveUp removes unfinished deletions of dead servers, because packing waits for unfinished deletions.
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

// Delay returns Options.Delay.
func (p *Compactor) Delay() time.Duration { return p.opts.Delay }

// Cleaned is the result of Clean.
type Cleaned struct {
	// Rows counts the rewritten rows, and Removed those that had no samples left.
	Rows, Removed int64
	// Left has the keys of rows to clean later. A process was writing to them, or a deletion younger than Options.Delay has
	// removed samples from them.
	Left [][]byte
	// Bytes is the reduction in size of all values.
	Bytes int64
}

// Clean removes deleted samples from rows of one hour. keys are sorted. Clean may run concurrently with Run and in several
// processes.
func (p *Compactor) Clean(ctx context.Context, hour int64, keys [][]byte) (Cleaned, error) {
	w := work{p: p, hour: hour, all: true}
	err := w.do(ctx, keys)
	if err != nil {
		err = fmt.Errorf("clean %d rows of hour %d: %w", len(keys), hour, err)
	}
	return Cleaned{Rows: w.done.Load(), Removed: w.gone.Load(), Left: w.left, Bytes: w.freed.Load()}, err
}

// read copies the parts of a row that packing needs.
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

// sameCell compares two cells of one row and family.
func sameCell(a, b storage.Cell) bool {
	return bytes.Equal(a.Qualifier, b.Qualifier) && bytes.Equal(a.Value, b.Value)
}
