package promql

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	promstorage "github.com/prometheus/prometheus/storage"

	"github.com/prometheus/prometheus/model/labels"
)

// errClosed is the error of reads after the querier was closed.
var errClosed = errors.New("querier is closed")

// loader reads the batches of a selection when their series are first wanted, and keeps the latest. Series are wanted
// one after the other by all who iterate over sets, so that a query holds about one batch a selector.
type loader struct {
	ctx  context.Context
	open func() (*Selection, error)
	// keeps says that the engine copies all samples into its result, as for a range selector at the root of a query.
	keeps bool

	mu        sync.Mutex
	selection *Selection
	batch     *Batch
	number    int // of batch
	err       error

	closed atomic.Bool
}

func (r *reader) newLoader(
	ctx context.Context, hints *promstorage.SelectHints, matchers []*labels.Matcher,
) *loader {
	return &loader{
		ctx: ctx, open: func() (*Selection, error) { return r.selection(ctx, hints, matchers) },
		keeps: hints != nil && hints.Range > 0 && hints.Func == "",
	}
}

// selected asks the catalogue, once.
func (l *loader) selected() (*Selection, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.selection == nil && l.err == nil {
		l.selection, l.err = l.open()
	}
	return l.selection, l.err
}

// column is a series as it is read: the first piece of it, in a batch that was retained for the caller, and what gives
// the others, if there are any. After an error there is neither.
type column struct {
	batch  *Batch
	stream *Stream
	tsMs   []int64
	values []float64
	err    error
	loader *loader
}

// release lets go of the column.
func (c *column) release() {
	if c.batch != nil {
		c.batch.Release()
	}
	if c.stream != nil {
		c.stream.Close()
	}
	*c = column{}
}

// next replaces the piece by the next one that has samples; it returns false when there is none, or on an error.
func (c *column) next() bool {
	for c.stream != nil && c.err == nil && c.stream.More() {
		if c.batch != nil {
			c.batch.Release()
			c.batch, c.tsMs, c.values = nil, nil, nil
		}
		if c.loader.closed.Load() {
			c.err = errClosed
			break
		}
		if c.batch, c.err = c.stream.Next(c.loader.ctx); c.err != nil {
			break
		}
		if only := c.batch.Columns[0]; len(only.TsMs) > 0 {
			c.tsMs, c.values = only.TsMs, only.Values
			c.loader.keep(c)
			return c.err == nil
		}
	}
	return false
}

// column begins to read series i of the selection. After an error every later call fails too.
func (l *loader) column(i int) column {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return column{err: l.err}
	}
	number := l.selection.BatchOf(i)
	if l.selection.cuts[number].streamed {
		l.drop()
		return l.stream(number)
	}
	batch, only, err := l.batchColumn(i, number)
	if err != nil {
		return column{err: err}
	}
	c := column{batch: batch, tsMs: only.TsMs, values: only.Values}
	l.keep(&c)
	return c
}

// keep counts the engine's copy of the samples of a column, until the query settles its budget.
func (l *loader) keep(c *column) {
	if !l.keeps {
		return
	}
	if err := l.selection.reader.budget.Take(int64(len(c.tsMs)) * sampleBytes); err != nil {
		c.tsMs, c.values, c.err = nil, nil, err
	}
}

// stream begins to read a batch of one series in pieces.
func (l *loader) stream(number int) column {
	st, err := l.selection.Open(l.ctx, number)
	if err != nil {
		l.err = err
		return column{err: err}
	}
	c := column{stream: st, loader: l}
	c.next()
	return c
}

// batchColumn returns series i and its batch, retained for the caller.
func (l *loader) batchColumn(i, number int) (*Batch, *Column, error) {
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

// close gives back what is held; iterators that are still about keep their batch.
func (l *loader) close() {
	l.closed.Store(true)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.drop()
	if l.selection != nil {
		l.selection.Close()
	}
	if l.err == nil {
		l.err = errClosed
	}
}

// loaders are those of one querier.
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
