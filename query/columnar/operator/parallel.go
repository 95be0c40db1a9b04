package operator

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/prometheus/prometheus/util/annotations"

	"halite/query/read"
)

// batchPool reads and evaluates the batches of a selection with several workers. One goroutine emits their rows in order.
type batchPool struct {
	*Eval
	sel     *read.Selection
	windows read.Windows
	results []chan *batchResult // one for each batch
	held    []*batchResult
	free    chan *batchResult // free elements of held; their number bounds the batches in memory
	next    atomic.Int64      // batch
}

// batchResult is a batch that a worker has read.
type batchResult struct {
	batch *read.Batch
	rows  []float64 // rows of the columns, concatenated, if the worker evaluated them
	// largest is the number of samples in the largest window of each column, or -1 for a column without
	// samples.
	largest   []int
	evaluated bool
	bytes     int64 // charged
	annos     annotations.Annotations
	err       error
}

// resultValuesMax is the largest number of values for which workers evaluate a batch. They read larger batches without
// evaluating them.
const resultValuesMax = 1 << 17

// newBatchPool returns nil if one worker is enough.
func newBatchPool(ev *Eval, sel *read.Selection, w read.Windows) *batchPool {
	if ev.Opts.Concurrency < 2 || sel.Batches() < 2 {
		return nil
	}
	p := &batchPool{Eval: ev, sel: sel, windows: w, results: make([]chan *batchResult, sel.Batches())}
	for i := range p.results {
		p.results[i] = make(chan *batchResult, 1)
	}
	p.free = make(chan *batchResult, ev.Opts.Concurrency+1)
	p.held = make([]*batchResult, cap(p.free))
	for i := range p.held {
		p.held[i] = &batchResult{rows: ev.Opts.Memory.Get()}
		p.free <- p.held[i]
	}
	return p
}

// Run evaluates all batches.
func (p *batchPool) Run(e evaluator) (err error) {
	ctx, cancel := context.WithCancel(p.Context)
	var (
		workers sync.WaitGroup
		evals   []*Eval
	)
	for range min(p.Opts.Concurrency, len(p.results)) {
		own := NewEval(&State{Context: ctx, Session: p.Session, Budget: p.Budget, Opts: p.Opts}, p.Grid)
		evals = append(evals, own)
		fork := e.fork()
		workers.Go(func() { p.work(own, fork) })
	}
	defer func() {
		cancel()
		workers.Wait()
		for _, own := range evals {
			p.AddCounts(&own.SampleCounts)
		}
		for _, c := range p.results {
			if len(c) > 0 {
				p.release(<-c)
			}
		}
		for _, s := range p.held {
			p.Opts.Memory.Put(s.rows)
		}
	}()
	row := make([]float64, p.windows.Steps)
	for i := range p.results {
		if err := p.emit(i, e, row); err != nil {
			return err
		}
	}
	return nil
}

// work reads and evaluates batches until none is left.
func (p *batchPool) work(own *Eval, e evaluator) {
	for {
		var s *batchResult
		select {
		case s = <-p.free:
		case <-own.Context.Done():
			return
		}
		i := int(p.next.Add(1)) - 1
		if i >= len(p.results) {
			return
		}
		if p.sel.Streamed(i) {
			p.free <- s
			continue
		}
		s.err = p.read(own, e, i, s)
		p.results[i] <- s
	}
}

// read reads a batch and evaluates its rows.
func (p *batchPool) read(own *Eval, e evaluator, i int, s *batchResult) (err error) {
	defer Catch(&err)
	if s.batch, err = p.sel.Read(own.Context, i); err != nil {
		return err
	}
	steps := p.windows.Steps
	values := len(s.batch.Columns) * steps
	if values > resultValuesMax {
		return nil
	}
	if err := p.Budget.Reserve(int64(values) * 8); err != nil {
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
	s.annos, own.Annotations = own.Annotations, nil
	s.evaluated = true
	return nil
}

// emit waits for a batch and emits its rows.
func (p *batchPool) emit(i int, e evaluator, row []float64) error {
	if p.sel.Streamed(i) {
		return p.stream(p.sel, i, p.windows, e, row)
	}
	var s *batchResult
	batch, err := timed(p.Eval, func() (*read.Batch, error) {
		select {
		case s = <-p.results[i]:
			return s.batch, s.err
		case <-p.Context.Done():
			return nil, p.Context.Err()
		}
	})
	if s == nil {
		return err
	}
	defer func() {
		p.release(s)
		p.free <- s
	}()
	switch {
	case err != nil:
		return err
	case !s.evaluated:
		s.batch = nil
		return p.evaluateColumns(batch, e, row)
	}
	for _, a := range s.annos {
		p.Annotations.Add(a)
	}
	steps := p.windows.Steps
	for j, largest := range s.largest {
		if err := p.tick(); err != nil {
			return err
		}
		if largest < 0 {
			continue
		}
		if err := e.done(p.Eval, seriesOf(&batch.Columns[j]), s.rows[j*steps:(j+1)*steps], largest); err != nil {
			return err
		}
	}
	return nil
}

// release releases the batch and the memory of a result.
func (p *batchPool) release(s *batchResult) {
	if s.batch != nil {
		s.batch.Release()
	}
	p.Budget.Release(s.bytes)
	s.batch, s.bytes, s.annos, s.evaluated = nil, 0, nil, false
}
