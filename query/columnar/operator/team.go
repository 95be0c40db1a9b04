package operator

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/prometheus/prometheus/util/annotations"

	"halite/query/read"
)

// team reads and evaluates the batches of a selection on several processors; their rows are handed on in order, by one.
type team struct {
	*Eval
	sel     *read.Selection
	windows read.Windows
	shares  []chan *share // that of each batch
	held    []*share
	free    chan *share  // those of held that no batch has: bounds how many batches are held
	next    atomic.Int64 // batch
}

// share is a batch that a member of the team has read.
type share struct {
	batch *read.Batch
	rows  []float64 // of the columns, one behind the other, if it was evaluated
	// largest is the number of samples of the largest window of each column, -1 if it has no samples at all.
	largest   []int
	evaluated bool
	bytes     int64 // charged
	annos     annotations.Annotations
	err       error
}

// shareValuesMax is the number of values up to which the rows of a batch are made beside those of others. Larger batches
// are only read beside them.
const shareValuesMax = 1 << 17

// newTeam returns nil if there is nothing to divide.
func newTeam(ev *Eval, sel *read.Selection, w read.Windows) *team {
	if ev.Opts.Concurrency < 2 || sel.Batches() < 2 {
		return nil
	}
	t := &team{Eval: ev, sel: sel, windows: w, shares: make([]chan *share, sel.Batches())}
	for i := range t.shares {
		t.shares[i] = make(chan *share, 1)
	}
	t.free = make(chan *share, ev.Opts.Concurrency+1)
	t.held = make([]*share, cap(t.free))
	for i := range t.held {
		t.held[i] = &share{rows: ev.Opts.Memory.Get()}
		t.free <- t.held[i]
	}
	return t
}

// Run evaluates all batches.
func (t *team) Run(e evaluator) (err error) {
	ctx, cancel := context.WithCancel(t.Ctx)
	var (
		members sync.WaitGroup
		evals   []*Eval
	)
	for range min(t.Opts.Concurrency, len(t.shares)) {
		own := NewEval(&State{Ctx: ctx, Session: t.Session, Budget: t.Budget, Opts: t.Opts}, t.Grid)
		evals = append(evals, own)
		fork := e.fork()
		members.Go(func() { t.work(own, fork) })
	}
	defer func() {
		cancel()
		members.Wait()
		for _, own := range evals {
			t.AddCounts(&own.SampleCounts)
		}
		for _, c := range t.shares {
			if len(c) > 0 {
				t.release(<-c)
			}
		}
		for _, s := range t.held {
			t.Opts.Memory.Put(s.rows)
		}
	}()
	row := make([]float64, t.windows.Steps)
	for i := range t.shares {
		if err := t.handOn(i, e, row); err != nil {
			return err
		}
	}
	return nil
}

// work is what a member does: batch after batch, until none is left.
func (t *team) work(own *Eval, e evaluator) {
	for {
		var s *share
		select {
		case s = <-t.free:
		case <-own.Ctx.Done():
			return
		}
		i := int(t.next.Add(1)) - 1
		if i >= len(t.shares) {
			return
		}
		if t.sel.Streamed(i) {
			t.free <- s
			continue
		}
		s.err = t.read(own, e, i, s)
		t.shares[i] <- s
	}
}

// read reads a batch and makes its rows.
func (t *team) read(own *Eval, e evaluator, i int, s *share) (err error) {
	defer Catch(&err)
	if s.batch, err = t.sel.Read(own.Ctx, i); err != nil {
		return err
	}
	steps := t.windows.Steps
	values := len(s.batch.Columns) * steps
	if values > shareValuesMax {
		return nil
	}
	if err := t.Budget.Reserve(int64(values) * 8); err != nil {
		return err
	}
	s.bytes = int64(values) * 8
	if cap(s.rows) < values {
		s.rows = make([]float64, values)
	}
	s.rows, s.largest = s.rows[:values], s.largest[:0]
	for j := range s.batch.Columns {
		if err := own.tick(); err != nil {
			return err
		}
		largest := -1
		if c := &s.batch.Columns[j]; c.Len() > 0 {
			largest = e.section(own, c, 0, s.rows[j*steps:(j+1)*steps])
		}
		s.largest = append(s.largest, largest)
	}
	s.annos, own.Annos = own.Annos, nil
	s.evaluated = true
	return nil
}

// handOn waits for a batch and hands its rows on.
func (t *team) handOn(i int, e evaluator, row []float64) error {
	if t.sel.Streamed(i) {
		return t.batch(t.sel, i, t.windows, e, row)
	}
	var s *share
	batch, err := t.timed(func() (*read.Batch, error) {
		select {
		case s = <-t.shares[i]:
			return s.batch, s.err
		case <-t.Ctx.Done():
			return nil, t.Ctx.Err()
		}
	})
	if s == nil {
		return err
	}
	defer func() {
		t.release(s)
		t.free <- s
	}()
	switch {
	case err != nil:
		return err
	case !s.evaluated:
		s.batch = nil
		return t.whole(batch, e, row)
	}
	for _, a := range s.annos {
		t.Annos.Add(a)
	}
	steps := t.windows.Steps
	for j, largest := range s.largest {
		if err := t.tick(); err != nil {
			return err
		}
		if largest < 0 {
			continue
		}
		if err := e.done(t.Eval, &batch.Columns[j], s.rows[j*steps:(j+1)*steps], largest); err != nil {
			return err
		}
	}
	return nil
}

// release gives back what a share holds.
func (t *team) release(s *share) {
	if s.batch != nil {
		s.batch.Release()
	}
	t.Budget.Release(s.bytes)
	s.batch, s.bytes, s.annos, s.evaluated = nil, 0, nil, false
}
