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
	"halite/ingest/remotewrite"
	"halite/keyschema"
	"halite/loadtest/fleet"
	"halite/storage/periodic"
)

const (
	// demoStep is the time between samples of a series.
	demoStep = 15 * time.Second
	// demoBatchSteps is the number of steps of a host per write.
	demoBatchSteps = 60
	// demoWriters is the number of concurrent writers. Each has its own hosts.
	demoWriters = 4
	// demoRound is the time in which the hot spot moves over all hosts.
	demoRound = 2 * time.Hour
	demoSeed  = 1

	demoJob          = "demo"
	demoRequests     = "demo_requests_total"
	demoLatency      = "demo_latency_seconds"
	demoHostsMax     = 1000
	demoSpanMin      = 5 * time.Minute
	demoHostsDefault = "30"
	demoSpanDefault  = "6h"

	// demoBurst is the number of additional samples of demo_requests_total per step of the host under the hot spot.
	demoBurst = 59
)

// demoRules keep the keys of demo_requests_total in the order of the hosts. So the hot spot moves through the keys, and the
// key heat map shows it as a diagonal. Salts would prevent that.
func demoRules() []keyschema.Rule {
	return []keyschema.Rule{
		{Pattern: demoRequests, Salts: 1, Promoted: []string{"instance"}},
	}
}

// demoConfig holds the flags of `tsdb demo`: the flags of serve and two more.
type demoConfig struct {
	serve *serveConfig
	hosts int
	span  model.Duration
}

func addDemoFlags(cmd *kingpin.CmdClause) *demoConfig {
	c := &demoConfig{serve: addServeFlags(cmd)}
	path := cmd.GetFlag("storage.path").Default("")
	path.Help("Directory of all data. It must be new or empty, and stays at the end. " +
		"Default: a temporary directory, removed at the end.")
	cmd.Flag("demo.hosts", "Number of simulated hosts, with about 100 series each.").Default(demoHostsDefault).IntVar(&c.hosts)
	cmd.Flag("demo.span", "Age of the oldest samples.").Default(demoSpanDefault).SetValue(&c.span)
	return c
}

// Validate reports all errors of the flags at once.
func (c *demoConfig) Validate() error {
	var errs []error
	if c.hosts < 1 || c.hosts > demoHostsMax {
		errs = append(errs, fmt.Errorf("--demo.hosts is %d, it must be 1 to %d", c.hosts, demoHostsMax))
	}
	span, retention := time.Duration(c.span), time.Duration(c.serve.retentionRaw)
	if span < demoSpanMin || retention != 0 && span >= retention {
		errs = append(errs, fmt.Errorf("--demo.span is %s, it must be at least %s and less than --storage.retention.raw",
			c.span, demoSpanMin))
	}
	return errors.Join(errs...)
}

// runDemo starts a server, fills it with the samples of a simulated fleet and keeps writing.
func runDemo(ctx context.Context, c *demoConfig, out io.Writer) (err error) {
	if err := c.Validate(); err != nil {
		return err
	}
	if c.serve.storagePath == "" {
		if c.serve.storagePath, err = os.MkdirTemp("", "halite-demo-"); err != nil {
			return fmt.Errorf("directory of the demo: %w", err)
		}
		defer func() { err = errors.Join(err, os.RemoveAll(c.serve.storagePath)) }()
	} else if entries, err := os.ReadDir(c.serve.storagePath); err == nil && len(entries) > 0 {
		return fmt.Errorf("--storage.path: %s is not empty: a demo needs an empty directory (tsdb serve continues an earlier demo)",
			c.serve.storagePath)
	}
	c.serve.demoRules = demoRules()
	c.serve.background = func(ctx context.Context, w sampleWriter, url string, log *slog.Logger) error {
		d, err := newDemo(c, w, time.Now())
		if err != nil {
			return err
		}
		return d.run(ctx, url, out, log)
	}
	return runServer(ctx, c.serve)
}

// demo writes the samples of the fleet.
type demo struct {
	writer  sampleWriter
	hosts   []*demoHost
	startMs int64
	now     func() time.Time
	samples atomic.Int64
}

