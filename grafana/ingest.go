package grafana

func ingest() Dashboard {
	b := newDashboard("ingest", "Ingest",
		"From write requests to rows in the tables: accepted and rejected samples, and the log.")
	b.row("Requests", "",
		graph{title: "Samples", unit: unitPerSec, about: "Acknowledged samples per second.",
			exprs: one("sum by (instance) (rate(tsdb_ingest_samples_total{@}[@]))", "{{instance}}")},
		graph{title: "Write requests", unit: unitRequests, about: "Write requests admitted per second.",
			exprs: one("sum by (instance) (rate(tsdb_ingest_requests_total{@}[@]))", "{{instance}}")},
		graph{title: "Samples per request", unit: unitShort,
			about: "Mean number of samples per request. Each request waits for a sync, so larger requests cost less.",
			exprs: one("sum by (instance) (rate(tsdb_ingest_samples_total{@}[@])) / "+
				"sum by (instance) (rate(tsdb_ingest_requests_total{@}[@]))", "{{instance}}")},
		graph{title: "Latency", unit: unitSeconds, about: "Time from the header of a write request to its acknowledgement.",
			exprs: quantiles(`tsdb_http_request_duration_seconds_bucket{@,handler="/api/v1/write"}`)},
		graph{title: "Bytes received", unit: unitByteRate, about: "Bytes of request bodies per second, compressed as sent.",
			exprs: one(`sum by (instance) (rate(tsdb_http_request_bytes_total{@,handler="/api/v1/write"}[@]))`, "{{instance}}")},
		graph{title: "In flight", unit: unitBytes, about: "Decoded bytes of the write requests in progress.",
			exprs: one("sum by (instance) (tsdb_ingest_in_flight_bytes{@})", "{{instance}}")},
	)
	b.row("Rejected", "",
		graph{title: "Samples rejected", unit: unitPerSec, stack: true,
			about: "Samples, exemplars and metadata rejected, by reason. The response reports them; the rest of the request is stored.",
			exprs: one("sum by (reason) (rate(tsdb_ingest_rejected_total{@}[@]))", "{{reason}}")},
		graph{title: "Requests refused for overload", unit: unitRequests, stack: true,
			about: "Write requests refused because a resource is exhausted. Senders retry them; nothing is lost.",
			exprs: one("sum by (resource) (rate(tsdb_ingest_overload_total{@}[@]))", "{{resource}}")},
		graph{title: "Bad requests", unit: unitRequests,
			about: "Write requests that are invalid or too large, and requests refused before they were read, by reason.",
			exprs: []expr{
				{"sum(rate(tsdb_ingest_bad_requests_total{@}[@]))", "not decoded"},
				{`sum by (reason) (rate(tsdb_http_rejected_total{@,handler="/api/v1/write"}[@]))`, "{{reason}}"},
			}},
	)
	b.row("Series and the open hour", "", headGraphs()...)
	b.row("Write-ahead log", "", logGraphs()...)
	return b.d
}

