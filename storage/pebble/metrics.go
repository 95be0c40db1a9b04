package pebble

import (
	"fmt"
	"strconv"

	"github.com/cockroachdb/pebble/v2"
	"github.com/prometheus/client_golang/prometheus"
)

// Stats are the store's most important figures.
type Stats struct {
	SizeBytes        uint64 // of live files on disk
	MemtableBytes    uint64
	CacheBytes       int64
	CacheHits        int64
	CacheMisses      int64
	Files            int64
	L0Sublevels      int32
	Flushes          int64
	Compactions      int64
	Stalls           uint64
	BackgroundErrors uint64
	Corruptions      uint64
	UnsyncedWrites   uint64 // calls whose changes are not durable yet
	Tables           int
	Partitions       int // families × days with cells
	Tablets          int
}

// Stats returns the current figures.
func (s *Store) Stats() Stats {
	m := s.db.Metrics()
	st := Stats{
		SizeBytes:        m.DiskSpaceUsage(),
		MemtableBytes:    m.MemTable.Size,
		CacheBytes:       m.BlockCache.Size,
		CacheHits:        m.BlockCache.Hits,
		CacheMisses:      m.BlockCache.Misses,
		L0Sublevels:      m.Levels[0].Sublevels,
		Flushes:          m.Flush.Count,
		Compactions:      m.Compact.Count,
		Stalls:           s.health.Stalls.Load(),
		BackgroundErrors: s.health.BackgroundErrors.Load(),
		Corruptions:      s.health.Corruptions.Load(),
		UnsyncedWrites:   s.applied.Load() - min(s.synced.Load(), s.applied.Load()),
	}
	for i := range m.Levels {
		st.Files += m.Levels[i].TablesCount
	}
	for _, t := range s.tablesByName() {
		st.Tables++
		st.Tablets += len(t.tablets.Snapshot())
		for _, f := range t.families {
			st.Partitions += len(f.Days.List())
		}
	}
	return st
}

// Metrics returns the tree's own report as text.
func (s *Store) Metrics() string { return s.db.Metrics().String() }

// registerMetrics registers the metrics with Options.Registerer.
func (s *Store) registerMetrics() error {
	if s.opts.Registerer == nil {
		return nil
	}
	c := newCollector(s)
	if err := s.opts.Registerer.Register(c); err != nil {
		return fmt.Errorf("register storage metrics: %w", err)
	}
	s.unregister = func() { s.opts.Registerer.Unregister(c) }
	return nil
}

// collector reads the figures at each scrape.
type collector struct {
	s      *Store
	series []figure
	levels []levelFigure
}

type figure struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(*pebble.Metrics, *Store) float64
}

type levelFigure struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(*pebble.LevelMetrics) float64
}

func newCollector(s *Store) *collector {
	c := &collector{s: s}
	c.describeTree()
	c.describeHealth()
	c.describeDayChunks()
	c.describeLevels()
	return c
}

func (c *collector) add(
	name, help string, kind prometheus.ValueType, value func(*pebble.Metrics, *Store) float64,
) {
	c.series = append(c.series, figure{prometheus.NewDesc("tsdb_pebble_"+name, help, nil, nil), kind, value})
}

func (c *collector) describeTree() {
	const gauge, counter = prometheus.GaugeValue, prometheus.CounterValue
	c.add("disk_bytes", "Size of all files of the store.", gauge,
		func(m *pebble.Metrics, _ *Store) float64 { return float64(m.DiskSpaceUsage()) })
	c.add("memtable_bytes", "Memory in memtables.", gauge,
		func(m *pebble.Metrics, _ *Store) float64 { return float64(m.MemTable.Size) })
	c.add("cache_bytes", "Memory in the block cache.", gauge,
		func(m *pebble.Metrics, _ *Store) float64 { return float64(m.BlockCache.Size) })
	c.add("cache_hits_total", "Blocks found in the cache.", counter,
		func(m *pebble.Metrics, _ *Store) float64 { return float64(m.BlockCache.Hits) })
	c.add("cache_misses_total", "Blocks read from files.", counter,
		func(m *pebble.Metrics, _ *Store) float64 { return float64(m.BlockCache.Misses) })
	c.add("flushes_total", "Flushes of memtables.", counter,
		func(m *pebble.Metrics, _ *Store) float64 { return float64(m.Flush.Count) })
	c.add("compactions_total", "Compactions finished.", counter,
		func(m *pebble.Metrics, _ *Store) float64 { return float64(m.Compact.Count) })
	c.add("compactions_running", "Compactions that run.", gauge,
		func(m *pebble.Metrics, _ *Store) float64 { return float64(m.Compact.NumInProgress) })
	c.add("compaction_debt_bytes", "Estimated bytes that compactions still have to rewrite.", gauge,
		func(m *pebble.Metrics, _ *Store) float64 { return float64(m.Compact.EstimatedDebt) })
	c.add("compaction_seconds_total", "Time spent in compactions.", counter,
		func(m *pebble.Metrics, _ *Store) float64 { return m.Compact.Duration.Seconds() })
	c.add("ingestions_total", "Loads accepted.", counter,
		func(m *pebble.Metrics, _ *Store) float64 { return float64(m.Ingest.Count) })
	c.add("read_amplification", "Sorted runs that a read may have to search.", gauge,
		func(m *pebble.Metrics, _ *Store) float64 { return float64(m.ReadAmp()) })
}

