package grafana

func queries() Dashboard {
	b := newDashboard("query", "Query", "Queries and their latency, the rows and samples they read, and the effect of caches.")
	b.row("Queries", "",
		graph{title: "Queries", unit: unitRequests, about: "Queries evaluated per second, by kind.",
			exprs: one("sum by (kind) (rate(tsdb_query_duration_seconds_count{@}[@]))", "{{kind}}")},
		graph{title: "Latency", unit: unitSeconds,
			about: "Time from a query's arrival to its result, including the wait in the queue.",
			exprs: quantiles("tsdb_query_duration_seconds_bucket{@}", "kind")},
		graph{title: "Running and waiting", unit: unitShort, about: "Queries that run, and queries in the queue; " +
			"see --query.max-concurrency.",
			exprs: []expr{
				{"sum by (instance) (tsdb_query_active{@})", "running {{instance}}"},
				{"sum by (instance) (tsdb_query_queued{@})", "waiting {{instance}}"},
			}},
		graph{title: "Failed", unit: unitRequests, stack: true,
			about: "Failed queries per second, by type of error.",
			exprs: one("sum by (type) (rate(tsdb_query_errors_total{@}[@]))", "{{type}}")},
		graph{title: "Samples evaluated", unit: unitPerSec, about: "Samples that expressions processed per second.",
			exprs: one("sum by (instance) (rate(tsdb_query_samples_total{@}[@]))", "{{instance}}")},
		graph{title: "Time in queries", unit: unitShort, about: "Query seconds per second: the mean number of running queries.",
			exprs: one("sum by (kind) (rate(tsdb_query_duration_seconds_sum{@}[@]))", "{{kind}}")},
	)
	b.row("Reads", "",
		graph{title: "Series selected", unit: unitPerSec, about: "Series that selectors matched per second.",
			exprs: one("sum by (instance) (rate(tsdb_query_series_selected_total{@}[@]))", "{{instance}}")},
		graph{title: "Rows read", unit: unitPerSec, about: "Rows of the data table that queries read per second.",
			exprs: one("sum by (instance) (rate(tsdb_query_rows_read_total{@}[@]))", "{{instance}}")},
		graph{title: "Samples read", unit: unitPerSec, about: "Samples that queries read from memory and tables per second.",
			exprs: one("sum by (instance) (rate(tsdb_query_samples_read_total{@}[@]))", "{{instance}}")},
	)
	b.row("Caches", "",
		graph{title: "Result cache", unit: unitRequests, stack: true,
			about: "Queries by outcome of the result cache: hit, partial hit, miss, or cache not used.",
			exprs: one("sum by (outcome) (rate(tsdb_query_result_cache_requests_total{@}[@]))", "{{outcome}}")},
		graph{title: "Result cache hits", unit: unitRatio, max: 1,
			about: "Share of queries answered fully or partly from the result cache.",
			exprs: one(`sum by (instance) (rate(tsdb_query_result_cache_requests_total{@,outcome=~"hit|partial"}[@])) / `+
				"sum by (instance) (rate(tsdb_query_result_cache_requests_total{@}[@]))", "{{instance}}")},
		graph{title: "Result cache memory", unit: unitBytes, about: "Memory in use, and the limit --query.result-cache-bytes.",
			exprs: []expr{
				{"sum by (instance) (tsdb_query_result_cache_bytes{@})", "in use {{instance}}"},
				{"sum by (instance) (tsdb_query_result_cache_bytes_max{@})", "limit {{instance}}"},
			}},
		graph{title: "Results not cached", unit: unitPerSec, stack: true,
			about: "Results or parts of results that were not cached, by reason.",
			exprs: one("sum by (reason) (rate(tsdb_query_result_cache_refusals_total{@}[@]))", "{{reason}}")},
		graph{title: "Row cache hits", unit: unitRatio, max: 1, about: "Share of rows that queries found in the row cache.",
			exprs: one("sum by (instance) (rate(tsdb_query_row_cache_hits_total{@}[@])) / "+
				"(sum by (instance) (rate(tsdb_query_row_cache_hits_total{@}[@])) + "+
				"sum by (instance) (rate(tsdb_query_row_cache_misses_total{@}[@])))", "{{instance}}")},
		graph{title: "Row cache memory", unit: unitBytes, about: "Memory in use, and the limit --query.row-cache-bytes.",
			exprs: []expr{
				{"sum by (instance) (tsdb_query_row_cache_bytes{@})", "in use {{instance}}"},
				{"sum by (instance) (tsdb_query_row_cache_bytes_max{@})", "limit {{instance}}"},
			}},
	)
	b.row("HTTP", "", httpGraphs()...)
	return b.d
}

func httpGraphs() []graph {
	return []graph{
		{title: "Requests", unit: unitRequests, stack: true, about: "Requests per second by endpoint.",
			exprs: one("sum by (handler) (rate(tsdb_http_requests_total{@}[@]))", "{{handler}}")},
		{title: "Latency by endpoint", unit: unitSeconds,
			about: "99th percentile of the time from the request header to the end of the response.",
			exprs: one("histogram_quantile(0.99, sum by (le, handler) (rate(tsdb_http_request_duration_seconds_bucket{@}[@])))",
				"{{handler}}")},
		{title: "Bytes sent", unit: unitByteRate, stack: true, about: "Bytes of compressed responses per second, by endpoint.",
			exprs: one("sum by (handler) (rate(tsdb_http_response_bytes_total{@}[@]))", "{{handler}}")},
		{title: "In flight", unit: unitShort, about: "Requests in progress, and remote reads that run or wait.",
			exprs: []expr{
				{"sum by (instance) (tsdb_http_requests_in_flight{@})", "all {{instance}}"},
				{"sum by (instance) (tsdb_http_remote_reads{@})", "remote reads {{instance}}"},
			}},
	}
}
