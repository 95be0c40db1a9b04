package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"os"
	"sync/atomic"
	"time"

	"github.com/alecthomas/kingpin/v2"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"golang.org/x/sync/errgroup"

	"halite/ingest"
	"halite/loadtest/fleet"
	"halite/storage/periodic"
)

const (
	// demoStep is the time between samples of a series.
	demoStep = 15 * time.Second
	// demoBatchSteps is how many steps of a host are written at a time.
	demoBatchSteps = 60
	// demoWriters fill at the same time; each has hosts of its own.
	demoWriters = 4
	// demoRound is how long the hot spot takes to go over all hosts.
	demoRound = 2 * time.Hour
	demoSeed  = 1

	demoJob          = "demo"
	demoRequests     = "demo_requests_total"
	demoLatency      = "demo_latency_seconds"
	demoHostsMax     = 1000
	demoSpanMin      = 5 * time.Minute
	demoHostsDefault = "30"
	demoSpanDefault  = "6h"
)

// demoConfig holds the flags of `tsdb demo`, which are those of serve and its own.
type demoConfig struct {
	serve *serveConfig
	hosts int
	span  model.Duration
}

func addDemoFlags(cmd *kingpin.CmdClause) *demoConfig {
	c := &demoConfig{serve: addServeFlags(cmd)}
	path := cmd.GetFlag("storage.path").Default("")
	path.Help("Directory of all data, which must be new or empty; it is kept. Default: a temporary one, removed at the end.")
	cmd.Flag("demo.hosts", "Hosts of the made-up fleet, with about 100 series each.").Default(demoHostsDefault).IntVar(&c.hosts)
	cmd.Flag("demo.span", "How far back its samples reach.").Default(demoSpanDefault).SetValue(&c.span)
	return c
}

// Validate reports every fault of the flags together.
func (c *demoConfig) Validate() error {
	var faults []error
	if c.hosts < 1 || c.hosts > demoHostsMax {
		faults = append(faults, fmt.Errorf("--demo.hosts is %d: 1 to %d", c.hosts, demoHostsMax))
	}
	span, retention := time.Duration(c.span), time.Duration(c.serve.retentionRaw)
	if span < demoSpanMin || retention != 0 && span >= retention {
		faults = append(faults, fmt.Errorf("--demo.span is %s: at least %s, and less than --storage.retention.raw",
			c.span, demoSpanMin))
	}
	return errors.Join(faults...)
}

// runDemo serves a directory that a made-up fleet has written to, and goes on writing.
func runDemo(c *demoConfig, out io.Writer) (err error) {
	if err := c.Validate(); err != nil {
		return err
	}
	if c.serve.storagePath == "" {
		if c.serve.storagePath, err = os.MkdirTemp("", "halite-demo-"); err != nil {
			return fmt.Errorf("directory of the demo: %w", err)
		}
		defer func() { err = errors.Join(err, os.RemoveAll(c.serve.storagePath)) }()
	} else if entries, err := os.ReadDir(c.serve.storagePath); err == nil && len(entries) > 0 {
		return fmt.Errorf("--storage.path: %s is not empty; a demo starts anew (tsdb serve goes on with an earlier one)",
			c.serve.storagePath)
	}
	c.serve.background = func(ctx context.Context, w sampleWriter, url string, log *slog.Logger) error {
		d, err := newDemo(c, w, time.Now())
		if err != nil {
			return err
		}
		return d.run(ctx, url, out, log)
	}
	return serveUntilSignal(c.serve)
}

// demo writes the fleet.
type demo struct {
	writer  sampleWriter
	hosts   []*demoHost
	startMs int64
	now     func() time.Time
	samples atomic.Int64
}

// demoHost is one host of it: the series of the fleet's unit and, as the last two, those of the hot spot.
type demoHost struct {
	unit     *fleet.Unit
	labels   []labels.Labels
	step     int
	place    float64 // of the host in the round of the hot spot, 0 to 1
	requests float64
	seed     uint64
}

func newDemo(c *demoConfig, w sampleWriter, now time.Time) (*demo, error) {
	f, err := fleet.New(fleet.Options{Seed: demoSeed, Job: demoJob, Hosts: c.hosts, StepSeconds: demoStep.Seconds()})
	if err != nil {
		return nil, err
	}
	d := &demo{writer: w, startMs: now.Add(-time.Duration(c.span)).Truncate(demoStep).UnixMilli(), now: time.Now}
	for u := range f.Units() {
		h := &demoHost{
			unit: f.Unit(u), place: float64(u) / float64(f.Units()), seed: fleet.Mix(demoSeed, uint64(u), 0),
		}
		var own []labels.Labels
		for _, s := range f.SeriesOf(u, 0) {
			h.labels = append(h.labels, labelsOf(s.Metric, s))
			if s.Metric == "up" { // which has the host's labels only
				own = []labels.Labels{labelsOf(demoRequests, s), labelsOf(demoLatency, s)}
			}
		}
		h.labels = append(h.labels, own...)
		d.hosts = append(d.hosts, h)
	}
	return d, nil
}

