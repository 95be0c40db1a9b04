package tables

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"halite/storage"
)

// tabletCacheFactor bounds the cost of listing tablets: figures are reused for this many times the duration of the last
// listing. So listing takes at most one percent of a core.
const tabletCacheFactor = 100

// tabletSource is the part of storage.Store that lists tablets.
type tabletSource interface {
	Tables(ctx context.Context) ([]storage.TableSchema, error)
	Table(ctx context.Context, name string) (storage.Table, error)
}

// tabletCollector turns the tablets of each table into a few metrics that do not grow with the number of tablets.
type tabletCollector struct {
	source   tabletSource
	now      func() time.Time
	failures prometheus.Counter
	descs    [4]*prometheus.Desc

	mu     sync.Mutex
	tables []tableFigures
	due    time.Time
}

// tableFigures are the values of a table, in the order of the descs.
type tableFigures struct {
	name   string
	values [4]float64
}

// NewTabletCollector returns metrics of the tablets of source.
func NewTabletCollector(source tabletSource) *tabletCollector {
	c := &tabletCollector{source: source, now: time.Now, failures: prometheus.NewCounter(prometheus.CounterOpts{
		Name: "tsdb_table_list_failures_total", Help: "Failed attempts to list the tablets for these metrics.",
	})}
	for i, m := range []struct{ name, help string }{
		{"tablets", "Tablets, the contiguous row ranges that a table consists of."},
		{"size_bytes", "Estimated size of the table on disk."},
		{"largest_tablet_bytes", "Estimated size of the table's largest tablet."},
		{"hottest_tablet_share", "Share of the hottest tablet in the rows written to the table, since the tablets were " +
			"created or the server started. It is 0 before the first row."},
	} {
		c.descs[i] = prometheus.NewDesc("tsdb_table_"+m.name, m.help, []string{"table"}, nil)
	}
	return c
}

// Describe is part of prometheus.Collector.
func (c *tabletCollector) Describe(descs chan<- *prometheus.Desc) {
	c.failures.Describe(descs)
	for _, d := range c.descs {
		descs <- d
	}
}

// Collect is part of prometheus.Collector. If it cannot list the tablets, it counts the failure and returns the last figures, so
// that other metrics remain available.
func (c *tabletCollector) Collect(metrics chan<- prometheus.Metric) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if began := c.now(); !began.Before(c.due) {
		tables, err := listTablets(context.Background(), c.source)
		if err != nil {
			c.failures.Inc()
		} else {
			c.tables = tables
		}
		ended := c.now()
		c.due = ended.Add(tabletCacheFactor * ended.Sub(began))
	}
	c.failures.Collect(metrics)
	for _, t := range c.tables {
		for i, v := range t.values {
			metrics <- prometheus.MustNewConstMetric(c.descs[i], prometheus.GaugeValue, v, t.name)
		}
	}
}

func listTablets(ctx context.Context, source tabletSource) ([]tableFigures, error) {
	schemas, err := source.Tables(ctx)
	if err != nil {
		return nil, err
	}
	var tables []tableFigures
	for _, schema := range schemas {
		table, err := source.Table(ctx, schema.Name)
		if err != nil {
			return nil, err
		}
		tablets, err := table.Tablets(ctx)
		if err != nil {
			return nil, err
		}
		tables = append(tables, tableFigures{schema.Name, sumTablets(tablets)})
	}
	return tables, nil
}

func sumTablets(tablets []storage.Tablet) [4]float64 {
	var sizeBytes, largestBytes, rows, hottestRows uint64
	for _, t := range tablets {
		sizeBytes += t.SizeBytes
		largestBytes = max(largestBytes, t.SizeBytes)
		rows += t.RowsWritten
		hottestRows = max(hottestRows, t.RowsWritten)
	}
	share := 0.0
	if rows > 0 {
		share = float64(hottestRows) / float64(rows)
	}
	return [4]float64{float64(len(tablets)), float64(sizeBytes), float64(largestBytes), share}
}