func (c *collector) describeHealth() {
	const gauge, counter = prometheus.GaugeValue, prometheus.CounterValue
	c.add("stalls_total", "Times that the tree stalled writes.", counter,
		func(_ *pebble.Metrics, s *Store) float64 { return float64(s.health.Stalls.Load()) })
	c.add("background_errors_total", "Failures of flushes and compactions.", counter,
		func(_ *pebble.Metrics, s *Store) float64 { return float64(s.health.BackgroundErrors.Load()) })
	c.add("corruptions_total", "Times that stored data was found damaged.", counter,
		func(_ *pebble.Metrics, s *Store) float64 { return float64(s.health.Corruptions.Load()) })
	c.add("manifest_waits_total", "Times that the manifest began to wait for disk space, descriptors or memory.", counter,
		func(_ *pebble.Metrics, s *Store) float64 { return float64(s.health.Waits.Load()) })
	c.add("slow_writes_total", "File operations that took too long.", counter,
		func(_ *pebble.Metrics, s *Store) float64 { return float64(s.health.SlowWrites.Load()) })
	c.add("writable", "1 while writes may enter, 0 while the store refuses them.", gauge,
		func(_ *pebble.Metrics, s *Store) float64 {
			if s.health.Writable() != nil {
				return 0
			}
			return 1
		})
	c.add("unsynced_writes", "Write calls that no flush has made durable yet.", gauge,
		func(_ *pebble.Metrics, s *Store) float64 {
			synced := s.synced.Load()
			return float64(max(s.applied.Load(), synced) - synced)
		})
}

func (c *collector) describeDayChunks() {
	add := func(name, help string, figure func(*dayChunkFigures) float64) {
		c.add("daychunk_"+name, help, prometheus.CounterValue,
			func(_ *pebble.Metrics, s *Store) float64 { return figure(&s.dayChunkFigures) })
	}
	add("partitions_total", "Days of a family that were packed.", func(b *dayChunkFigures) float64 { return float64(b.days.Load()) })
	add("cells_total", "Cells packed into day chunks.", func(b *dayChunkFigures) float64 { return float64(b.cells.Load()) })
	add("bytes_before_total", "Size of cells before they were packed.",
		func(b *dayChunkFigures) float64 { return float64(b.bytesBefore.Load()) })
	add("bytes_after_total", "Size of the files with day chunks.",
		func(b *dayChunkFigures) float64 { return float64(b.bytesAfter.Load()) })
	add("seconds_total", "Time spent packing days.", func(b *dayChunkFigures) float64 { return float64(b.nanos.Load()) / 1e9 })
	add("failures_total", "Days that could not be packed; the engine retries them.",
		func(b *dayChunkFigures) float64 { return float64(b.failures.Load()) })
}

func (c *collector) describeLevels() {
	level := func(name, help string, kind prometheus.ValueType, value func(*pebble.LevelMetrics) float64) {
		desc := prometheus.NewDesc("tsdb_pebble_level_"+name, help, []string{"level"}, nil)
		c.levels = append(c.levels, levelFigure{desc, kind, value})
	}
	level("files", "Files in the level.", prometheus.GaugeValue,
		func(l *pebble.LevelMetrics) float64 { return float64(l.TablesCount) })
	level("bytes", "Size of the level.", prometheus.GaugeValue,
		func(l *pebble.LevelMetrics) float64 { return float64(l.TablesSize) })
	level("compacted_bytes_total", "Bytes that compactions wrote to the level.", prometheus.CounterValue,
		func(l *pebble.LevelMetrics) float64 { return float64(l.TableBytesCompacted) })
	level("flushed_bytes_total", "Bytes that flushes wrote to the level.", prometheus.CounterValue,
		func(l *pebble.LevelMetrics) float64 { return float64(l.TableBytesFlushed) })
	level("ingested_bytes_total", "Bytes that loads added to the level.", prometheus.CounterValue,
		func(l *pebble.LevelMetrics) float64 { return float64(l.TableBytesIngested) })
}

// Describe is part of prometheus.Collector.
func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	for _, f := range c.series {
		ch <- f.desc
	}
	for _, f := range c.levels {
		ch <- f.desc
	}
}

// Collect is part of prometheus.Collector.
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	m := c.s.db.Metrics()
	for _, f := range c.series {
		ch <- prometheus.MustNewConstMetric(f.desc, f.kind, f.value(m, c.s))
	}
	for _, f := range c.levels {
		for i := range m.Levels {
			ch <- prometheus.MustNewConstMetric(f.desc, f.kind, f.value(&m.Levels[i]), strconv.Itoa(i))
		}
	}
}
