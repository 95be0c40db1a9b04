package loadtest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/klauspost/compress/snappy"
)

// CompareOptions are what Compare does beyond the load.
type CompareOptions struct {
	// SliceSamples is about how many samples are encoded, then sent to each target in turn. Default 1 million.
	SliceSamples int
	// QueryRepeats is how often each dashboard query is asked; 0 asks none. Each time it is about other hosts and
	// services, so that no target answers from a cache of results.
	QueryRepeats int
	// Tolerance is the relative difference up to which values of queries count as equal. Default 1e-9.
	Tolerance float64
}

// Default values of CompareOptions.
const (
	DefaultSliceSamples = 1_000_000
	DefaultTolerance    = 1e-9
	sliceSamplesMax     = 100_000_000
)

// Validate fills in defaults and reports every fault at once.
func (o *CompareOptions) Validate() error {
	o.SliceSamples = cmp.Or(o.SliceSamples, DefaultSliceSamples)
	o.Tolerance = cmp.Or(o.Tolerance, DefaultTolerance)
	var faults []error
	if o.SliceSamples < 0 || o.SliceSamples > sliceSamplesMax {
		faults = append(faults, fmt.Errorf("%w: SliceSamples is %d, it must be 1 to %d", ErrOptions, o.SliceSamples, sliceSamplesMax))
	}
	if o.QueryRepeats < 0 {
		faults = append(faults, fmt.Errorf("%w: QueryRepeats is %d, it must not be negative", ErrOptions, o.QueryRepeats))
	}
	if !(o.Tolerance >= 0 && o.Tolerance < 1) {
		faults = append(faults, fmt.Errorf("%w: Tolerance is %g, it must be 0 to 1", ErrOptions, o.Tolerance))
	}
	return errors.Join(faults...)
}

// Comparison is the outcome of Compare.
type Comparison struct {
	// Targets are in the order in which they were given; the first is what the others are compared with.
	Targets []*Report       `json:"targets"`
	Queries []QueryCompared `json:"queries,omitempty"`
}

// Failed reports whether any target failed, or answered a query with an error.
func (c *Comparison) Failed() bool {
	for _, r := range c.Targets {
		if r.Failed() {
			return true
		}
	}
	for _, q := range c.Queries {
		for _, t := range q.Targets {
			if t.Errors > 0 {
				return true
			}
		}
	}
	return false
}

// side is one target of a comparison.
type side struct {
	*runner
	meter  *meter
	canary *canary
	took   time.Duration
}

// Compare sends the same bytes to several targets, slice by slice in turn, then asks all of them the same queries and
// reads everything back. The load must be one over a past range and is sent as fast as each target takes it. Contexts
// are as in Run.
func Compare(ctx, verify context.Context, targets []Target, opts Options, compare CompareOptions) (*Comparison, error) {
	if err := compare.Validate(); err != nil {
		return nil, err
	}
	if len(targets) == 0 {
		return nil, fmt.Errorf("%w: none given", ErrTarget)
	}
	if opts.live() || opts.Rate > 0 {
		return nil, fmt.Errorf("%w: a comparison needs a past range and no rate, so that all targets get the same", ErrOptions)
	}
	var sides []*side
	for _, t := range targets {
		r, err := newRunner(t, opts)
		if err != nil {
			return nil, fmt.Errorf("target %q: %w", t.Name, err)
		}
		if err := r.reader.reachable(ctx); err != nil {
			return nil, fmt.Errorf("%s: %w: %w", r.target.QueryURL, ErrUnreachable, err)
		}
		sides = append(sides, &side{runner: r})
	}
	for _, s := range sides {
		s.meter = newMeter(&s.target, s.note)
		s.report.Started = s.opts.Now().UTC()
		if s.opts.CanaryEvery > 0 {
			s.canary = newCanary(&s.target, &s.opts)
		}
	}
	loadSlices(ctx, sides, compare.SliceSamples)
	out := &Comparison{}
	for _, s := range sides {
		out.Targets = append(out.Targets, s.report)
	}
	finishLoads(ctx, sides)
	if compare.QueryRepeats > 0 && ctx.Err() == nil {
		out.Queries = compareQueries(ctx, sides, compare)
	}
	reading, cancel := readingContext(ctx, verify)
	defer cancel()
	for _, s := range sides {
		s.progress.line("reading back from %s", s.target.Name)
		s.readBack(reading)
	}
	return out, nil
}

