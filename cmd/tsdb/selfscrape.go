package main

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"

	"halite/ingest"
	"halite/ingest/remotewrite"
	"halite/storage/periodic"
)

// sampleWriter stores the server's own samples; *ingest.Ingester is one.
type sampleWriter interface {
	Write(ctx context.Context, in ingest.Input) (ingest.Result, error)
}

// ownJob is the label job of these samples. It is not halite, because a Prometheus server that scrapes this server probably
// uses that name. Then both would write the same series.
const ownJob = "halite-self-scrape"

// selfScraper stores the server's own metrics, so that graphs have data before the first sender is set up.
type selfScraper struct {
	gatherer prometheus.Gatherer
	writer   sampleWriter
	every    time.Duration
	instance string
	log      *slog.Logger
}

// run scrapes until ctx ends. A failed scrape is logged; the next one tries again.
func (s *selfScraper) run(ctx context.Context) {
	periodic.Repeat(ctx, s.every, func(ctx context.Context) {
		if err := s.scrape(ctx, time.Now()); err != nil && ctx.Err() == nil {
			s.log.Warn("self-scrape failed", "err", err)
		}
	})
}

func (s *selfScraper) scrape(ctx context.Context, now time.Time) error {
	families, err := s.gatherer.Gather()
	if err != nil {
		return err
	}
	tsMs := now.UnixMilli()
	vector, err := expfmt.ExtractSamples(&expfmt.DecodeOptions{Timestamp: model.Time(tsMs)}, families...)
	if err != nil {
		return err
	}
	samples := make([]ingest.Sample, 0, len(vector)+2)
	b := labels.NewBuilder(labels.EmptyLabels())
	for _, v := range vector {
		b.Reset(labels.EmptyLabels())
		for name, value := range v.Metric {
			b.Set(string(name), string(value))
		}
		samples = append(samples, ingest.Sample{Labels: s.identify(b), TsMs: tsMs, Value: float64(v.Value)})
	}
	own := map[string]float64{
		"up":                      1,
		"scrape_duration_seconds": time.Since(now).Seconds(),
		"scrape_samples_scraped":  float64(len(vector)),
	}
	for name, value := range own {
		b.Reset(labels.EmptyLabels())
		b.Set(model.MetricNameLabel, name)
		samples = append(samples, ingest.Sample{Labels: s.identify(b), TsMs: tsMs, Value: value})
	}
	_, err = s.writer.Write(ctx, ingest.SamplesInput(samples, describeFamilies(families)...))
	return err
}

// describeFamilies returns the type, help and unit of each family. The writer stores only those that changed.
func describeFamilies(families []*dto.MetricFamily) []remotewrite.Metadata {
	described := make([]remotewrite.Metadata, len(families))
	for n, f := range families {
		described[n] = remotewrite.Metadata{
			Metric: f.GetName(), Type: string(typeOf(f)), Help: f.GetHelp(), Unit: f.GetUnit(),
		}
	}
	return described
}

func typeOf(f *dto.MetricFamily) model.MetricType {
	switch f.GetType() {
	case dto.MetricType_COUNTER:
		return model.MetricTypeCounter
	case dto.MetricType_GAUGE:
		return model.MetricTypeGauge
	case dto.MetricType_HISTOGRAM:
		return model.MetricTypeHistogram
	case dto.MetricType_GAUGE_HISTOGRAM:
		return model.MetricTypeGaugeHistogram
	case dto.MetricType_SUMMARY:
		return model.MetricTypeSummary
	}
	return model.MetricTypeUnknown
}

func (s *selfScraper) identify(b *labels.Builder) labels.Labels {
	return b.Set("job", ownJob).Set("instance", s.instance).Labels()
}
