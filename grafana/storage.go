package grafana

func storage() Dashboard {
	b := newDashboard("storage", "Storage",
		"The embedded engine (levels, compactions, chunks of whole days, tablets) and the series index.")
	b.row("Tree", EnginePebble, treeGraphs()...)
	b.row("Compaction", EnginePebble, compactionGraphs()...)
	b.row("Day chunks", EnginePebble,
		graph{title: "Days packed", unit: unitShort,
			about: "Days of a family whose hours were packed into one value per series, since the start.",
			exprs: one("sum by (instance) (tsdb_pebble_daychunk_partitions_total{@})", "{{instance}}")},
		graph{title: "Bytes saved by packing days", unit: unitBytes,
			about: "Size of the packed hours before and after packing, since the start.",
			exprs: []expr{
				{"sum by (instance) (tsdb_pebble_daychunk_bytes_before_total{@})", "before {{instance}}"},
				{"sum by (instance) (tsdb_pebble_daychunk_bytes_after_total{@})", "after {{instance}}"},
			}},
		graph{title: "Packing of days", unit: unitPerSec,
			about: "Cells packed per second, and failures per second. A day that failed is retried later.",
			exprs: []expr{
				{"sum by (instance) (rate(tsdb_pebble_daychunk_cells_total{@}[@]))", "cells {{instance}}"},
				{"sum by (instance) (rate(tsdb_pebble_daychunk_failures_total{@}[@]))", "failures {{instance}}"},
			}},
	)
	b.row("Tablets", EnginePebble,
		graph{title: "Tablets", unit: unitShort, width: 6, about: "Contiguous row ranges of each table.",
			exprs: one("sum by (table) (tsdb_table_tablets{@})", "{{table}}")},
		graph{title: "Table sizes", unit: unitBytes, width: 6, about: "Estimated size of each table on disk.",
			exprs: one("sum by (table) (tsdb_table_size_bytes{@})", "{{table}}")},
		graph{title: "Largest tablet", unit: unitBytes, width: 6, about: "Estimated size of the largest tablet of each table.",
			exprs: one("max by (table) (tsdb_table_largest_tablet_bytes{@})", "{{table}}")},
		graph{title: "Hottest tablet", unit: unitRatio, width: 6, max: 1,
			about: "Share of written rows in the tablet with the most. With n tablets, 1/n is ideal.",
			exprs: one("max by (table) (tsdb_table_hottest_tablet_share{@})", "{{table}}")},
	)
	b.row("Series index", "", indexGraphs()...)
	return b.d
}

func treeGraphs() []graph {
	return []graph{
		{title: "Bytes by level", unit: unitBytes, stack: true,
			about: "Size of the files of each level. Most data should be in the last level.",
			exprs: one("sum by (level) (tsdb_pebble_level_bytes{@})", "level {{level}}")},
		{title: "Files by level", unit: unitShort, stack: true, about: "Number of files of each level.",
			exprs: one("sum by (level) (tsdb_pebble_level_files{@})", "level {{level}}")},
		{title: "Read amplification", unit: unitShort, about: "Number of sorted runs that a read may have to search.",
			exprs: one("max by (instance) (tsdb_pebble_read_amplification{@})", "{{instance}}")},
		{title: "Block cache hits", unit: unitRatio, max: 1, about: "Share of block reads that hit the cache.",
			exprs: one("sum by (instance) (rate(tsdb_pebble_cache_hits_total{@}[@])) / "+
				"(sum by (instance) (rate(tsdb_pebble_cache_hits_total{@}[@])) + "+
				"sum by (instance) (rate(tsdb_pebble_cache_misses_total{@}[@])))", "{{instance}}")},
		{title: "Memory", unit: unitBytes, about: "Memory in the block cache and in memtables.",
			exprs: []expr{
				{"sum by (instance) (tsdb_pebble_cache_bytes{@})", "cache {{instance}}"},
				{"sum by (instance) (tsdb_pebble_memtable_bytes{@})", "memtables {{instance}}"},
			}},
		{title: "Disk", unit: unitBytes, about: "Size of all files of the store.",
			exprs: one("sum by (instance) (tsdb_pebble_disk_bytes{@})", "{{instance}}")},
	}
}

