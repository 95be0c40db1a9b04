package bigtable

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	gcp "cloud.google.com/go/bigtable"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"halite/storage"
)

const (
	// readBatchRows and readBatchBytes bound a batch of rows for the reader.
	readBatchRows  = 64
	readBatchBytes = 256 << 10
	// readBatchesAhead is the number of batches that a request may be ahead of its reader.
	readBatchesAhead = 2
	// readResumesMax bounds the attempts to resume a read that makes no progress after the client gave up.
	readResumesMax = 3
)

// errStalled ends a stream on which no message arrives.
var errStalled = fmt.Errorf("%w: no message within the read's stall timeout: repeat later", storage.ErrUnavailable)

// ReadRows implements storage.Table.
func (t *table) ReadRows(ctx context.Context, set storage.RowSet, opts storage.ReadOptions) storage.RowIter {
	if err := opts.Validate(); err != nil {
		return &iterator{err: err}
	}
	if t.s.closed.Load() {
		return &iterator{err: errClosed}
	}
	plan := planScan(t.schema.Load(), opts.Filter, t.s.opts.Now(), filterPushBytesMax)
	if plan.empty {
		set = storage.RowSet{}
	}
	return t.scan(ctx, set, plan, opts)
}

// scan starts a read. The caller closes the iterator.
func (t *table) scan(ctx context.Context, set storage.RowSet, plan scanPlan, opts storage.ReadOptions) *iterator {
	it := &iterator{parent: ctx, rowsMax: opts.RowsMax}
	it.ctx, it.cancel = context.WithCancel(ctx)
	limited := opts.RowsMax > 0
	for _, spans := range batchesOf(spansOf(set), t.s.opts.RequestRowSetBytesMax, opts.Reverse) {
		r := &request{t: t, plan: &plan, spans: spans, reverse: opts.Reverse, out: make(chan []storage.Row, readBatchesAhead)}
		if limited && plan.exact {
			r.rowsMax = opts.RowsMax
		}
		it.requests = append(it.requests, r)
	}
	it.ahead = t.s.opts.ReadsInFlightMax
	if limited {
		it.ahead = 1
	}
	it.startMore()
	return it
}

// iterator returns the rows of its requests in order. It starts the next requests ahead.
type iterator struct {
	parent   context.Context
	ctx      context.Context
	cancel   context.CancelFunc
	running  sync.WaitGroup
	requests []*request
	started  int
	current  int
	ahead    int
	rowsMax  int

	rows []storage.Row // of the current batch
	at   int
	seen int
	row  storage.Row
	err  error
}

func (it *iterator) startMore() {
	for it.started < len(it.requests) && it.started < it.current+it.ahead {
		r := it.requests[it.started]
		it.started++
		it.running.Go(func() { r.run(it.ctx) })
	}
}

// Next implements storage.RowIter.
func (it *iterator) Next() bool {
	it.row = storage.Row{}
	if it.err != nil || it.parent == nil {
		return false
	}
	if err := it.parent.Err(); err != nil {
		it.err = err
		return false
	}
	if it.rowsMax > 0 && it.seen == it.rowsMax {
		return false
	}
	for it.at == len(it.rows) {
		if it.current == len(it.requests) {
			return false
		}
		r := it.requests[it.current]
		rows, ok := <-r.out
		if ok {
			it.rows, it.at = rows, 0
			continue
		}
		// err was set before the channel was closed.
		if r.err != nil {
			it.err = mapError(it.parent, "read rows of "+r.t.name, r.err)
			return false
		}
		it.requests[it.current] = nil
		it.current++
		it.startMore()
	}
	it.row = it.rows[it.at]
	it.rows[it.at] = storage.Row{}
	it.at++
	it.seen++
	return true
}

// Row implements storage.RowIter.
func (it *iterator) Row() storage.Row { return it.row }

// Err implements storage.RowIter.
func (it *iterator) Err() error { return it.err }

// Close implements storage.RowIter.
func (it *iterator) Close() error {
	if it.cancel != nil {
		it.cancel()
		it.running.Wait()
	}
	it.row, it.rows, it.at = storage.Row{}, nil, 0
	it.parent = nil
	return nil
}

