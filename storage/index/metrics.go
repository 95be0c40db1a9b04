package index

import (
	"github.com/prometheus/client_golang/prometheus"

	"halite/storage/index/compaction"
)

// indexMetrics are the metrics of an index.
type indexMetrics struct {
	added, retired, records, recordBytes prometheus.Counter
	compaction                           compaction.Metrics
	dayReads, monthReads                 prometheus.Counter
	cacheHits, cacheMisses, cacheEvicted prometheus.Counter
	repairs                              prometheus.Counter
	series, cacheBytes, memory, waiting  prometheus.GaugeFunc
}

func newMetrics(x *Index) *indexMetrics {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: "tsdb_index_" + name, Help: help})
	}
	gauge := func(name, help string, value func() float64) prometheus.GaugeFunc {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "tsdb_index_" + name, Help: help}, value)
	}
	return &indexMetrics{
		compaction: compaction.Metrics{
			Days:     counter("compactions_total", "Compactions of days, including those for late data."),
			Months:   counter("month_compactions_total", "Compactions of months, usually one for each new day."),
			Failures: counter("compaction_failures_total", "Compactions that failed; the index retries them."),
			Seconds:  counter("compaction_seconds_total", "Time spent compacting days and months."),
			DamagedDays: prometheus.NewGauge(prometheus.GaugeOpts{
				Name: "tsdb_index_damaged_day_segments", Help: "Days that months omit because their segment is damaged; rebuild them.",
			}),
		},
		added:        counter("series_added_total", "Series added to the active index."),
		retired:      counter("series_retired_total", "Idle series removed from the active index."),
		records:      counter("journal_records_total", "Journal records written."),
		recordBytes:  counter("journal_bytes_total", "Bytes of journal records written."),
		dayReads:     counter("day_reads_total", "Segments of days that look-ups read, from the cache or not."),
		monthReads:   counter("month_reads_total", "Segments of months that look-ups read, from the cache or not."),
		cacheEvicted: counter("cache_evictions_total", "Parts of segments evicted from the cache."),
		repairs:      counter("repairs_total", "Repairs of damaged journals and months."),
		cacheHits:    counter("cache_hits_total", "Parts of segments found in the cache."),
		cacheMisses:  counter("cache_misses_total", "Parts of segments read from the tables."),
		series: gauge("active_series", "Series in the active index.", func() float64 {
			return float64(x.active.SeriesCount())
		}),
		cacheBytes: gauge("cache_bytes", "Memory of cached parts of segments.", func() float64 {
			return float64(x.store.Cache.SizeBytes())
		}),
		memory: gauge("memory_bytes", "Memory of the active index and the open days.", func() float64 {
			return float64(x.SizeBytes())
		}),
		waiting: gauge("open_day_segments", "Days with hours that are not in a segment yet.", func() float64 {
			return float64(len(x.open.All()))
		}),
	}
}

func (m *indexMetrics) register(r prometheus.Registerer) error {
	if r == nil {
		return nil
	}
	for _, c := range []prometheus.Collector{
		m.added, m.retired, m.records, m.recordBytes, m.dayReads, m.monthReads, m.cacheHits, m.cacheMisses, m.cacheEvicted,
		m.compaction.Days, m.compaction.Months, m.compaction.Failures, m.compaction.Seconds, m.compaction.DamagedDays,
		m.repairs, m.series, m.cacheBytes, m.memory, m.waiting,
	} {
		if err := r.Register(c); err != nil {
			return err
		}
	}
	return nil
}
