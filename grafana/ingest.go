package grafana

func ingest() Dashboard {
	b := newDashboard("ingest", "Ingest",
		"From the write request to rows in the tables: what comes in, what is refused, and the log.")
	b.row("Requests", "",
		graph{title: "Samples", unit: unitPerSec, about: "Acknowledged samples a second.",
			exprs: one("sum by (instance) (rate(tsdb_ingest_samples_total{@}[@]))", "{{instance}}")},
		graph{title: "Write requests", unit: unitRequests, about: "Write requests taken up a second.",
			exprs: one("sum by (instance) (rate(tsdb_ingest_requests_total{@}[@]))", "{{instance}}")},
		graph{title: "Samples in a request", unit: unitShort, about: "Mean. Senders with few samples a request pay a sync for each.",
			exprs: one("sum by (instance) (rate(tsdb_ingest_samples_total{@}[@])) / "+
				"sum by (instance) (rate(tsdb_ingest_requests_total{@}[@]))", "{{instance}}")},
		graph{title: "Latency", unit: unitSeconds, about: "Time from the header of a write request to its acknowledgement.",
			exprs: quantiles(`tsdb_http_request_duration_seconds_bucket{@,handler="/api/v1/write"}`)},
		graph{title: "Bytes received", unit: unitByteRate, about: "Bodies of write requests, compressed as sent.",
			exprs: one(`sum by (instance) (rate(tsdb_http_request_bytes_total{@,handler="/api/v1/write"}[@]))`, "{{instance}}")},
		graph{title: "In flight", unit: unitBytes, about: "Decoded bytes of write requests being worked on.",
			exprs: one("sum by (instance) (tsdb_ingest_in_flight_bytes{@})", "{{instance}}")},
	)
	b.row("Refused", "",
		graph{title: "Samples rejected", unit: unitPerSec, stack: true,
			about: "Samples, exemplars and metadata not stored, by reason. The sender is told; the rest of its request is stored.",
			exprs: one("sum by (reason) (rate(tsdb_ingest_rejected_total{@}[@]))", "{{reason}}")},
		graph{title: "Requests turned away", unit: unitRequests, stack: true,
			about: "Write requests refused for lack of a resource. Senders come back later; nothing is lost.",
			exprs: one("sum by (resource) (rate(tsdb_ingest_overload_total{@}[@]))", "{{resource}}")},
		graph{title: "Requests not understood", unit: unitRequests,
			about: "Write requests that could not be decoded or were too large, and those refused before they were read, by reason.",
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
		{title: "Active series", unit: unitShort, about: "Series that had a sample lately.",
			exprs: one("sum by (instance) (tsdb_ingest_series{@})", "{{instance}}")},
		{title: "New and idle series", unit: unitPerSec, about: "Series that were seen for the first time, and idle ones forgotten.",
			exprs: []expr{
				{"sum by (instance) (rate(tsdb_ingest_series_created_total{@}[@]))", "new {{instance}}"},
				{"sum by (instance) (rate(tsdb_ingest_series_retired_total{@}[@]))", "idle {{instance}}"},
			}},
		{title: "Unflushed samples", unit: unitShort, about: "Samples in memory and the log that are not in the tables yet.",
			exprs: one("sum by (instance) (tsdb_ingest_head_samples{@})", "{{instance}}")},
		{title: "Unflushed memory", unit: unitBytes, about: "Memory of those samples; --storage.head-bytes is the limit.",
			exprs: one("sum by (instance) (tsdb_ingest_head_bytes{@})", "{{instance}}")},
		{title: "Rows flushed", unit: unitPerSec, about: "Rows of closed hours written to the tables.",
			exprs: one("sum by (instance) (rate(tsdb_ingest_flushed_rows_total{@}[@]))", "{{instance}}")},
		{title: "Bytes flushed", unit: unitByteRate, about: "Packed runs of those rows.",
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
		{title: "Sync time", unit: unitSeconds, about: "Time of an fdatasync of the log; every acknowledgement waits for one.",
			exprs: quantiles("tsdb_wal_fsync_duration_seconds_bucket{@}")},
		{title: "Syncs", unit: unitPerSec, about: "fdatasyncs a second; each serves all requests that wait.",
			exprs: one("sum by (instance) (rate(tsdb_wal_fsync_duration_seconds_count{@}[@]))", "{{instance}}")},
		{title: "Bytes of a commit", unit: unitBytes, about: "Mean of what one sync made durable.",
			exprs: one("sum by (instance) (rate(tsdb_wal_commit_size_bytes_sum{@}[@])) / "+
				"sum by (instance) (rate(tsdb_wal_commit_size_bytes_count{@}[@]))", "{{instance}}")},
		{title: "Bytes logged", unit: unitByteRate, about: "Bytes of frames made durable.",
			exprs: one("sum by (instance) (rate(tsdb_wal_written_bytes_total{@}[@]))", "{{instance}}")},
		{title: "Log size", unit: unitBytes, about: "Segments and checkpoint on disk; --storage.wal-bytes makes rows flush earlier.",
			exprs: one("sum by (instance) (tsdb_wal_size_bytes{@})", "{{instance}}")},
		{title: "Waiting for the disk", unit: unitBytes, about: "Bytes appended to the log and not yet durable.",
			exprs: one("sum by (instance) (tsdb_wal_buffer_bytes{@})", "{{instance}}")},
		{title: "Segments and truncations", unit: unitShort,
			about: "Segment files, and how often old ones were replaced in ten minutes.",
			exprs: []expr{
				{"sum by (instance) (tsdb_wal_segments{@})", "segments {{instance}}"},
				{"sum by (instance) (increase(tsdb_wal_truncations_total{@}[10m]))", "truncations {{instance}}"},
			}},
		{title: "Log in trouble", unit: unitPerSec, about: "Appends refused because the disk lagged, and times that it was full.",
			exprs: []expr{
				{"sum(rate(tsdb_wal_overloads_total{@}[@]))", "buffer full"},
				{"sum(rate(tsdb_wal_stalls_total{@}[@]))", "no space or descriptors"},
			}},
		{title: "Last replay", unit: unitShort,
			about: "What the last start read back from the log: samples, those without a series, and damaged stretches accepted.",
			exprs: []expr{
				{"sum by (instance) (tsdb_ingest_replayed_samples_total{@})", "samples {{instance}}"},
				{"sum by (instance) (tsdb_ingest_replayed_orphans_total{@})", "without series {{instance}}"},
				{"sum by (instance) (tsdb_wal_replay_losses{@})", "damaged {{instance}}"},
			}},
	}
}
