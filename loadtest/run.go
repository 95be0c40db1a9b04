package loadtest

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"sync"
	"time"

	"halite/keyschema"
	"halite/loadtest/acked"
	"halite/loadtest/client"
	"halite/loadtest/distribution"
	"halite/loadtest/fleet"
	"halite/loadtest/load"
	"halite/loadtest/measure"
	"halite/loadtest/probe"
	"halite/loadtest/report"
	"halite/loadtest/verify"
)

// ErrUnreachable means that the target does not answer queries. The caller has to start it or correct its URL.
var ErrUnreachable = errors.New("the target does not answer")

// errInterrupted ends a stream when its context ends. The report shows it as Interrupted.
var errInterrupted = errors.New("interrupted")

// runner runs one load on one target.
type runner struct {
	opts     Options
	target   client.Target
	fleet    *fleet.Fleet
	timeline *load.Timeline
	acked    *acked.Set
	writer   *client.Writer
	querier  *client.Querier
	progress *progress
	report   *report.Report
}

// Run loads a target and reports. The end of ctx ends the load early; Run then reads the acknowledged samples back
// until verifyCtx ends. If ctx ends while Run reads back, it stops early. The error is nil if the load could be run.
func Run(ctx, verifyCtx context.Context, target client.Target, opts Options) (*report.Report, error) {
	r, err := newRunner(target, opts)
	if err != nil {
		return nil, err
	}
	if err := r.checkReachable(ctx); err != nil {
		return nil, err
	}
	if r.opts.Schema == nil {
		r.readSchema(ctx)
	}
	tablets := distribution.NewTabletWatcher(r.querier, r.opts.Now)
	r.runLoad(ctx, tablets)
	reading, cancel := readingContext(ctx, verifyCtx)
	defer cancel()
	r.verify(reading)
	r.reportDistribution(verifyCtx, tablets)
	return r.report, nil
}

// readingContext returns the context of reading back. It ends with verifyCtx. It also ends with ctx, unless ctx has ended
// already: then it ended the load, and one signal ends one phase.
func readingContext(ctx, verifyCtx context.Context) (context.Context, context.CancelFunc) {
	reading, cancel := context.WithCancel(verifyCtx)
	if ctx.Err() == nil {
		context.AfterFunc(ctx, cancel)
	}
	return reading, cancel
}

func newRunner(target client.Target, opts Options) (*runner, error) {
	if err := errors.Join(target.Validate(), opts.Validate()); err != nil {
		return nil, err
	}
	timeline, err := load.NewTimeline(&opts.Load, opts.Now)
	if err != nil {
		return nil, err
	}
	f, err := fleet.New(opts.Load.Fleet)
	if err != nil {
		return nil, err
	}
	opts.Load.Fleet = f.Options()
	r := &runner{
		opts: opts, target: target, fleet: f, timeline: timeline, acked: acked.New(f.Slots()),
		progress: &progress{w: opts.Progress, terminal: opts.Terminal, now: opts.Now},
		report:   &report.Report{Target: target.Name},
	}
	r.writer, r.querier = r.newWriter(), r.newQuerier()
	return r, nil
}

func (r *runner) newWriter() *client.Writer {
	return client.NewWriter(&r.target, client.WriteOptions{
		Connections: r.opts.Load.Senders + 1, RetryFor: r.opts.RetryFor, Timeout: r.opts.RequestTimeout, Now: r.opts.Now,
	})
}

func (r *runner) newQuerier() *client.Querier {
	return client.NewQuerier(&r.target, probe.ConcurrencyMax+r.opts.Load.Senders, r.opts.RequestTimeout)
}

func (r *runner) newRecorder() *measure.Recorder {
	t := &r.target
	return measure.NewRecorder(measure.Server{PID: t.PID, Dir: t.Dir, FlushURL: t.FlushURL, Token: t.Token}, r.note)
}

// newFreshnessProbe returns nil if freshness is not measured. The probe has its own clients, so that its requests do
// not count as requests of the load.
func (r *runner) newFreshnessProbe() *probe.FreshnessProbe {
	if r.opts.FreshnessEvery <= 0 {
		return nil
	}
	return probe.NewFreshnessProbe(r.newWriter(), r.newQuerier(), r.opts.Load.Fleet.Job, r.opts.FreshnessEvery, r.opts.Now)
}