// slice is a part of the load, encoded: the requests of each sender in order.
type slice [][]request

// loadSlices encodes slice after slice and sends each to all sides; who is first changes from slice to slice.
func loadSlices(ctx context.Context, sides []*side, sliceSamples int) {
	first := sides[0]
	streams := newStreams(&first.opts, first.fleet, first.timeline)
	steps, at := first.timeline.steps, 0
	perSlice := max(sliceSamples/first.timeline.slots, 1)
	stop := first.progress.phase("load", func() (float64, float64, string) {
		text := ""
		for _, s := range sides {
			text += fmt.Sprintf(" %s %s samples, p99 %.1f ms;", s.target.Name, grouped(s.poster.tally.acked()),
				s.poster.tally.latency.quantiles().P99Ms)
		}
		done := 0.0
		for _, s := range sides {
			done += float64(s.poster.tally.acked())
		}
		all := float64(len(sides)*first.timeline.slots*steps) * (1 + first.opts.RewrittenPercent/100)
		return done, all, text
	})
	defer stop()
	for n := 0; at < steps && ctx.Err() == nil; n++ {
		end := min(at+perSlice, steps)
		part := encodeSlice(ctx, streams, end, end == steps)
		for i := range sides {
			sides[(n+i)%len(sides)].sendSlice(ctx, part)
		}
		at = end
	}
}

// encodeSlice makes the requests of all streams up to a step, and those of what is held back after the last one.
func encodeSlice(ctx context.Context, streams []*stream, endStep int, last bool) slice {
	part := make(slice, len(streams))
	var done sync.WaitGroup
	for i, s := range streams {
		done.Go(func() {
			scratch := request{body: make([]byte, 0, snappy.MaxEncodedLen(s.limit*400))}
			keep := func(b *batch) error {
				b.encode(&scratch, s.shuffle)
				part[i] = append(part[i], request{
					body: append([]byte(nil), scratch.body...), marks: append([]mark(nil), scratch.marks...),
				})
				return ctx.Err()
			}
			for s.step < endStep {
				if s.next(keep) != nil {
					return
				}
			}
			if last {
				_ = s.drain(keep) // only ctx ends it early, and the caller sees that
			}
		})
	}
	done.Wait()
	return part
}

// sendSlice sends one slice to one side, and measures freshness and memory meanwhile.
func (s *side) sendSlice(ctx context.Context, part slice) {
	beside, stopBeside := context.WithCancel(ctx)
	var others, senders sync.WaitGroup
	others.Go(func() { s.meter.run(beside) })
	if s.canary != nil {
		others.Go(func() { s.canary.run(beside) })
	}
	began := s.opts.Now()
	for _, requests := range part {
		senders.Go(func() {
			for i := range requests {
				if ctx.Err() != nil {
					return
				}
				if s.poster.send(ctx, &requests[i], time.Time{}) == acknowledged {
					s.ledger.acknowledged(requests[i].marks)
				} else {
					s.ledger.doubtful(requests[i].marks)
				}
			}
		})
	}
	senders.Wait()
	s.took += s.opts.Now().Sub(began)
	stopBeside()
	others.Wait()
}

// finishLoads reports the loads of all sides, after a rest.
func finishLoads(ctx context.Context, sides []*side) {
	for _, s := range sides {
		s.report.Seconds, s.report.Interrupted = s.took.Seconds(), ctx.Err() != nil
		s.report.Load = describeLoad(&s.opts, s.timeline)
		s.report.Writes = s.poster.tally.report(s.took)
		if s.canary != nil {
			s.report.Freshness = s.canary.report()
		}
		s.meter.loaded()
	}
	if settle := sides[0].opts.Settle; settle > 0 && ctx.Err() == nil {
		sides[0].progress.line("settling for %s", settle)
		sleep(ctx, settle)
	}
	for _, s := range sides {
		s.report.Server, s.report.Disk = s.meter.finish(ctx, s.report.Writes.Samples)
	}
}
