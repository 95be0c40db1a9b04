package promql

import (
	"context"
	"errors"
	"sync"

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

	mu        sync.Mutex
	selection *Selection
	batch     *Batch
	number    int // of batch
	err       error
}

func (r *reader) newLoader(
	ctx context.Context, hints *promstorage.SelectHints, matchers []*labels.Matcher,
) *loader {
	return &loader{ctx: ctx, open: func() (*Selection, error) { return r.selection(ctx, hints, matchers) }}
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

// column returns series i of the selection and its batch, retained for the caller. After an error every later call
// fails too.
func (l *loader) column(i int) (*Batch, *Column, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return nil, nil, l.err
	}
	if number := l.selection.BatchOf(i); l.batch == nil || l.number != number {
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
