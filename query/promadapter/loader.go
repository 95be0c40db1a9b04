package promadapter

import (
	"context"
	"sync"
	"sync/atomic"

	"halite/keyschema/histchunk"
	"halite/query/budget"
	"halite/query/column"
	"halite/query/read"
)

// loader reads the batches of a selection when their series are first needed, and keeps the latest batch. All users iterate over
// sets series by series, so a query holds about one batch per selector.
type loader struct {
	ctx  context.Context
	open func() (*read.Selection, error)
	// copies says that the engine copies all samples into its result, as it does for a range selector at the root of a query.
	copies   bool
	budget   *budget.Budget
	warnings []error // about retired histograms

	mu        sync.Mutex
	selection *read.Selection
	batch     *read.Batch
	number    int // of the batch
	err       error

	closed atomic.Bool
}

// selected selects the series at the first call.
func (l *loader) selected() (*read.Selection, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.selection == nil && l.err == nil {
		l.selection, l.err = l.open()
	}
	return l.selection, l.err
}

// seriesSamples is a series during a read. It has its first slice, in a batch that is retained for the caller, and the
// stream of the other slices, if any. After an error it is empty.
type seriesSamples struct {
	batch  *read.Batch
	stream *read.Stream
	tsMs   []int64
	values []float64
	// records are the histograms and start timestamps of the slice; nil if only floats are read.
	records *column.Records
	err     error
	loader  *loader
}

// histograms returns the histograms of the slice.
func (c *seriesSamples) histograms() []histchunk.Sample {
	if c.records == nil {
		return nil
	}
	return c.records.Histograms
}

// empty reports whether the slice has no floats and no histograms.
func (c *seriesSamples) empty() bool { return len(c.tsMs) == 0 && len(c.histograms()) == 0 }

// release releases the samples.
func (c *seriesSamples) release() {
	if c.batch != nil {
		c.batch.Release()
	}
	if c.stream != nil {
		c.stream.Close()
	}
	*c = seriesSamples{}
}

// next replaces the slice by the next one with samples. It returns false if there is none, or after an error.
func (c *seriesSamples) next() bool {
	for c.stream != nil && c.err == nil && c.stream.More() {
		if c.batch != nil {
			c.batch.Release()
			c.batch, c.tsMs, c.values, c.records = nil, nil, nil, nil
		}
		if c.loader.closed.Load() {
			c.err = read.ErrClosed
			break
		}
		if c.batch, c.err = c.stream.Next(c.loader.ctx); c.err != nil {
			break
		}
		only := &c.batch.Columns[0]
		c.tsMs, c.values, c.records = only.TsMs, only.Values, only.Records
		if !c.empty() {
			c.loader.reserveCopy(c)
			return c.err == nil
		}
	}
	return false
}

// series begins to read series i of the selection. After an error every later call fails too.
func (l *loader) series(i int) seriesSamples {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return seriesSamples{err: l.err}
	}
	number := l.selection.BatchOf(i)
	if l.selection.Streamed(number) {
		l.drop()
		return l.stream(number)
	}
	batch, only, err := l.batchColumn(i, number)
	if err != nil {
		return seriesSamples{err: err}
	}
	c := seriesSamples{batch: batch, tsMs: only.TsMs, values: only.Values, records: only.Records}
	l.reserveCopy(&c)
	return c
}

// reserveCopy reserves the engine's copy of samples, until the query resets its budget.
func (l *loader) reserveCopy(c *seriesSamples) {
	if !l.copies {
		return
	}
	sizeBytes := int64(len(c.tsMs))*column.SampleBytes + column.HistogramBytes(c.histograms())
	if err := l.budget.Reserve(sizeBytes); err != nil {
		c.tsMs, c.values, c.records, c.err = nil, nil, nil, err
	}
}

// stream begins to read a batch of one series in slices.
func (l *loader) stream(number int) seriesSamples {
	st, err := l.selection.Open(l.ctx, number)
	if err != nil {
		l.err = err
		return seriesSamples{err: err}
	}
	c := seriesSamples{stream: st, loader: l}
	c.next()
	return c
}

// batchColumn returns series i and its batch, retained for the caller.
func (l *loader) batchColumn(i, number int) (*read.Batch, *column.Column, error) {
	if l.batch == nil || l.number != number {
		l.drop()
		batch, err := l.selection.Read(l.ctx, number)
		if err != nil {
			l.err = err
			return nil, nil, err
		}
		l.batch, l.number = batch, number
	}
	l.batch.Retain()
	return l.batch, &l.batch.Columns[i-l.batch.First], nil
}

func (l *loader) drop() {
	if l.batch != nil {
		l.batch.Release()
		l.batch = nil
	}
}

// close releases the loader's batch and selection. Iterators that are still in use keep their batch.
func (l *loader) close() {
	l.closed.Store(true)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.drop()
	if l.selection != nil {
		l.selection.Close()
	}
	if l.err == nil {
		l.err = read.ErrClosed
	}
}

// loaders are the loaders of one querier.
type loaders struct {
	mu  sync.Mutex
	all []*loader
}

func (ls *loaders) add(l *loader) *loader {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ls.all = append(ls.all, l)
	return l
}

func (ls *loaders) close() {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	for _, l := range ls.all {
		l.close()
	}
	ls.all = nil
}
