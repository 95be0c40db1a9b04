package grafana

func overview() Dashboard {
	b := newDashboard("overview", "Overview", "Health, throughput and resource usage of the server.")
	b.row("Now", "", overviewNumbers()...)
	b.row("Work", "",
		graph{title: "Samples ingested", unit: unitPerSec,
			about: "Acknowledged samples per second. They are on disk before the response.",
			exprs: one("sum by (instance) (rate(tsdb_ingest_samples_total{@}[@]))", "{{instance}}")},
		graph{title: "Queries", unit: unitRequests, about: "Queries evaluated per second, by kind.",
			exprs: one("sum by (kind) (rate(tsdb_query_duration_seconds_count{@}[@]))", "{{kind}}")},
		graph{title: "Active series", unit: unitShort, about: "Series with a recent sample.",
			exprs: one("sum by (instance) (tsdb_ingest_series{@})", "{{instance}}")},
		graph{title: "Write latency", unit: unitSeconds, about: "Time from the header of a write request to its acknowledgement.",
			exprs: quantiles(`tsdb_http_request_duration_seconds_bucket{@,handler="/api/v1/write"}`)},
		graph{title: "Query latency", unit: unitSeconds,
			about: "Time from a query's arrival to its result, including the wait in the queue.",
			exprs: quantiles("tsdb_query_duration_seconds_bucket{@}")},
		graph{title: "HTTP responses", unit: unitRequests, stack: true, about: "Responses per second by status code.",
			exprs: one("sum by (code) (rate(tsdb_http_requests_total{@}[@]))", "{{code}}")},
	)
	b.row("Cost", "",
		graph{title: "CPU", unit: unitShort, about: "Cores in use.",
			exprs: one("sum by (instance) (rate(process_cpu_seconds_total{@}[@]))", "{{instance}}")},
		graph{title: "Memory", unit: unitBytes, about: "Resident memory of the process, and its Go heap in use.",
			exprs: []expr{
				{"sum by (instance) (process_resident_memory_bytes{@})", "resident {{instance}}"},
				{"sum by (instance) (go_memstats_heap_inuse_bytes{@})", "heap {{instance}}"},
			}},
		graph{title: "Disk", unit: unitBytes, engine: EnginePebble,
			about: "Size of the files of the tables, and of the write-ahead log.",
			exprs: []expr{
				{"sum by (instance) (tsdb_pebble_disk_bytes{@})", "tables {{instance}}"},
				{"sum by (instance) (tsdb_wal_size_bytes{@})", "log {{instance}}"},
			}},
		graph{title: "Goroutines", unit: unitShort, about: "Goroutines of the process. A steady rise is a leak; please report it.",
			exprs: one("sum by (instance) (go_goroutines{@})", "{{instance}}")},
		graph{title: "Open files", unit: unitShort, about: "File descriptors in use, and their limit.",
			exprs: []expr{
				{"sum by (instance) (process_open_fds{@})", "in use {{instance}}"},
				{"sum by (instance) (process_max_fds{@})", "limit {{instance}}"},
			}},
		graph{title: "Network", unit: unitByteRate, about: "Bytes per second of request bodies and responses, as transmitted.",
			exprs: []expr{
				{"sum by (instance) (rate(tsdb_http_request_bytes_total{@}[@]))", "in {{instance}}"},
				{"sum by (instance) (rate(tsdb_http_response_bytes_total{@}[@]))", "out {{instance}}"},
			}},
	)
	return b.d
}

func overviewNumbers() []graph {
	return []graph{
		{kind: "stat", title: "Samples per second", unit: unitPerSec, about: "Acknowledged samples per second, all instances.",
			exprs: one("sum(rate(tsdb_ingest_samples_total{@}[@]))", "")},
		{kind: "stat", title: "Active series", unit: unitShort, about: "Series with a recent sample, all instances.",
			exprs: one("sum(tsdb_ingest_series{@})", "")},
		{kind: "stat", title: "Queries per second", unit: unitRequests, about: "Queries evaluated per second, all instances.",
			exprs: one("sum(rate(tsdb_query_duration_seconds_count{@}[@]))", "")},
		{kind: "stat", title: "Uptime", unit: unitSeconds, about: "Time since the latest start of an instance.",
			exprs: one("min(time() - process_start_time_seconds{@})", "")},
		{kind: "stat", title: "Version", unit: unitNone, text: true, about: "Running versions.",
			exprs: one("count by (version) (tsdb_build_info{@})", "{{version}}")},
		{kind: "stat", title: "Panics", unit: unitNone, bad: true,
			about: "Panics caught since the start. Each is a bug; please report it.",
			exprs: one("sum(tsdb_http_panics_total{@})", "")},
		{kind: "stat", title: "Refusing for space", unit: unitNone, bad: true,
			about: "Instances that refuse writes because the disk is nearly full; see --storage.free-bytes.",
			exprs: one("sum(tsdb_ingest_refusing_for_space{@})", "")},
		{kind: "stat", title: "Failed queries", unit: unitRatio, about: "Share of queries that failed, all instances.",
			exprs: one("sum(rate(tsdb_query_errors_total{@}[@])) / sum(rate(tsdb_query_duration_seconds_count{@}[@]))", "")},
		{kind: "stat", title: "Writable", unit: unitNone, badAt0: true, engine: EnginePebble,
			about: "1 if the tables of all instances accept writes.", exprs: one("min(tsdb_pebble_writable{@})", "")},
		{kind: "stat", title: "Corruptions", unit: unitNone, bad: true, engine: EnginePebble,
			about: "Detections of damaged data. The server's log says where.",
			exprs: one("sum(tsdb_pebble_corruptions_total{@})", "")},
		{kind: "stat", title: "Background errors", unit: unitNone, bad: true, engine: EnginePebble,
			about: "Failures of flushes and compactions since the start.",
			exprs: one("sum(tsdb_pebble_background_errors_total{@})", "")},
		{kind: "stat", title: "Rollups behind", unit: unitSeconds, engine: EnginePebble,
			about: "Age of the oldest closed day without valid rollups. It grows with --no-storage.rollups.",
			exprs: one("max(tsdb_rollup_lag_seconds{@})", "")},
	}
}
