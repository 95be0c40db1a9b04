package loadtest

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"sync"
	"time"

	"halite/keyschema"
	"halite/loadtest/fleet"
)

// ErrUnreachable: the target does not answer queries; start it, or correct its URL.
var ErrUnreachable = errors.New("the target does not answer")

// runner is one load of one target.
type runner struct {
	opts     Options
	target   Target
	fleet    *fleet.Fleet
	timeline *timeline
	ledger   *ledger
	poster   *poster
	reader   *reader
	progress *progress
	report   *Report
}

// Run loads a target and reports. When ctx ends, what is under way ends early: the load, after which what was sent is
// read back until verify ends, or the reading back. The error is nil unless the load could not be run at all.
func Run(ctx, verify context.Context, target Target, opts Options) (*Report, error) {
	r, err := newRunner(target, opts)
	if err != nil {
		return nil, err
	}
	if err := r.reader.reachable(ctx); err != nil {
		return nil, fmt.Errorf("%s: %w: %w", r.target.QueryURL, ErrUnreachable, err)
	}
	if r.opts.Schema == nil {
		r.readSchema(ctx)
	}
	watch := &tabletWatch{reader: r.reader, now: r.opts.Now}
	r.measure(ctx, watch)
	reading, cancel := readingContext(ctx, verify)
	defer cancel()
	r.readBack(reading)
	r.spread(verify, watch)
	return r.report, nil
}

// readingContext is the context of reading back. It ends with ctx too, unless ctx has ended the load already: one
// signal ends what is under way.
func readingContext(ctx, verify context.Context) (context.Context, context.CancelFunc) {
	reading, cancel := context.WithCancel(verify)
	if ctx.Err() == nil {
		context.AfterFunc(ctx, cancel)
	}
	return reading, cancel
}

func newRunner(target Target, opts Options) (*runner, error) {
	if err := errors.Join(target.Validate(), opts.Validate()); err != nil {
		return nil, err
	}
	timeline, err := newTimeline(&opts)
	if err != nil {
		return nil, err
	}
	f, err := fleet.New(opts.Fleet)
	if err != nil {
		return nil, err
	}
	opts.Fleet = f.Options()
	return &runner{
		opts: opts, target: target, fleet: f, timeline: timeline, ledger: newLedger(f.Slots()),
		poster: newPoster(&target, &opts), reader: newReader(&target, &opts),
		progress: &progress{w: opts.Progress, terminal: opts.Terminal, now: opts.Now},
		report:   &Report{Target: target.Name},
	}, nil
}

// reachable asks a query that every server can answer.
func (c *reader) reachable(ctx context.Context) error {
	_, err := c.data(ctx, "/api/v1/query", url.Values{"query": {"vector(1)"}})
	return err
}

func (r *runner) note(format string, args ...any) {
	r.report.Notes = append(r.report.Notes, fmt.Sprintf(format, args...))
}

// readSchema asks the server for its rules. One that does not tell them is taken to have the default ones.
func (r *runner) readSchema(ctx context.Context) {
	schema, err := readRules(ctx, r.reader)
	if err != nil {
		r.note("salts are those of the default rule: the server does not tell its schema rules: %s", err)
		return
	}
	r.opts.Schema = schema
}

// measure sends the load and measures the server meanwhile.
func (r *runner) measure(ctx context.Context, watch *tabletWatch) {
	meter := newMeter(&r.target, r.note)
	// What runs beside the load ends with it.
	beside, stopBeside := context.WithCancel(ctx)
	var others sync.WaitGroup
	others.Go(func() { meter.run(beside) })
	if watch != nil {
		others.Go(func() { watch.run(beside) })
	}
	var canary *canary
	if r.opts.CanaryEvery > 0 {
		canary = newCanary(&r.target, &r.opts)
		others.Go(func() { canary.run(beside) })
	}
	var mix *queryMix
	if r.opts.QueryRate > 0 {
		mix = &queryMix{reader: r.reader, fleet: r.fleet, rate: r.opts.QueryRate, now: r.opts.Now,
			classes: make(map[string]*queryTally), endMs: r.queryEndMs}
		others.Go(func() { mix.run(beside) })
	}
	began := r.opts.Now()
	r.report.Started = began.UTC()
	r.load(ctx)
	took := r.opts.Now().Sub(began)
	stopBeside()
	others.Wait()
	r.report.Seconds, r.report.Interrupted = took.Seconds(), ctx.Err() != nil
	r.report.Load = describeLoad(&r.opts, r.timeline)
	r.report.Writes = r.poster.tally.report(took)
	if canary != nil {
		r.report.Freshness = canary.report()
	}
	if mix != nil {
		r.report.Queries = mix.report()
	}
	meter.loaded()
	if r.opts.Settle > 0 && ctx.Err() == nil {
		r.progress.line("settling for %s", r.opts.Settle)
		sleep(ctx, r.opts.Settle)
	}
	r.report.Server, r.report.Disk = meter.finish(ctx, r.report.Writes.Samples)
}