// demoHost is one host: the series of a unit of the fleet, followed by the two series of the hot spot.
type demoHost struct {
	unit     *fleet.Unit
	labels   []labels.Labels
	step     int
	position float64 // position of the host in the round of the hot spot, 0 to 1
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
			unit: f.Unit(u), position: float64(u) / float64(f.Units()), seed: fleet.Mix(demoSeed, uint64(u), 0),
		}
		var own []labels.Labels
		for _, s := range f.SeriesOf(u, 0) {
			h.labels = append(h.labels, labelsOf(s.Metric, s))
			if s.Metric == "up" { // the series of the hot spot has only the host's labels
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

// run writes the past samples, prints example queries, and keeps writing until ctx ends.
func (d *demo) run(ctx context.Context, url string, out io.Writer, log *slog.Logger) error {
	began := d.now()
	if err := d.write(ctx, nil, demoDescriptions()...); err != nil {
		return ignoreEnd(ctx, err)
	}
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
Demo: %d samples of %d series in %s, and new samples every 15 s. A hot spot moves over the hosts. In another terminal:

  tsdb graph --url %s --from 6h 'sum by (instance) (rate(demo_requests_total[5m]))'

`

// ignoreEnd returns nil if ctx has ended, because ctx then caused the error.
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

// catchUp writes all samples up to now.
func (d *demo) catchUp(ctx context.Context) error {
	end := int((d.now().UnixMilli()-d.startMs)/demoStep.Milliseconds()) + 1
	start := d.hosts[0].step
	writers, ctx := errgroup.WithContext(ctx)
	for w := range demoWriters {
		writers.Go(func() error {
			var batch []ingest.Sample
			// Write the same time range of all hosts before the next one, so that hours close in order.
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

// demoDescriptions returns the metadata of the demo's metrics.
func demoDescriptions() []remotewrite.Metadata {
	described := []remotewrite.Metadata{
		{Metric: demoRequests, Type: string(model.MetricTypeCounter), Help: "Requests of the demo. The hot spot moves over the hosts."},
		{Metric: demoLatency, Type: string(model.MetricTypeGauge), Help: "Latency of the demo's requests. It rises with the hot spot."},
	}
	for _, m := range fleet.Descriptions() {
		described = append(described, remotewrite.Metadata{Metric: m.Metric, Type: string(m.Type), Help: m.Help})
	}
	return described
}

// write stores samples and metadata. If the server is overloaded, it waits for the time that the server names.
func (d *demo) write(ctx context.Context, batch []ingest.Sample, described ...remotewrite.Metadata) error {
	for {
		result, err := d.writer.Write(ctx, ingest.SamplesInput(batch, described...))
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
		batch = h.burst(batch, tsMs, heat, h.labels[len(values)])
		h.requests += math.Floor((20 + 380*heat) * demoStep.Seconds() * (0.9 + 0.2*noise))
		batch = append(batch,
			ingest.Sample{Labels: h.labels[len(values)], TsMs: tsMs, Value: h.requests},
			ingest.Sample{Labels: h.labels[len(values)+1], TsMs: tsMs, Value: (20 + math.Round(300*heat+10*noise)) / 1000})
	}
	return batch
}

// burst appends the samples that the counter of a busy host gets between two steps. The closer the hot spot, the more
// samples.
func (h *demoHost) burst(batch []ingest.Sample, tsMs int64, heat float64, ls labels.Labels) []ingest.Sample {
	more := int64(demoBurst * heat)
	gap := demoStep.Milliseconds() / (more + 1)
	for i := range more {
		batch = append(batch, ingest.Sample{Labels: ls, TsMs: tsMs - (more-i)*gap, Value: h.requests})
	}
	return batch
}

// heat returns the closeness of the hot spot at a time: 1 if it is on this host, 0 if it is far away.
func (h *demoHost) heat(tsMs int64) float64 {
	round := demoRound.Milliseconds()
	distance := math.Abs(float64(tsMs%round)/float64(round) - h.position)
	distance = min(distance, 1-distance)
	return math.Exp(-distance * distance / (2 * 0.05 * 0.05))
}
