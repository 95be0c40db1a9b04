package grafana

func queries() Dashboard {
	b := newDashboard("query", "Query", "What is asked, how long it takes, what it reads, and what the caches save.")
	b.row("Queries", "",
		graph{title: "Queries", unit: unitRequests, about: "Queries evaluated a second, by kind.",
			exprs: one("sum by (kind) (rate(tsdb_query_duration_seconds_count{@}[@]))", "{{kind}}")},
		graph{title: "Latency", unit: unitSeconds, about: "Time from a query's arrival to its result, its wait for a place included.",
			exprs: quantiles("tsdb_query_duration_seconds_bucket{@}", "kind")},
		graph{title: "Running and waiting", unit: unitShort, about: "Queries being evaluated, and those that wait for a place; " +
			"see --query.max-concurrency.",
			exprs: []expr{
				{"sum by (instance) (tsdb_query_active{@})", "running {{instance}}"},
				{"sum by (instance) (tsdb_query_queued{@})", "waiting {{instance}}"},
			}},
		graph{title: "Failed", unit: unitRequests, stack: true,
			about: "Queries that failed, by the type of error that their sender saw.",
			exprs: one("sum by (type) (rate(tsdb_query_errors_total{@}[@]))", "{{type}}")},
		graph{title: "Samples evaluated", unit: unitPerSec, about: "Samples that went through expressions a second.",
			exprs: one("sum by (instance) (rate(tsdb_query_samples_total{@}[@]))", "{{instance}}")},
		graph{title: "Time in queries", unit: unitShort, about: "Seconds of queries in a second: how many ran on average.",
			exprs: one("sum by (kind) (rate(tsdb_query_duration_seconds_sum{@}[@]))", "{{kind}}")},
	)
	b.row("Reads", "",
		graph{title: "Series selected", unit: unitPerSec, about: "Series that selectors matched a second.",
			exprs: one("sum by (instance) (rate(tsdb_query_series_selected_total{@}[@]))", "{{instance}}")},
		graph{title: "Rows read", unit: unitPerSec, about: "Rows of the data table that queries read a second.",
			exprs: one("sum by (instance) (rate(tsdb_query_rows_read_total{@}[@]))", "{{instance}}")},
		graph{title: "Samples read", unit: unitPerSec, about: "Samples that queries took from memory and tables a second.",
			exprs: one("sum by (instance) (rate(tsdb_query_samples_read_total{@}[@]))", "{{instance}}")},
	)
	b.row("Caches", "",
		graph{title: "Result cache", unit: unitRequests, stack: true,
			about: "Queries by what the cache of results did: the whole answer, a part of it, none, or it was not asked.",
			exprs: one("sum by (outcome) (rate(tsdb_query_result_cache_requests_total{@}[@]))", "{{outcome}}")},
		graph{title: "Result cache hits", unit: unitRatio, max: 1,
			about: "Share of queries answered wholly or partly from kept results.",
			exprs: one(`sum by (instance) (rate(tsdb_query_result_cache_requests_total{@,outcome=~"hit|partial"}[@])) / `+
				"sum by (instance) (rate(tsdb_query_result_cache_requests_total{@}[@]))", "{{instance}}")},
		graph{title: "Result cache memory", unit: unitBytes, about: "In use, and the limit; see --query.result-cache-bytes.",
			exprs: []expr{
				{"sum by (instance) (tsdb_query_result_cache_bytes{@})", "in use {{instance}}"},
				{"sum by (instance) (tsdb_query_result_cache_bytes_max{@})", "limit {{instance}}"},
			}},
		graph{title: "Not kept", unit: unitPerSec, stack: true, about: "Results, or parts of them, that were not kept, by reason.",
			exprs: one("sum by (reason) (rate(tsdb_query_result_cache_refusals_total{@}[@]))", "{{reason}}")},
		graph{title: "Row cache hits", unit: unitRatio, max: 1, about: "Share of rows that queries found decoded.",
			exprs: one("sum by (instance) (rate(tsdb_query_row_cache_hits_total{@}[@])) / "+
				"(sum by (instance) (rate(tsdb_query_row_cache_hits_total{@}[@])) + "+
				"sum by (instance) (rate(tsdb_query_row_cache_misses_total{@}[@])))", "{{instance}}")},
		graph{title: "Row cache memory", unit: unitBytes, about: "In use, and the limit; see --query.row-cache-bytes.",
			exprs: []expr{
				{"sum by (instance) (tsdb_query_row_cache_bytes{@})", "in use {{instance}}"},
				{"sum by (instance) (tsdb_query_row_cache_bytes_max{@})", "limit {{instance}}"},
			}},
	)
	b.row("HTTP", "",
		graph{title: "Requests", unit: unitRequests, stack: true, about: "Requests a second by endpoint.",
			exprs: one("sum by (handler) (rate(tsdb_http_requests_total{@}[@]))", "{{handler}}")},
		graph{title: "Latency by endpoint", unit: unitSeconds, about: "99th percentile of the time from header to end of the answer.",
			exprs: one("histogram_quantile(0.99, sum by (le, handler) (rate(tsdb_http_request_duration_seconds_bucket{@}[@])))",
				"{{handler}}")},
		graph{title: "Bytes answered", unit: unitByteRate, stack: true, about: "Bodies of answers, compressed, by endpoint.",
			exprs: one("sum by (handler) (rate(tsdb_http_response_bytes_total{@}[@]))", "{{handler}}")},
		graph{title: "In flight", unit: unitShort, about: "Requests being answered, and remote reads that run or wait.",
			exprs: []expr{
				{"sum by (instance) (tsdb_http_requests_in_flight{@})", "all {{instance}}"},
				{"sum by (instance) (tsdb_http_remote_reads{@})", "remote reads {{instance}}"},
			}},
	)
	return b.d
}