func labelsOf(metric string, s fleet.Series) labels.Labels {
	b := labels.NewScratchBuilder(len(s.Tags) + 1)
	b.Add(model.MetricNameLabel, metric)
	for _, tag := range s.Tags {
		b.Add(tag.Name, tag.Value)
	}
	b.Sort()
	return b.Labels()
}

// run fills the past, says what to look at, and goes on until ctx ends.
func (d *demo) run(ctx context.Context, url string, out io.Writer, log *slog.Logger) error {
	began := d.now()
	if err := d.catchUp(ctx); err != nil {
		return ignoreEnd(ctx, err)
	}
	took := d.now().Sub(began).Round(100 * time.Millisecond)
	log.Info("demo filled", "samples", d.samples.Load(), "series", d.series(), "after", took)
	fmt.Fprintf(out, demoText, d.samples.Load(), d.series(), took, url)
	ticker := time.NewTicker(demoStep)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		if err := d.catchUp(ctx); err != nil {
			return ignoreEnd(ctx, err)
		}
	}
}

const demoText = `
Demo: %d samples of %d series in %s, more every 15 s. A hot spot moves over the hosts; in another terminal:

  tsdb graph --url %s --range 6h 'sum by (instance) (rate(demo_requests_total[5m]))'

`

// ignoreEnd forgets an error that the end of ctx made.
func ignoreEnd(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return fmt.Errorf("demo: %w", err)
}

func (d *demo) series() int {
	n := 0
	for _, h := range d.hosts {
		n += len(h.labels)
	}
	return n
}

// catchUp writes all steps up to now.
func (d *demo) catchUp(ctx context.Context) error {
	end := int((d.now().UnixMilli()-d.startMs)/demoStep.Milliseconds()) + 1
	start := d.hosts[0].step
	writers, ctx := errgroup.WithContext(ctx)
	for w := range demoWriters {
		writers.Go(func() error {
			var batch []ingest.Sample
			// In stretches over all hosts, so that hours close in order.
			for from := start; from < end; from += demoBatchSteps {
				for i := w; i < len(d.hosts); i += demoWriters {
					batch = d.hosts[i].steps(batch[:0], min(from+demoBatchSteps, end), d.startMs)
					if err := d.write(ctx, batch); err != nil {
						return err
					}
				}
			}
			return nil
		})
	}
	return writers.Wait()
}

// write stores samples; a server that is too busy is given the time that it asks for.
func (d *demo) write(ctx context.Context, batch []ingest.Sample) error {
	for {
		result, err := d.writer.Write(ctx, batch)
		var busy *ingest.OverloadError
		switch {
		case err == nil:
			d.samples.Add(int64(result.Accepted))
			return nil
		case !errors.As(err, &busy):
			return err
		}
		if err := periodic.Sleep(ctx, busy.RetryAfter); err != nil {
			return err
		}
	}
}

// steps appends the host's samples up to step end.
func (h *demoHost) steps(batch []ingest.Sample, end int, startMs int64) []ingest.Sample {
	for ; h.step < end; h.step++ {
		tsMs := startMs + int64(h.step)*demoStep.Milliseconds()
		values, _ := h.unit.Step()
		for i, v := range values {
			batch = append(batch, ingest.Sample{Labels: h.labels[i], TsMs: tsMs, Value: v})
		}
		heat := h.heat(tsMs)
		noise := fleet.Unit01(fleet.Mix(h.seed, uint64(h.step), 1))
		h.requests += math.Floor((20 + 380*heat) * demoStep.Seconds() * (0.9 + 0.2*noise))
		batch = append(batch,
			ingest.Sample{Labels: h.labels[len(values)], TsMs: tsMs, Value: h.requests},
			ingest.Sample{Labels: h.labels[len(values)+1], TsMs: tsMs, Value: (20 + math.Round(300*heat+10*noise)) / 1000})
	}
	return batch
}

// heat is how close the hot spot is at a time: 1 on it, 0 far away.
func (h *demoHost) heat(tsMs int64) float64 {
	round := demoRound.Milliseconds()
	distance := math.Abs(float64(tsMs%round)/float64(round) - h.place)
	distance = min(distance, 1-distance)
	return math.Exp(-distance * distance / (2 * 0.05 * 0.05))
}