// queryEndMs is the end of dashboards: now, or the end of the past range.
func (r *runner) queryEndMs() int64 {
	if !r.opts.live() {
		return r.opts.To.UnixMilli()
	}
	return r.opts.Now().UnixMilli()
}

// load runs the senders to the end of the timeline.
func (r *runner) load(ctx context.Context) {
	ending := ctx
	if r.timeline.intervalMs == 0 {
		var cancel context.CancelFunc
		ending, cancel = context.WithTimeout(ctx, r.opts.Duration)
		defer cancel()
	}
	streams := newStreams(&r.opts, r.fleet, r.timeline)
	r.timeline.wall = r.opts.Now()
	if r.opts.live() {
		r.timeline.startMs = r.timeline.wall.UnixMilli()
	}
	defer r.progress.phase("load", r.loadLook(r.opts.Now()))()
	gate := newGate(len(streams), r.timeline)
	var senders sync.WaitGroup
	for i, s := range streams {
		senders.Go(func() {
			defer gate.leave(i)
			r.sendStream(ctx, ending, i, s, gate)
		})
	}
	senders.Wait()
}

// sendStream sends one stream. The end of ending stops new samples, that of ctx also those that are held back.
func (r *runner) sendStream(ctx, ending context.Context, i int, s *stream, g *gate) {
	var req request
	send := func(b *batch) error {
		b.encode(&req, s.shuffle)
		var due time.Time
		if r.timeline.pace > 0 && req.dueMs > 0 {
			due = r.timeline.due(req.dueMs)
			sleep(ctx, due.Sub(r.opts.Now()))
		}
		if ctx.Err() != nil {
			return errInterrupted
		}
		if r.poster.send(ctx, &req, due) == acknowledged {
			r.ledger.acknowledged(req.marks)
		} else {
			r.ledger.doubtful(req.marks)
		}
		return nil
	}
	for s.step < r.timeline.steps && ending.Err() == nil {
		g.enter(i, s.step)
		if ending.Err() != nil {
			break
		}
		if s.next(send) != nil {
			return
		}
	}
	// An error here is the interruption, which the report has from ctx.
	_ = s.drain(send)
}

// rateOver is the least time over which progress shows a rate.
const rateOver = 2 * time.Second

// loadLook shows the load: by samples if their number is known, else by time.
func (r *runner) loadLook(began time.Time) look {
	var last int64
	var rate float64
	lastAt := began
	return func() (float64, float64, string) {
		acked, now := r.poster.tally.acked(), r.opts.Now()
		// Samples come by the request: a rate over less than this jumps.
		if took := now.Sub(lastAt); took >= rateOver || rate == 0 && took > 0 {
			rate, last, lastAt = float64(acked-last)/took.Seconds(), acked, now
		}
		text := fmt.Sprintf("%s samples, %s/s, p99 %.1f ms", grouped(acked), grouped(int64(rate)),
			r.poster.tally.latency.quantiles().P99Ms)
		if r.timeline.intervalMs == 0 {
			return now.Sub(began).Seconds(), r.opts.Duration.Seconds(), text
		}
		return float64(acked), float64(r.timeline.slots) * float64(r.timeline.steps) * (1 + r.opts.RewrittenPercent/100), text
	}
}

// readBack verifies what was acknowledged.
func (r *runner) readBack(ctx context.Context) {
	if r.opts.VerifyPercent < 0 {
		return
	}
	v := &verifier{fleet: r.fleet, timeline: r.timeline, disorder: newDisorder(&r.opts), ledger: r.ledger,
		reader: r.reader, share: r.opts.VerifyPercent / 100}
	stop := r.progress.phase("verify", func() (float64, float64, string) {
		done := v.done.Load()
		return float64(done), float64(r.fleet.Units()) * v.share, fmt.Sprintf("%s units", grouped(done))
	})
	r.report.Verified = v.run(ctx, r.opts.Senders)
	stop()
}

// spread says how the load fell on salts and tablets.
func (r *runner) spread(ctx context.Context, watch *tabletWatch) {
	schema := r.opts.Schema
	if schema == nil {
		schema = keyschema.DefaultSchema()
	}
	after, err := readTablets(ctx, r.reader)
	s := &spreader{fleet: r.fleet, timeline: r.timeline, ledger: r.ledger, schema: schema, tablets: after}
	r.report.Spread = s.run()
	if err != nil {
		r.report.Spread.TabletsError = err.Error()
		return
	}
	watch.finish(after, r.report.Spread.Tablets)
}