// checkReachable sends a query that every server can answer.
func (r *runner) checkReachable(ctx context.Context) error {
	if _, err := r.querier.Data(ctx, "/api/v1/query", url.Values{"query": {"vector(1)"}}); err != nil {
		return fmt.Errorf("%s: %w: %w", r.target.Name, ErrUnreachable, err)
	}
	return nil
}

// note adds a note to the report.
func (r *runner) note(format string, args ...any) {
	r.report.Notes = append(r.report.Notes, fmt.Sprintf(format, args...))
}

// readSchema reads the schema rules of the server. If the server does not answer, the default rule is used.
func (r *runner) readSchema(ctx context.Context) {
	schema, err := distribution.ReadSchema(ctx, r.querier)
	if err != nil {
		r.note("salts follow the default rule, because the server does not list its schema rules: %s", err)
		return
	}
	r.opts.Schema = schema
}

// runLoad sends the load and measures the server during the load.
func (r *runner) runLoad(ctx context.Context, tablets *distribution.TabletWatcher) {
	recorder := r.newRecorder()
	background, stopBackground := context.WithCancel(ctx)
	var tasks sync.WaitGroup
	tasks.Go(func() { recorder.WatchMemory(background) })
	tasks.Go(func() { tablets.Run(background) })
	freshness := r.newFreshnessProbe()
	if freshness != nil {
		tasks.Go(func() { freshness.Run(background) })
	}
	var queries *probe.QueryMix
	if r.opts.QueryRate > 0 {
		queries = probe.NewQueryMix(r.querier, r.fleet, r.opts.QueryRate, r.queryEndMs, r.opts.Now)
		tasks.Go(func() { queries.Run(background) })
	}
	began := r.opts.Now()
	r.report.Started = began.UTC()
	r.send(ctx)
	took := r.opts.Now().Sub(began)
	stopBackground()
	tasks.Wait()
	r.reportLoad(ctx, took, freshness)
	if queries != nil {
		r.report.Queries = queries.Report()
	}
	recorder.EndLoad()
	if r.opts.Settle > 0 && ctx.Err() == nil {
		r.progress.line("settling for %s", r.opts.Settle)
		client.Sleep(ctx, r.opts.Settle)
	}
	r.report.Server, r.report.Disk = recorder.Finish(ctx, r.report.Writes.Samples)
}

// reportLoad adds the outcome of the load to the report. freshness may be nil.
func (r *runner) reportLoad(ctx context.Context, took time.Duration, freshness *probe.FreshnessProbe) {
	r.report.Seconds, r.report.Interrupted = took.Seconds(), ctx.Err() != nil
	r.report.Load = report.DescribeLoad(&r.opts.Load, r.timeline)
	r.report.Writes = r.writer.Report(took)
	if freshness != nil {
		r.report.Freshness = freshness.Report()
	}
}

// queryEndMs returns the end of dashboard queries: now, or the end of the past range.
func (r *runner) queryEndMs() int64 {
	if !r.opts.Load.Live() {
		return r.opts.Load.To.UnixMilli()
	}
	return r.opts.Now().UnixMilli()
}

// send runs all senders until the timeline ends.
func (r *runner) send(ctx context.Context) {
	loadCtx := ctx
	if r.timeline.IntervalMs() == 0 {
		var cancel context.CancelFunc
		loadCtx, cancel = context.WithTimeout(ctx, r.opts.Load.Duration)
		defer cancel()
	}
	streams := load.NewStreams(&r.opts.Load, r.fleet, r.timeline)
	r.timeline.Start(r.opts.Now(), r.opts.Load.Live())
	defer r.progress.phase("load", r.loadStatus(r.opts.Now()))()
	limiter := load.NewStepLimiter(len(streams), r.timeline)
	var senders sync.WaitGroup
	for i, s := range streams {
		senders.Go(func() {
			defer limiter.Remove(i)
			r.sendStream(ctx, loadCtx, i, s, limiter)
		})
	}
	senders.Wait()
}