func headGraphs() []graph {
	return []graph{
		{title: "Active series", unit: unitShort, about: "Series with a recent sample.",
			exprs: one("sum by (instance) (tsdb_ingest_series{@})", "{{instance}}")},
		{title: "New and idle series", unit: unitPerSec, about: "New series, and idle series removed from memory, per second.",
			exprs: []expr{
				{"sum by (instance) (rate(tsdb_ingest_series_created_total{@}[@]))", "new {{instance}}"},
				{"sum by (instance) (rate(tsdb_ingest_series_removed_total{@}[@]))", "idle {{instance}}"},
			}},
		{title: "Unflushed samples", unit: unitShort, about: "Samples in memory and in the log that are not in the tables yet.",
			exprs: one("sum by (instance) (tsdb_ingest_head_samples{@})", "{{instance}}")},
		{title: "Unflushed memory", unit: unitBytes, about: "Memory of unflushed samples. --storage.head-bytes is the limit.",
			exprs: one("sum by (instance) (tsdb_ingest_head_bytes{@})", "{{instance}}")},
		{title: "Rows flushed", unit: unitPerSec, about: "Rows of closed hours written to the tables per second.",
			exprs: one("sum by (instance) (rate(tsdb_ingest_flushed_rows_total{@}[@]))", "{{instance}}")},
		{title: "Bytes flushed", unit: unitByteRate, about: "Bytes of chunks in flushed rows per second.",
			exprs: one("sum by (instance) (rate(tsdb_ingest_flushed_bytes_total{@}[@]))", "{{instance}}")},
		{title: "Flush time", unit: unitSeconds, about: "Time of flushes that wrote rows.",
			exprs: quantiles("tsdb_ingest_flush_seconds_bucket{@}")},
		{title: "Failed jobs", unit: unitPerSec, width: 16,
			about: "Flushes, truncations of the log and maintenance that failed. They are tried again; the rows stay in memory and log.",
			exprs: []expr{
				{"sum(rate(tsdb_ingest_flush_failures_total{@}[@]))", "flush"},
				{"sum(rate(tsdb_ingest_checkpoint_failures_total{@}[@]))", "truncation"},
				{"sum(rate(tsdb_ingest_maintenance_failures_total{@}[@]))", "maintenance"},
			}},
	}
}

func logGraphs() []graph {
	return []graph{
		{title: "Sync time", unit: unitSeconds, about: "Duration of an fdatasync of the log. Every acknowledgement waits for one.",
			exprs: quantiles("tsdb_wal_fsync_duration_seconds_bucket{@}")},
		{title: "Syncs", unit: unitPerSec, about: "fdatasyncs per second. Each serves all waiting requests.",
			exprs: one("sum by (instance) (rate(tsdb_wal_fsync_duration_seconds_count{@}[@]))", "{{instance}}")},
		{title: "Bytes per commit", unit: unitBytes, about: "Mean number of bytes that a sync made durable.",
			exprs: one("sum by (instance) (rate(tsdb_wal_commit_size_bytes_sum{@}[@])) / "+
				"sum by (instance) (rate(tsdb_wal_commit_size_bytes_count{@}[@]))", "{{instance}}")},
		{title: "Bytes logged", unit: unitByteRate, about: "Bytes of the log made durable per second.",
			exprs: one("sum by (instance) (rate(tsdb_wal_written_bytes_total{@}[@]))", "{{instance}}")},
		{title: "Log size", unit: unitBytes,
			about: "Size of segments and checkpoint on disk. Above --storage.wal-bytes, rows are flushed early.",
			exprs: one("sum by (instance) (tsdb_wal_size_bytes{@})", "{{instance}}")},
		{title: "Waiting for the disk", unit: unitBytes, about: "Bytes appended to the log and not yet durable.",
			exprs: one("sum by (instance) (tsdb_wal_buffer_bytes{@})", "{{instance}}")},
		{title: "Segments and truncations", unit: unitShort,
			about: "Segment files, and truncations of old segments in ten minutes.",
			exprs: []expr{
				{"sum by (instance) (tsdb_wal_segments{@})", "segments {{instance}}"},
				{"sum by (instance) (increase(tsdb_wal_truncations_total{@}[10m]))", "truncations {{instance}}"},
			}},
		{title: "Log overloads and stalls", unit: unitPerSec,
			about: "Appends refused because the disk lagged, and times that it was full.",
			exprs: []expr{
				{"sum(rate(tsdb_wal_overloads_total{@}[@]))", "buffer full"},
				{"sum(rate(tsdb_wal_stalls_total{@}[@]))", "no space or descriptors"},
			}},
		{title: "Last replay", unit: unitShort,
			about: "The last replay of the log: samples, samples without a series, and accepted damaged ranges.",
			exprs: []expr{
				{"sum by (instance) (tsdb_ingest_replayed_samples_total{@})", "samples {{instance}}"},
				{"sum by (instance) (tsdb_ingest_replayed_orphans_total{@})", "without series {{instance}}"},
				{"sum by (instance) (tsdb_wal_replay_losses{@})", "damaged {{instance}}"},
			}},
	}
}
