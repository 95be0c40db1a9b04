package loadtest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"halite/loadtest/client"
	"halite/loadtest/load"
	"halite/loadtest/measure"
	"halite/loadtest/probe"
	"halite/loadtest/report"
)

// CompareOptions describe a comparison in addition to its load.
type CompareOptions struct {
	// SliceSamples is the approximate number of samples that are encoded at a time and sent to each target in turn.
	// Default 1 million.
	SliceSamples int
	// QueryRepeats is how often each dashboard query is sent; 0 sends none. Each repeat queries other hosts and
	// services, so that no target answers from a result cache.
	QueryRepeats int
	// Suite queries each function, operator, aggregation and modifier of PromQL instead of dashboards.
	Suite bool
	// Bound is the ratio of CPU time to the better peer above which the queries of the suite are listed. Default 0.8.
	Bound float64
	// Tolerance is the relative difference up to which query results count as equal. Default 1e-9.
	Tolerance float64
}

// Default values of CompareOptions.
const (
	DefaultSliceSamples = 1_000_000
	DefaultTolerance    = 1e-9
	DefaultBound        = 0.8
	sliceSamplesMax     = 100_000_000
)

// Validate fills in defaults and reports all errors at once.
func (o *CompareOptions) Validate() error {
	o.SliceSamples = cmp.Or(o.SliceSamples, DefaultSliceSamples)
	o.Tolerance = cmp.Or(o.Tolerance, DefaultTolerance)
	o.Bound = cmp.Or(o.Bound, DefaultBound)
	var errs []error
	if !(o.Bound > 0) {
		errs = append(errs, fmt.Errorf("%w: Bound is %g; it must be above 0", ErrOptions, o.Bound))
	}
	if o.SliceSamples < 0 || o.SliceSamples > sliceSamplesMax {
		errs = append(errs, fmt.Errorf("%w: SliceSamples is %d; it must be 1 to %d", ErrOptions, o.SliceSamples, sliceSamplesMax))
	}
	if o.QueryRepeats < 0 {
		errs = append(errs, fmt.Errorf("%w: QueryRepeats is %d; it must not be negative", ErrOptions, o.QueryRepeats))
	}
	if !(o.Tolerance >= 0 && o.Tolerance < 1) {
		errs = append(errs, fmt.Errorf("%w: Tolerance is %g; it must be at least 0 and below 1", ErrOptions, o.Tolerance))
	}
	return errors.Join(errs...)
}

// contender is one target of a comparison.
type contender struct {
	*runner
	recorder  *measure.Recorder
	freshness *probe.FreshnessProbe // nil if freshness is not measured
	took      time.Duration         // sum over all slices
}

// Compare sends the same bytes to several targets. It alternates between the targets after each slice. Then it sends the
// same queries to all targets and reads the samples back. The load must cover a past range; each target gets it as fast
// as it accepts samples. The contexts have the same meaning as in Run.
func Compare(ctx, verifyCtx context.Context, targets []client.Target, opts Options, compare CompareOptions) (
	*report.Comparison, error,
) {
	if err := compare.Validate(); err != nil {
		return nil, err
	}
	if len(targets) == 0 {
		return nil, fmt.Errorf("%w: none given", client.ErrTarget)
	}
	if opts.Load.Live() || opts.Load.Rate > 0 {
		return nil, fmt.Errorf("%w: a comparison needs a past range and no rate, so that all targets get the same load", ErrOptions)
	}
	var contenders []*contender
	for _, t := range targets {
		r, err := newRunner(t, opts)
		if err != nil {
			return nil, fmt.Errorf("target %q: %w", t.Name, err)
		}
		if err := r.checkReachable(ctx); err != nil {
			return nil, err
		}
		contenders = append(contenders, &contender{runner: r})
	}
	for _, c := range contenders {
		c.recorder, c.freshness = c.newRecorder(), c.newFreshnessProbe()
		c.report.Started = c.opts.Now().UTC()
	}
	sendSlices(ctx, contenders, compare.SliceSamples)
	out := &report.Comparison{}
	for _, c := range contenders {
		out.Targets = append(out.Targets, c.report)
	}
	finishLoads(ctx, contenders)
	switch {
	case compare.QueryRepeats == 0 || ctx.Err() != nil:
	case compare.Suite:
		out.Suite = compareSuite(ctx, contenders, compare)
	default:
		out.Queries = compareQueries(ctx, contenders, compare)
	}
	reading, cancel := readingContext(ctx, verifyCtx)
	defer cancel()
	for _, c := range contenders {
		c.progress.line("reading back from %s", c.target.Name)
		c.verify(reading)
	}
	return out, nil
}

