package index

import "github.com/prometheus/client_golang/prometheus"

// indexMetrics are what an operator sees of the index.
type indexMetrics struct {
	added, retired, parts, partBytes                   prometheus.Counter
	compactions, compactionFailures, compactionSeconds prometheus.Counter
	monthCompactions, dayReads, monthReads             prometheus.Counter
	cacheEvicted                                       prometheus.Counter
	repairs, cacheHits, cacheMisses                    prometheus.Counter
	damagedDays                                        prometheus.Gauge
	series, cacheBytes, memory, waiting                prometheus.GaugeFunc
}

func newMetrics(x *Index) *indexMetrics {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: "tsdb_index_" + name, Help: help})
	}
	gauge := func(name, help string, value func() float64) prometheus.GaugeFunc {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "tsdb_index_" + name, Help: help}, value)
	}
	return &indexMetrics{
		added:              counter("series_added_total", "Series added to the active index."),
		retired:            counter("series_retired_total", "Idle series removed from the active index."),
		parts:              counter("journal_parts_total", "Journal parts written by persisting."),
		partBytes:          counter("journal_bytes_total", "Bytes of journal parts written by persisting."),
		compactions:        counter("compactions_total", "Compactions of days, including those for late data."),
		monthCompactions:   counter("month_compactions_total", "Compactions of months, usually one for each new day."),
		dayReads:           counter("day_reads_total", "Segments of days that look-ups read, from the cache or not."),
		monthReads:         counter("month_reads_total", "Segments of months that look-ups read, from the cache or not."),
		cacheEvicted:       counter("cache_evictions_total", "Parts of segments evicted from the cache."),
		compactionFailures: counter("compaction_failures_total", "Compactions that failed; they are tried again."),
		compactionSeconds:  counter("compaction_seconds_total", "Time spent compacting days and months."),
		repairs:            counter("repairs_total", "Repairs of damaged journals and months."),
		cacheHits:          counter("cache_hits_total", "Parts of segments found in the cache."),
		cacheMisses:        counter("cache_misses_total", "Parts of segments that had to be read."),
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
		waiting: gauge("open_days", "Days with hours that are not in a segment yet.", func() float64 {
			return float64(len(x.open.All()))
		}),
	}
}

func (m *indexMetrics) register(r prometheus.Registerer) error {
	if r == nil {
		return nil
	}
	for _, c := range []prometheus.Collector{
		m.added, m.retired, m.parts, m.partBytes, m.compactions, m.monthCompactions, m.dayReads, m.monthReads, m.cacheEvicted,
		m.compactionFailures, m.compactionSeconds, m.repairs, m.damagedDays,
		m.cacheHits, m.cacheMisses, m.series, m.cacheBytes, m.memory, m.waiting,
	} {
		if err := r.Register(c); err != nil {
			return err
		}
	}
	return nil
}
