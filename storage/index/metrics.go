package index

import "github.com/prometheus/client_golang/prometheus"

// indexMetrics are what an operator sees of the index.
type indexMetrics struct {
	added, retired, parts, partBytes    prometheus.Counter
	folds, foldFailures, foldSeconds    prometheus.Counter
	monthFolds, dayReads, monthReads    prometheus.Counter
	cacheEvicted                        prometheus.Counter
	repairs, cacheHits, cacheMisses     prometheus.Counter
	damagedDays                         prometheus.Gauge
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
		added:        counter("series_added_total", "Series taken into the active index."),
		retired:      counter("series_retired_total", "Idle series dropped from the active index."),
		parts:        counter("journal_parts_total", "Journal parts written by persisting."),
		partBytes:    counter("journal_bytes_total", "Bytes of journal parts written by persisting."),
		folds:        counter("folds_total", "Days folded into segments, repeated folds for late data included."),
		monthFolds:   counter("month_folds_total", "Months folded from their days, usually once for each new day."),
		dayReads:     counter("day_reads_total", "Segments of days that look-ups read, from the cache or not."),
		monthReads:   counter("month_reads_total", "Segments of months that look-ups read, from the cache or not."),
		cacheEvicted: counter("cache_evictions_total", "Parts of segments that the cache let go of for want of room."),
		foldFailures: counter("fold_failures_total", "Folds that failed; the day or month stays as it was and is tried again."),
		foldSeconds:  counter("fold_seconds_total", "Time spent folding days and months."),
		repairs:      counter("repairs_total", "Damaged journals and months that had to be made anew."),
		cacheHits:    counter("cache_hits_total", "Parts of segments found in the cache."),
		cacheMisses:  counter("cache_misses_total", "Parts of segments that had to be read."),
		damagedDays: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "tsdb_index_damaged_days", Help: "Days left out of their month because their segment is damaged; rebuild them.",
		}),
		series: gauge("active_series", "Series in the active index.", func() float64 {
			return float64(x.active.SeriesCount())
		}),
		cacheBytes: gauge("cache_bytes", "Memory taken by parts of segments.", func() float64 {
			return float64(x.store.Cache.SizeBytes())
		}),
		memory: gauge("memory_bytes", "Memory taken by the active index and the open days.", func() float64 {
			return float64(x.SizeBytes())
		}),
		waiting: gauge("open_days", "Days whose touches are not all folded into segments.", func() float64 {
			return float64(len(x.open.All()))
		}),
	}
}

func (m *indexMetrics) register(r prometheus.Registerer) error {
	if r == nil {
		return nil
	}
	for _, c := range []prometheus.Collector{
		m.added, m.retired, m.parts, m.partBytes, m.folds, m.monthFolds, m.dayReads, m.monthReads, m.cacheEvicted,
		m.foldFailures, m.foldSeconds, m.repairs, m.damagedDays,
		m.cacheHits, m.cacheMisses, m.series, m.cacheBytes, m.memory, m.waiting,
	} {
		if err := r.Register(c); err != nil {
			return err
		}
	}
	return nil
}