// slice is a part of the load, encoded: the requests of each sender in order.
type slice [][]load.Request

// sendSlices encodes one slice after the other and sends each to all contenders. The first contender changes from slice
// to slice.
func sendSlices(ctx context.Context, contenders []*contender, sliceSamples int) {
	first := contenders[0]
	streams := load.NewStreams(&first.opts.Load, first.fleet, first.timeline)
	steps, at := first.timeline.Steps(), 0
	stepsPerSlice := max(sliceSamples/first.timeline.Slots(), 1)
	stop := first.progress.phase("load", func() (float64, float64, string) {
		text, done := "", 0.0
		for _, c := range contenders {
			samples := c.writer.Acknowledged()
			text += fmt.Sprintf(" %s %s samples, p99 %.1f ms;", c.target.Name, report.Grouped(samples), c.writer.P99Ms())
			done += float64(samples)
		}
		return done, float64(len(contenders)) * first.samplesToSend(), text
	})
	defer stop()
	for n := 0; at < steps && ctx.Err() == nil; n++ {
		end := min(at+stepsPerSlice, steps)
		part := encodeSlice(ctx, streams, end, end == steps)
		for i := range contenders {
			contenders[(n+i)%len(contenders)].sendSlice(ctx, part)
		}
		at = end
	}
}

// encodeSlice makes the requests of all streams up to a step. The last slice also has all delayed samples.
func encodeSlice(ctx context.Context, streams []*load.Stream, endStep int, last bool) slice {
	part := make(slice, len(streams))
	var encoders sync.WaitGroup
	for i, s := range streams {
		encoders.Go(func() {
			collect := func(r *load.Request) error {
				part[i] = append(part[i], load.Request{Body: slices.Clone(r.Body), IDs: slices.Clone(r.IDs)})
				return ctx.Err()
			}
			for s.NextStep() < endStep {
				if s.SendStep(collect) != nil {
					return
				}
			}
			if last {
				_ = s.Drain(collect) // only the end of ctx ends it early, and the caller checks ctx
			}
		})
	}
	encoders.Wait()
	return part
}

// sendSlice sends one slice to one target. During this time it measures freshness and memory.
func (c *contender) sendSlice(ctx context.Context, part slice) {
	background, stopBackground := context.WithCancel(ctx)
	var tasks, senders sync.WaitGroup
	tasks.Go(func() { c.recorder.WatchMemory(background) })
	if c.freshness != nil {
		tasks.Go(func() { c.freshness.Run(background) })
	}
	began := c.opts.Now()
	for _, requests := range part {
		senders.Go(func() {
			for i := range requests {
				if ctx.Err() != nil {
					return
				}
				c.sendRequest(ctx, &requests[i], time.Time{})
			}
		})
	}
	senders.Wait()
	c.took += c.opts.Now().Sub(began)
	stopBackground()
	tasks.Wait()
}

// finishLoads reports the loads of all targets and measures the targets again after the settle time.
func finishLoads(ctx context.Context, contenders []*contender) {
	for _, c := range contenders {
		c.reportLoad(ctx, c.took, c.freshness)
		c.recorder.EndLoad()
	}
	if settle := contenders[0].opts.Settle; settle > 0 && ctx.Err() == nil {
		contenders[0].progress.line("settling for %s", settle)
		client.Sleep(ctx, settle)
	}
	for _, c := range contenders {
		c.report.Server, c.report.Disk = c.recorder.Finish(ctx, c.report.Writes.Samples)
	}
}