// sendStream sends one stream. The end of loadCtx stops new samples. The end of ctx also stops delayed samples.
func (r *runner) sendStream(ctx, loadCtx context.Context, i int, s *load.Stream, limiter *load.StepLimiter) {
	send := func(req *load.Request) error {
		var due time.Time
		if req.DueMs > 0 {
			due = r.timeline.Due(req.DueMs)
		}
		if !due.IsZero() {
			client.Sleep(ctx, due.Sub(r.opts.Now()))
		}
		if ctx.Err() != nil {
			return errInterrupted
		}
		r.sendRequest(ctx, req, due)
		return nil
	}
	for s.NextStep() < r.timeline.Steps() && loadCtx.Err() == nil {
		limiter.Wait(i, s.NextStep())
		if loadCtx.Err() != nil {
			break
		}
		if s.SendStep(send) != nil {
			return
		}
	}
	// The only error is the interruption, which the report takes from ctx.
	_ = s.Drain(send)
}

// sendRequest sends one request and records its outcome.
func (r *runner) sendRequest(ctx context.Context, req *load.Request, due time.Time) {
	if r.writer.Send(ctx, req.Body, len(req.IDs), due) {
		r.acked.Acknowledge(req.IDs)
	} else {
		r.acked.MarkInDoubt(req.IDs)
	}
}

// rateWindow is the shortest time over which progress computes a rate. Samples arrive a request at a time, so that the
// rate of a shorter time would jump.
const rateWindow = 2 * time.Second

// loadStatus returns the status of the load: by samples if their number is known, else by time.
func (r *runner) loadStatus(began time.Time) status {
	var last int64
	var rate float64
	lastAt := began
	return func() (float64, float64, string) {
		samples, now := r.writer.Acknowledged(), r.opts.Now()
		if took := now.Sub(lastAt); took >= rateWindow || rate == 0 && took > 0 {
			rate, last, lastAt = float64(samples-last)/took.Seconds(), samples, now
		}
		text := fmt.Sprintf("%s samples, %s/s, p99 %.1f ms", report.Grouped(samples), report.Grouped(int64(rate)), r.writer.P99Ms())
		if r.timeline.IntervalMs() == 0 {
			return now.Sub(began).Seconds(), r.opts.Load.Duration.Seconds(), text
		}
		return float64(samples), r.samplesToSend(), text
	}
}

// samplesToSend returns the number of samples of the whole load, rewritten ones included.
func (r *runner) samplesToSend() float64 {
	return float64(r.timeline.Slots()) * float64(r.timeline.Steps()) * (1 + r.opts.Load.RewrittenPercent/100)
}

// verify reads acknowledged samples back and compares them.
func (r *runner) verify(ctx context.Context) {
	if r.opts.VerifyPercent < 0 {
		return
	}
	v := &verify.Verifier{Fleet: r.fleet, Timeline: r.timeline, Disorder: load.NewDisorder(&r.opts.Load), Acked: r.acked,
		Querier: r.querier, Share: r.opts.VerifyPercent / 100}
	stop := r.progress.phase("verify", func() (float64, float64, string) {
		done := v.UnitsDone()
		return float64(done), float64(r.fleet.Units()) * v.Share, fmt.Sprintf("%s units", report.Grouped(done))
	})
	r.report.Verification = v.Run(ctx, r.opts.Load.Senders)
	stop()
}

// reportDistribution reports how the load fell on salts and tablets.
func (r *runner) reportDistribution(ctx context.Context, watcher *distribution.TabletWatcher) {
	schema := r.opts.Schema
	if schema == nil {
		schema = keyschema.DefaultSchema()
	}
	tablets, err := distribution.ReadTablets(ctx, r.querier)
	a := &distribution.Analysis{Fleet: r.fleet, Timeline: r.timeline, Acked: r.acked, Schema: schema, Tablets: tablets}
	r.report.Distribution = a.Run()
	if err != nil {
		r.report.Distribution.TabletsError = err.Error()
		return
	}
	watcher.Finish(tablets, r.report.Distribution.Tablets)
}
