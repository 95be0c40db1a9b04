package grafana

func rollups() Dashboard {
	b := newDashboard("rollups", "Rollups and retention",
		"Are the rollups up to date, what does computing them cost, and what is kept? "+
			"Rollups are off with --no-storage.rollups, and by default with Bigtable.")
	b.row("Up to date", EnginePebble,
		graph{title: "Behind", unit: unitSeconds,
			about: "Time since the end of the oldest closed day without valid rollups; 0 is up to date.",
			exprs: one("max by (instance) (tsdb_rollup_lag_seconds{@})", "{{instance}}")},
		graph{title: "To be computed", unit: unitShort,
			about: "Days and months whose rollups are to be computed, including the open month.",
			exprs: []expr{
				{"sum by (instance) (tsdb_rollup_pending_day_passes{@})", "days {{instance}}"},
				{"sum by (instance) (tsdb_rollup_pending_months{@})", "months {{instance}}"},
			}},
		graph{title: "Marked dirty", unit: unitPerSec, about: "Series-days marked dirty by late or changed samples.",
			exprs: one("sum by (instance) (rate(tsdb_rollup_marks_total{@}[@]))", "{{instance}}")},
	)
	b.row("Work", EnginePebble,
		graph{title: "Passes", unit: unitShort, about: "Days, parts of days and months computed since the start.",
			exprs: one("sum by (kind) (tsdb_rollup_passes_total{@})", "{{kind}}")},
		graph{title: "Series", unit: unitPerSec, about: "Series-days whose rollups were computed per second.",
			exprs: one("sum by (instance) (rate(tsdb_rollup_series_total{@}[@]))", "{{instance}}")},
		graph{title: "Current pass", unit: unitShort, about: "Series that the current pass has computed; 0 without a pass.",
			exprs: one("sum by (instance) (tsdb_rollup_pass_series{@})", "{{instance}}")},
		graph{title: "Samples read", unit: unitPerSec, about: "Samples that the job reads per second.",
			exprs: one("sum by (instance) (rate(tsdb_rollup_samples_total{@}[@]))", "{{instance}}")},
		graph{title: "Bytes written", unit: unitByteRate, about: "Bytes of rollups written per second.",
			exprs: one("sum by (instance) (rate(tsdb_rollup_bytes_total{@}[@]))", "{{instance}}")},
		graph{title: "Busy", unit: unitRatio, max: 1, about: "Share of the time in which the job works.",
			exprs: one("sum by (instance) (rate(tsdb_rollup_busy_seconds_total{@}[@]))", "{{instance}}")},
	)
	b.row("Reads", EnginePebble,
		graph{title: "Rollups for queries", unit: unitPerSec, width: 24,
			about: "Hits and misses per second of decoded rollups of a day or month in memory.",
			exprs: []expr{
				{"sum by (instance) (rate(tsdb_query_state_cache_hits_total{@}[@]))", "hits {{instance}}"},
				{"sum by (instance) (rate(tsdb_query_state_cache_misses_total{@}[@]))", "misses {{instance}}"},
			}},
	)
	b.row("Faults", EnginePebble,
		graph{title: "Failed passes", unit: unitShort, width: 12,
			about: "Failed passes since the start. The next run repeats them.",
			exprs: one("sum by (instance) (tsdb_rollup_failures_total{@})", "{{instance}}")},
		graph{title: "Damaged", unit: unitShort, width: 12,
			about: "Damaged rollups, which queries replace by samples, and damaged rows of samples, which have no rollups.",
			exprs: []expr{
				{"sum by (instance) (tsdb_rollup_corrupt_cells_total{@})", "rollups {{instance}}"},
				{"sum by (instance) (tsdb_rollup_unreadable_rows_total{@})", "rows {{instance}}"},
			}},
	)
	b.row("Retention", "",
		graph{title: "Samples and rollups on disk", unit: unitBytes, engine: EnginePebble,
			about: "Estimated size of the tables of samples, hours and days. Retention bounds each.",
			exprs: one("sum by (table) (tsdb_table_size_bytes{@})", "{{table}}")},
		graph{title: "Days in the series index", unit: unitShort,
			about: "Days not compacted yet, and days and months compacted since the start.",
			exprs: []expr{
				{"sum by (instance) (tsdb_index_open_day_segments{@})", "open {{instance}}"},
				{"sum by (instance) (tsdb_index_compactions_total{@})", "days compacted {{instance}}"},
				{"sum by (instance) (tsdb_index_month_compactions_total{@})", "months compacted {{instance}}"},
			}},
		graph{title: "Series dropped", unit: unitPerSec,
			about: "Idle series removed from memory per second. Lookups still find their days.",
			exprs: one("sum by (instance) (rate(tsdb_index_series_retired_total{@}[@]))", "{{instance}}")},
	)
	freed(b)
	return b.d
}

// freed adds the row about space that retention rules and deletions free.
func freed(b *builder) {
	b.row("Freed", EnginePebble,
		graph{title: "Freed by retention rules", unit: unitBytes,
			about: "Bytes dropped since the start because a schema rule has a shorter retention than the longest one.",
			exprs: one("sum by (tier) (tsdb_retention_freed_bytes_total{@})", "{{tier}}")},
		graph{title: "Failed sweeps", unit: unitShort, about: "Failed sweeps since the start. The next sweep repeats them.",
			exprs: one("sum by (instance) (tsdb_retention_failures_total{@})", "{{instance}}")},
		graph{title: "Jump of the clock", unit: unitSeconds,
			about: "The jump of the server's clock that keeps expired data from being dropped; 0 if there is none.",
			exprs: one("max by (instance) (tsdb_retention_clock_ahead_seconds{@})", "{{instance}}")},
		graph{title: "Deletions", unit: unitShort,
			about: "Deletions executed since the start, and deletions whose rows are not cleaned yet. Reads of these rows take longer.",
			exprs: []expr{
				{"sum by (instance) (tsdb_tombstones_created_total{@})", "executed {{instance}}"},
				{"sum by (instance) (tsdb_tombstones{@})", "to be cleaned {{instance}}"},
			}},
		graph{title: "Rows with deleted samples read", unit: unitPerSec,
			about: "Rows per second from which reads filtered deleted samples. Cleaning removes these samples.",
			exprs: one("sum by (instance) (rate(tsdb_tombstones_rows_filtered_total{@}[@]))", "{{instance}}")},
		graph{title: "Freed by cleaning", unit: unitBytes,
			about: "Bytes of chunks that cleaning has removed from rows since the start.",
			exprs: one("sum by (instance) (tsdb_tombstones_cleaned_bytes_total{@})", "{{instance}}")},
	)
}