func compactionGraphs() []graph {
	return []graph{
		{title: "Running", unit: unitShort, about: "Running compactions.",
			exprs: one("sum by (instance) (tsdb_pebble_compactions_running{@})", "{{instance}}")},
		{title: "Debt", unit: unitBytes, about: "Estimated bytes of pending compactions.",
			exprs: one("sum by (instance) (tsdb_pebble_compaction_debt_bytes{@})", "{{instance}}")},
		{title: "Time in compactions", unit: unitRatio, about: "Seconds of compactions per second; above 1 if several run at a time.",
			exprs: one("sum by (instance) (rate(tsdb_pebble_compaction_seconds_total{@}[@]))", "{{instance}}")},
		{title: "Bytes written by source", unit: unitByteRate, stack: true,
			about: "Bytes that flushes, loads and compactions write per second.",
			exprs: []expr{
				{"sum(rate(tsdb_pebble_level_flushed_bytes_total{@}[@]))", "flushes"},
				{"sum(rate(tsdb_pebble_level_ingested_bytes_total{@}[@]))", "loads"},
				{"sum(rate(tsdb_pebble_level_compacted_bytes_total{@}[@]))", "compactions"},
			}},
		{title: "Compacted by level", unit: unitByteRate, stack: true,
			about: "Bytes that compactions write to each level per second.",
			exprs: one("sum by (level) (rate(tsdb_pebble_level_compacted_bytes_total{@}[@]))", "level {{level}}")},
		{title: "Jobs", unit: unitPerSec, about: "Finished memtable flushes, loads and compactions per second.",
			exprs: []expr{
				{"sum(rate(tsdb_pebble_flushes_total{@}[@]))", "flushes"},
				{"sum(rate(tsdb_pebble_ingestions_total{@}[@]))", "loads"},
				{"sum(rate(tsdb_pebble_compactions_total{@}[@]))", "compactions"},
			}},
		{title: "Write stalls", unit: unitPerSec, about: "Write stalls and slow file operations per second.",
			exprs: []expr{
				{"sum by (instance) (rate(tsdb_pebble_stalls_total{@}[@]))", "stalls {{instance}}"},
				{"sum by (instance) (rate(tsdb_pebble_slow_writes_total{@}[@]))", "slow operations {{instance}}"},
			}},
		{title: "Not durable yet", unit: unitShort,
			about: "Writes to tables that no flush has made durable yet. The log protects them.",
			exprs: one("sum by (instance) (tsdb_pebble_unsynced_writes{@})", "{{instance}}")},
		{title: "Faults", unit: unitShort, about: "Failures of background jobs and detections of damaged data since the start.",
			exprs: []expr{
				{"sum by (instance) (tsdb_pebble_background_errors_total{@})", "background {{instance}}"},
				{"sum by (instance) (tsdb_pebble_corruptions_total{@})", "damaged {{instance}}"},
			}},
	}
}

func indexGraphs() []graph {
	return []graph{
		{title: "Series", unit: unitShort, about: "Active series in the index.",
			exprs: one("sum by (instance) (tsdb_index_active_series{@})", "{{instance}}")},
		{title: "Memory", unit: unitBytes, about: "Memory of the active series with the open days, and of the cache of closed days.",
			exprs: []expr{
				{"sum by (instance) (tsdb_index_memory_bytes{@})", "active {{instance}}"},
				{"sum by (instance) (tsdb_index_cache_bytes{@})", "cache {{instance}}"},
			}},
		{title: "Closed days looked up", unit: unitPerSec,
			about: "Segments of days and months that lookups read, from the cache or from disk.",
			exprs: []expr{
				{"sum by (instance) (rate(tsdb_index_day_reads_total{@}[@]))", "days {{instance}}"},
				{"sum by (instance) (rate(tsdb_index_month_reads_total{@}[@]))", "months {{instance}}"},
			}},
		{title: "Segment cache", unit: unitPerSec, about: "Blocks of segments found in the cache, and blocks read from disk.",
			exprs: []expr{
				{"sum by (instance) (rate(tsdb_index_cache_hits_total{@}[@]))", "found {{instance}}"},
				{"sum by (instance) (rate(tsdb_index_cache_misses_total{@}[@]))", "read {{instance}}"},
			}},
		{title: "Journal", unit: unitByteRate, about: "Bytes written to the journal of the open day per second.",
			exprs: one("sum by (instance) (rate(tsdb_index_journal_bytes_total{@}[@]))", "{{instance}}")},
		{title: "Faults", unit: unitShort,
			about: "Failed compactions of the index, which are retried; repaired journals and months; damaged days left out.",
			exprs: []expr{
				{"sum(tsdb_index_compaction_failures_total{@})", "failed compactions"},
				{"sum(tsdb_index_repairs_total{@})", "repaired"},
				{"sum(tsdb_index_damaged_day_segments{@})", "days left out"},
			}},
	}
}
