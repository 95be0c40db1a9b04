package index

import "github.com/prometheus/client_golang/prometheus"

// indexMetrics are what an operator sees of the catalogue.
type indexMetrics struct {
	added, retired, parts, partBytes    prometheus.Counter
	folds, foldFailures, foldSeconds    prometheus.Counter
	repairs, cacheHits, cacheMisses     prometheus.Counter
	series, cacheBytes, memory, waiting prometheus.GaugeFunc
}

func newMetrics(x *Index) *indexMetrics {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: "tsdb_index_" + name, Help: help})
	}
	gauge := func(name, help string, value func() float64) prometheus.GaugeFunc {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "tsdb_index_" + name, Help: help}, value)
	}
	return &indexMetrics{
		added:        counter("series_added_total", "Series taken into the active catalogue."),
		retired:      counter("series_retired_total", "Idle series dropped from the active catalogue."),
		parts:        counter("journal_parts_total", "Journal parts written by persisting."),
		partBytes:    counter("journal_bytes_total", "Bytes of journal parts written by persisting."),
		folds:        counter("folds_total", "Days folded into segments, repeated folds for late data included."),
		foldFailures: counter("fold_failures_total", "Folds that failed; the day stays as it was and is tried again."),
		foldSeconds:  counter("fold_seconds_total", "Time spent folding days."),
		repairs:      counter("repairs_total", "Damaged journals made anew from the data rows."),
		cacheHits:    counter("cache_hits_total", "Parts of closed days found in the cache."),
		cacheMisses:  counter("cache_misses_total", "Parts of closed days that had to be read."),
		series: gauge("active_series", "Series in the active catalogue.", func() float64 {
			return float64(x.cat.series.Load())
		}),
		cacheBytes: gauge("cache_bytes", "Memory taken by parts of closed days.", func() float64 {
			return float64(x.cache.sizeBytes())
		}),
		memory: gauge("memory_bytes", "Memory taken by the active catalogue and the open days.", func() float64 {
			return float64(x.sizeBytes())
		}),
		waiting: gauge("open_days", "Days whose touches are not all folded into segments.", func() float64 {
			return float64(len(x.open.all()))
		}),
	}
}

func (m *indexMetrics) register(r prometheus.Registerer) error {
	if r == nil {
		return nil
	}
	for _, c := range []prometheus.Collector{
		m.added, m.retired, m.parts, m.partBytes, m.folds, m.foldFailures, m.foldSeconds, m.repairs,
		m.cacheHits, m.cacheMisses, m.series, m.cacheBytes, m.memory, m.waiting,
	} {
		if err := r.Register(c); err != nil {
			return err
		}
	}
	return nil
}