// request is one ReadRows of the service, with the state to resume it.
type request struct {
	t       *table
	plan    *scanPlan
	spans   []span
	reverse bool
	rowsMax int // 0 means no limit
	out     chan []storage.Row
	err     error // set before out is closed

	batch      []storage.Row
	batchBytes int
	got        int
	progressed bool
}

// run reads until the end, a failure, or the end of ctx. Then it closes out.
func (r *request) run(ctx context.Context) {
	defer close(r.out)
	for attempt := 0; len(r.spans) > 0; attempt++ {
		if attempt > 0 {
			r.t.s.metrics.readsResumed.Inc()
		}
		r.progressed = false
		last, err := r.stream(ctx)
		if err == nil {
			break
		}
		if r.progressed {
			attempt = 0
			r.spans = restOf(r.spans, last, r.reverse)
		}
		if r.rowsMax > 0 && r.got >= r.rowsMax {
			break
		}
		if attempt == readResumesMax || !resumable(err) || ctx.Err() != nil {
			r.err = err
			return
		}
	}
	r.hand(ctx)
	if r.err == nil {
		r.err = ctx.Err()
	}
}

// resumable reports whether a stream may be resumed after the client gave up.
func resumable(err error) bool {
	if errors.Is(err, errStalled) {
		return true
	}
	switch status.Code(err) {
	case codes.Unavailable, codes.Aborted, codes.Internal, codes.Unknown, codes.Canceled, codes.DeadlineExceeded:
		return true
	}
	return false
}

// stream reads the spans with one call of the client. last is the last row that arrived.
func (r *request) stream(ctx context.Context) (last string, err error) {
	call, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stall := newStallTimer(r.t.s.opts.ReadStallTimeout, func() { cancel(errStalled) })
	defer stall.stop()
	var opts []gcp.ReadOption
	if r.plan.filter != nil {
		opts = append(opts, gcp.RowFilter(r.plan.filter))
	}
	if r.reverse {
		opts = append(opts, gcp.ReverseScan())
	}
	if r.rowsMax > 0 {
		opts = append(opts, gcp.LimitRows(int64(r.rowsMax-r.got)))
	}
	r.t.s.metrics.readRanges.Observe(float64(len(r.spans)))
	err = r.t.rows.ReadRows(withWatcher(call, stall), rowSetOf(r.spans), func(row gcp.Row) bool {
		last = row.Key()
		r.progressed = true
		r.append(row)
		if len(r.batch) < readBatchRows && r.batchBytes < readBatchBytes {
			return true
		}
		stall.pause()
		defer stall.received(nil)
		return r.hand(ctx)
	}, opts...)
	if cause := context.Cause(call); err != nil && errors.Is(cause, errStalled) {
		err = cause
	}
	if err == nil && ctx.Err() != nil {
		err = ctx.Err() // the client returns no error if a callback stops it
	}
	return last, err
}

// append adds a row to the batch if any of its cells passes.
func (r *request) append(row gcp.Row) {
	r.got++
	decoded := r.plan.decodeRow(row)
	if len(decoded.Cells) == 0 {
		return
	}
	r.batch = append(r.batch, decoded)
	r.batchBytes += rowBytes(decoded)
}

// hand sends the batch to the reader. It returns false if the reader has stopped.
func (r *request) hand(ctx context.Context) bool {
	if len(r.batch) == 0 {
		return true
	}
	r.t.s.metrics.rowsRead.Add(float64(len(r.batch)))
	r.t.load.read(r.batch)
	select {
	case r.out <- r.batch:
		r.batch, r.batchBytes = nil, 0
		return true
	case <-ctx.Done():
		return false
	}
}

// stallTimer calls a function when no message has arrived for some time. Only the reading goroutine calls its methods.
type stallTimer struct {
	after time.Duration
	timer *time.Timer
}

func newStallTimer(after time.Duration, expired func()) *stallTimer {
	return &stallTimer{after: after, timer: time.AfterFunc(after, expired)}
}

func (s *stallTimer) began()       {}
func (s *stallTimer) received(any) { s.timer.Reset(s.after) }
func (s *stallTimer) pause()       { s.timer.Stop() }
func (s *stallTimer) stop()        { s.timer.Stop() }
