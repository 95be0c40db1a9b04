package ingest

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/prometheus/model/labels"

	"halite/ingest/head"
	"halite/ingest/remotewrite"
	"halite/keyschema"
	"halite/storage"
	"halite/storage/index"
)

// intake is what every way of storing samples begins with: it reads requests, bounds what they take, finds their series,
// and keeps what senders say about metrics.
type intake struct {
	limits    Limits
	retention time.Duration
	ages      *keyschema.Lifetimes
	index     *index.Index
	meta      storage.Table
	now       func() time.Time
	logger    *slog.Logger
	metrics   *metrics
	registry  *head.Registry
	metadata  *metadataStore
	changes   *changeLog
	// seriesLimits decide which new series are taken.
	seriesLimits seriesLimits

	// epoch is read-locked from a request's first look-up to its last append, so that no series is forgotten in between.
	epoch sync.RWMutex
	// regMu serialises the registration of series.
	regMu  sync.Mutex
	series atomic.Int64

	turns    chan struct{}
	inFlight atomic.Int64

	gate    sync.Mutex // guards closed and the start of callers
	closed  bool
	callers sync.WaitGroup
	jobs    sync.WaitGroup
}

// intakeOptions are those of the Options of Ingester and Through that an intake needs; none but registerer may be nil.
type intakeOptions struct {
	limits     Limits
	retention  time.Duration
	ages       *keyschema.Lifetimes
	index      *index.Index
	schema     *keyschema.Schema
	now        func() time.Time
	logger     *slog.Logger
	registerer prometheus.Registerer
}

func (i *intake) init(o intakeOptions) {
	i.limits = o.limits.withDefaults(runtime.GOMAXPROCS(0))
	i.retention, i.ages, i.index = o.retention, o.ages, o.index
	i.now, i.logger, i.metrics = o.now, o.logger, newMetrics(o.registerer)
	i.registry, i.metadata, i.changes = head.NewRegistry(), newMetadataStore(), newChangeLog()
	i.turns = make(chan struct{}, i.limits.ConcurrencyMax)
	i.seriesLimits = newSeriesLimits(i, o.schema)
}

// sink is where an intake's requests go: Ingester's is its log and head, Through's are the tables.
type sink interface {
	// admit takes what a request of that many decoded bytes needs to be worked on; release gives it back.
	admit(ctx context.Context, sizeBytes int) (release func(), err error)
	// enlist takes up an active series that the registry does not know yet and returns a number by which the request
	// knows that it is new, 0 if it is not. The caller holds regMu.
	enlist(r *request, ref uint32, ls labels.Labels) (log uint32)
	// delist takes that back. The caller holds regMu.
	delist(ref uint32)
	// appendLog keeps a record, durably from await on.
	appendLog(r *request, kind byte, payload []byte) error
	// store takes the request's samples; they are durable after await.
	store(r *request) error
	await(ctx context.Context, r *request) error
}

// writeBody stores a snappy-compressed body.
func (i *intake) writeBody(ctx context.Context, to sink, body []byte) (Result, error) {
	return i.store(ctx, to, func() (int, error) { return i.measure(body) }, func(r *request) error {
		buf, err := remotewrite.Snappy(body, i.limits.DecodedBytesMax)
		if err != nil {
			return &BadRequestError{err}
		}
		defer buf.Release()
		return r.run(func() error { return r.read(buf.Bytes()) })
	})
}

// writeSamples stores samples by the same path and rules.
func (i *intake) writeSamples(ctx context.Context, to sink, samples []Sample) (Result, error) {
	size := func() (int, error) {
		if len(samples) > i.limits.RequestSamplesMax {
			return 0, tooManySamples(i.limits.RequestSamplesMax)
		}
		return 0, nil
	}
	return i.store(ctx, to, size, func(r *request) error {
		return r.run(func() error { r.readSamples(samples); return nil })
	})
}

// store admits a request of a size in decoded bytes, unless that is an error, and reads it.
func (i *intake) store(
	ctx context.Context, to sink, size func() (int, error), read func(*request) error,
) (Result, error) {
	if err := i.begin(); err != nil {
		return Result{}, err
	}
	defer i.callers.Done()
	i.metrics.requests.Inc()
	sizeBytes, err := size()
	if err != nil {
		i.metrics.badRequests.Inc()
		return Result{}, err
	}
	release, err := to.admit(ctx, sizeBytes)
	if err != nil {
		return Result{}, err
	}
	r := i.newRequest(to)
	defer r.release()
	err = func() error {
		defer release()
		return read(r)
	}()
	return r.finish(ctx, err)
}

// overload refuses a write. The delay is spread over 1–10 s, so that senders do not come back together.
func (i *intake) overload(resource, reason string) error {
	i.metrics.overloads.WithLabelValues(resource).Inc()
	delay := time.Second + rand.N(9*time.Second)
	return &OverloadError{Reason: reason, RetryAfter: delay.Round(time.Second)}
}

// end refuses new callers from now on.
func (i *intake) end() error {
	i.gate.Lock()
	defer i.gate.Unlock()
	if i.closed {
		return ErrClosed
	}
	i.closed = true
	return nil
}

// begin counts a caller in, so that Close can wait for it.
func (i *intake) begin() error {
	i.gate.Lock()
	defer i.gate.Unlock()
	if i.closed {
		return ErrClosed
	}
	i.callers.Add(1)
	return nil
}

// enter takes a request's decoded bytes and a turn. release gives both back.
func (i *intake) enter(ctx context.Context, sizeBytes int) (release func(), err error) {
	if i.inFlight.Add(int64(sizeBytes)) > i.limits.InFlightBytesMax {
		i.inFlight.Add(int64(-sizeBytes))
		return nil, i.overload(resourceBytes, "too many bytes of requests in flight")
	}
	if err := i.turn(ctx); err != nil {
		i.inFlight.Add(int64(-sizeBytes))
		return nil, err
	}
	return func() {
		<-i.turns
		i.inFlight.Add(int64(-sizeBytes))
	}, nil
}

func (i *intake) turn(ctx context.Context) error {
	select {
	case i.turns <- struct{}{}:
		return nil
	default:
	}
	timer := time.NewTimer(i.limits.QueueWaitMax)
	defer timer.Stop()
	select {
	case i.turns <- struct{}{}:
		return nil
	case <-timer.C:
		return i.overload(resourceTurns, "too many requests at once")
	case <-ctx.Done():
		return ctx.Err()
	}
}

// every runs job at each tick and wake-up until ctx ends.
func (i *intake) every(ctx context.Context, interval time.Duration, wake <-chan struct{}, job func()) {
	i.jobs.Add(1)
	go func() {
		defer i.jobs.Done()
		ticker := time.NewTicker(interval)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			case <-wake:
			}
			if ctx.Err() != nil {
				return
			}
			job()
		}
	}()
}

// drain waits for the writes under way.
func (i *intake) drain(ctx context.Context) error {
	drained := make(chan struct{})
	go func() {
		i.callers.Wait()
		close(drained)
	}()
	select {
	case <-drained:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for writes under way: %w", ctx.Err())
	}
}
