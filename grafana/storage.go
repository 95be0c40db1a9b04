package grafana

func storage() Dashboard {
	b := newDashboard("storage", "Storage",
		"The embedded engine: levels, compactions, bundles of days, tablets; and the catalogue of series.")
	b.row("Tree", EnginePebble, treeGraphs()...)
	b.row("Compaction", EnginePebble, compactionGraphs()...)
	b.row("Bundles of days", EnginePebble,
		graph{title: "Days bundled", unit: unitShort,
			about: "Days of a family whose hours were packed into one value a series, since " +
				"the start.",
			exprs: one("sum by (instance) (tsdb_pebble_bundle_days_total{@})", "{{instance}}")},
		graph{title: "What bundling saved", unit: unitBytes,
			about: "Size of what was bundled, and of the files it became, since the start.",
			exprs: []expr{
				{"sum by (instance) (tsdb_pebble_bundle_bytes_before_total{@})", "before {{instance}}"},
				{"sum by (instance) (tsdb_pebble_bundle_bytes_after_total{@})", "after {{instance}}"},
			}},
		graph{title: "Bundling", unit: unitPerSec, about: "Cells that went into bundles a second, and days that failed and wait.",
			exprs: []expr{
				{"sum by (instance) (rate(tsdb_pebble_bundle_cells_total{@}[@]))", "cells {{instance}}"},
				{"sum by (instance) (rate(tsdb_pebble_bundle_failures_total{@}[@]))", "failures {{instance}}"},
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
			about: "Share of the rows written that went to the tablet with most of them. With n tablets, 1/n is perfect.",
			exprs: one("max by (table) (tsdb_table_hottest_tablet_share{@})", "{{table}}")},
	)
	b.row("Catalogue of series", "", catalogueGraphs()...)
	return b.d
}

func treeGraphs() []graph {
	return []graph{
		{title: "Bytes by level", unit: unitBytes, stack: true, about: "Files of each level; most belong into the last one.",
			exprs: one("sum by (level) (tsdb_pebble_level_bytes{@})", "level {{level}}")},
		{title: "Files by level", unit: unitShort, stack: true, about: "Number of files of each level.",
			exprs: one("sum by (level) (tsdb_pebble_level_files{@})", "level {{level}}")},
		{title: "Read amplification", unit: unitShort, about: "Sorted runs that a read may have to look at.",
			exprs: one("max by (instance) (tsdb_pebble_read_amplification{@})", "{{instance}}")},
		{title: "Block cache hits", unit: unitRatio, max: 1, about: "Share of blocks found in the cache.",
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
		{title: "Running", unit: unitShort, about: "Compactions under way.",
			exprs: one("sum by (instance) (tsdb_pebble_compactions_running{@})", "{{instance}}")},
		{title: "Debt", unit: unitBytes, about: "Estimated bytes to compact until the tree is in shape.",
			exprs: one("sum by (instance) (tsdb_pebble_compaction_debt_bytes{@})", "{{instance}}")},
		{title: "Time in compactions", unit: unitRatio, about: "Share of the time; above 1 if several run.",
			exprs: one("sum by (instance) (rate(tsdb_pebble_compaction_seconds_total{@}[@]))", "{{instance}}")},
		{title: "Bytes written by source", unit: unitByteRate, stack: true,
			about: "What flushes, loads and compactions write a second.",
			exprs: []expr{
				{"sum(rate(tsdb_pebble_level_flushed_bytes_total{@}[@]))", "flushes"},
				{"sum(rate(tsdb_pebble_level_ingested_bytes_total{@}[@]))", "loads"},
				{"sum(rate(tsdb_pebble_level_compacted_bytes_total{@}[@]))", "compactions"},
			}},
		{title: "Compacted by level", unit: unitByteRate, stack: true, about: "Bytes that compactions write to each level a second.",
			exprs: one("sum by (level) (rate(tsdb_pebble_level_compacted_bytes_total{@}[@]))", "level {{level}}")},
		{title: "Jobs", unit: unitPerSec, about: "Flushes of memtables, loads taken and compactions finished a second.",
			exprs: []expr{
				{"sum(rate(tsdb_pebble_flushes_total{@}[@]))", "flushes"},
				{"sum(rate(tsdb_pebble_ingestions_total{@}[@]))", "loads"},
				{"sum(rate(tsdb_pebble_compactions_total{@}[@]))", "compactions"},
			}},
		{title: "Held back", unit: unitPerSec, about: "Times that writes had to wait for the tree, and slow operations on files.",
			exprs: []expr{
				{"sum by (instance) (rate(tsdb_pebble_stalls_total{@}[@]))", "stalls {{instance}}"},
				{"sum by (instance) (rate(tsdb_pebble_slow_writes_total{@}[@]))", "slow operations {{instance}}"},
			}},
		{title: "Not durable yet", unit: unitShort,
			about: "Write calls to tables that no flush has made durable; the log protects them.",
			exprs: one("sum by (instance) (tsdb_pebble_unsynced_writes{@})", "{{instance}}")},
		{title: "Faults", unit: unitShort, about: "Failures of background jobs, and finds of damaged data, since the start.",
			exprs: []expr{
				{"sum by (instance) (tsdb_pebble_background_errors_total{@})", "background {{instance}}"},
				{"sum by (instance) (tsdb_pebble_corruptions_total{@})", "damaged {{instance}}"},
			}},
	}
}

func catalogueGraphs() []graph {
	return []graph{
		{title: "Series", unit: unitShort, about: "Series in the active catalogue.",
			exprs: one("sum by (instance) (tsdb_index_active_series{@})", "{{instance}}")},
		{title: "Memory", unit: unitBytes, about: "Active catalogue with the open days, and the cache of closed ones.",
			exprs: []expr{
				{"sum by (instance) (tsdb_index_memory_bytes{@})", "active {{instance}}"},
				{"sum by (instance) (tsdb_index_cache_bytes{@})", "cache {{instance}}"},
			}},
		{title: "Closed days looked up", unit: unitPerSec,
			about: "Segments of days and months that look-ups read, from the cache or not.",
			exprs: []expr{
				{"sum by (instance) (rate(tsdb_index_day_reads_total{@}[@]))", "days {{instance}}"},
				{"sum by (instance) (rate(tsdb_index_month_reads_total{@}[@]))", "months {{instance}}"},
			}},
		{title: "Segment cache", unit: unitPerSec, about: "Parts of segments found in the cache, and those that had to be read.",
			exprs: []expr{
				{"sum by (instance) (rate(tsdb_index_cache_hits_total{@}[@]))", "found {{instance}}"},
				{"sum by (instance) (rate(tsdb_index_cache_misses_total{@}[@]))", "read {{instance}}"},
			}},
		{title: "Journal", unit: unitByteRate, about: "Bytes of the journal of the open day written a second.",
			exprs: one("sum by (instance) (rate(tsdb_index_journal_bytes_total{@}[@]))", "{{instance}}")},
		{title: "Faults", unit: unitShort,
			about: "Folds that failed and are tried again, journals and months made anew, days left out.",
			exprs: []expr{
				{"sum(tsdb_index_fold_failures_total{@})", "failed folds"},
				{"sum(tsdb_index_repairs_total{@})", "made anew"},
				{"sum(tsdb_index_damaged_days{@})", "days left out"},
			}},
	}
}
