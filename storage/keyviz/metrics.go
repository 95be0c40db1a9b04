package keyviz

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// SizeBytes is the memory of the columns, and of the ranges of series.
func (c *Collector) SizeBytes() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.pyramid.sizeBytes + c.series.SizeBytes()
}

// register registers the metrics of the collector.
func (c *Collector) register() {
	if c.opts.Registerer == nil {
		return
	}
	r := promauto.With(c.opts.Registerer)
	gauge := func(name, help string, value func() float64) {
		r.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value)
	}
	gauge("tsdb_keyviz_ranges", "Key ranges whose load is counted.", func() float64 { return float64(c.set.Current().Len()) })
	gauge("tsdb_keyviz_memory_bytes", "Memory of the columns of the key heat map and of the ranges of series.", func() float64 {
		return float64(c.SizeBytes())
	})
	r.NewCounterFunc(prometheus.CounterOpts{
		Name: "tsdb_keyviz_store_failures_total", Help: "Failed attempts to store columns of the key heat map.",
	}, func() float64 { return float64(c.failures.Load()) })
	r.NewCounterFunc(prometheus.CounterOpts{
		Name: "tsdb_keyviz_merged_columns_total", Help: "Columns whose key ranges were merged because of --keyviz.max-memory.",
	}, func() float64 {
		c.mu.Lock()
		defer c.mu.Unlock()
		return float64(c.pyramid.folded)
	})
}
