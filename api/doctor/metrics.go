package doctor

// Metrics of the server that the checks read. A test compares them with the metrics that a server has.
const (
	headRows           = "tsdb_ingest_head_rows"
	headBytes          = "tsdb_ingest_head_bytes"
	FlushedRows        = "tsdb_ingest_flushed_rows_total"
	flushedLateRows    = "tsdb_ingest_flushed_late_rows_total"
	flushFailures      = "tsdb_ingest_flush_failures_total"
	checkpointFailures = "tsdb_ingest_checkpoint_failures_total"
	logBytes           = "tsdb_wal_size_bytes"
	logLosses          = "tsdb_wal_replay_losses"
	directLateRows     = "tsdb_ingest_late_rows_total"
	directRows         = "tsdb_bigtable_rows_written_total"

	storeBytes       = "tsdb_pebble_disk_bytes"
	compactionDebt   = "tsdb_pebble_compaction_debt_bytes"
	readRuns         = "tsdb_pebble_read_amplification"
	writeStalls      = "tsdb_pebble_stalls_total"
	backgroundErrors = "tsdb_pebble_background_errors_total"
	dayChunkFailures = "tsdb_pebble_daychunk_failures_total"
	indexFailures    = "tsdb_index_compaction_failures_total"
	packFailures     = "tsdb_compactor_failures_total"

	corruptions    = "tsdb_pebble_corruptions_total"
	damagedDays    = "tsdb_index_damaged_day_segments"
	corruptRollups = "tsdb_rollup_corrupt_cells_total"
	unreadableRows = "tsdb_rollup_unreadable_rows_total"

	rollupAge      = "tsdb_rollup_lag_seconds"
	rollupDays     = "tsdb_rollup_pending_day_passes"
	rollupLease    = "tsdb_rollup_lease"
	rollupFailures = "tsdb_rollup_failures_total"
	sweepTime      = "tsdb_retention_last_sweep_timestamp_seconds"
	sweepFailures  = "tsdb_retention_failures_total"
	clockAhead     = "tsdb_retention_clock_ahead_seconds"
	tombstones     = "tsdb_tombstones"
	tombstonesMax  = "tsdb_tombstones_max"
	queryBytes     = "tsdb_query_memory_bytes"
	queryBytesMax  = "tsdb_query_memory_bytes_max"
	connections    = "tsdb_http_connections"
	connectionsMax = "tsdb_http_connections_max"
)

// Gauges returns the names of Facts.Values.
func Gauges() []string {
	return []string{
		headRows, headBytes, logBytes, logLosses, storeBytes, compactionDebt, readRuns, damagedDays, rollupAge, rollupDays, rollupLease,
		sweepTime, clockAhead, tombstones, tombstonesMax, queryBytes, queryBytesMax, connections, connectionsMax,
	}
}

// Counters returns the names of Facts.Increases. Facts.Values has them too.
func Counters() []string {
	return []string{
		FlushedRows, flushedLateRows, flushFailures, checkpointFailures, directLateRows, directRows, writeStalls, backgroundErrors,
		dayChunkFailures, indexFailures, packFailures, corruptions, corruptRollups, unreadableRows, rollupFailures, sweepFailures,
	}
}

// has reports whether the server has a metric.
func (f *Facts) has(name string) bool {
	_, found := f.Values[name]
	return found
}
