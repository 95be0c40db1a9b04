package grafana

func bigtable() Dashboard {
	b := newDashboard("bigtable", "Bigtable client",
		"Requests of the server to Bigtable, with --storage.engine=bigtable. Empty on other engines.")
	b.row("Requests", EngineBigtable,
		graph{title: "Attempts", unit: unitRequests, stack: true,
			about: "Attempts of requests per second by method, including retries.",
			exprs: one("sum by (method) (rate(tsdb_bigtable_requests_total{@}[@]))", "{{method}}")},
		graph{title: "By status", unit: unitRequests, stack: true,
			about: "Attempts per second by status code. NotFound is normal while tables are created.",
			exprs: one("sum by (code) (rate(tsdb_bigtable_requests_total{@}[@]))", "{{code}}")},
		graph{title: "Failed attempts", unit: unitRatio, max: 1, about: "Share of attempts with a status other than OK.",
			exprs: one("1 - sum by (instance) (rate(tsdb_bigtable_requests_total{@,code=\"OK\"}[@])) / "+
				"sum by (instance) (rate(tsdb_bigtable_requests_total{@}[@]))", "{{instance}}")},
		graph{title: "Latency, median", unit: unitSeconds, about: "Median duration of attempts, by method.",
			exprs: one("histogram_quantile(0.5, sum by (le, method) (rate(tsdb_bigtable_request_seconds_bucket{@}[@])))", "{{method}}")},
		graph{title: "Latency, 99th percentile", unit: unitSeconds, about: "99th percentile of the duration of attempts, by method.",
			exprs: one("histogram_quantile(0.99, sum by (le, method) (rate(tsdb_bigtable_request_seconds_bucket{@}[@])))", "{{method}}")},
		graph{title: "Bytes", unit: unitByteRate, about: "Bytes of messages sent and received per second.",
			exprs: []expr{
				{"sum by (instance) (rate(tsdb_bigtable_sent_bytes_total{@}[@]))", "sent {{instance}}"},
				{"sum by (instance) (rate(tsdb_bigtable_received_bytes_total{@}[@]))", "received {{instance}}"},
			}},
	)
	b.row("Rows", EngineBigtable,
		graph{title: "Rows", unit: unitPerSec, about: "Rows written and read per second.",
			exprs: []expr{
				{"sum by (instance) (rate(tsdb_bigtable_rows_written_total{@}[@]))", "written {{instance}}"},
				{"sum by (instance) (rate(tsdb_bigtable_rows_read_total{@}[@]))", "read {{instance}}"},
			}},
		graph{title: "Mutations per row", unit: unitShort, about: "Mean number of entries of acknowledged row mutations.",
			exprs: one("sum by (instance) (rate(tsdb_bigtable_mutations_total{@}[@])) / "+
				"sum by (instance) (rate(tsdb_bigtable_rows_written_total{@}[@]))", "{{instance}}")},
		graph{title: "Rows failed", unit: unitPerSec,
			about: "Rows whose mutation failed after all retries. They stay in memory and in the log.",
			exprs: one("sum by (instance) (rate(tsdb_bigtable_rows_failed_total{@}[@]))", "{{instance}}")},
		graph{title: "Ranges per read", unit: unitShort, about: "Number of keys and row ranges in a read request.",
			exprs: quantiles("tsdb_bigtable_read_request_ranges_bucket{@}")},
		graph{title: "Bytes per bulk write", unit: unitBytes,
			about: "Size of the keys, qualifiers and values in a bulk write request.",
			exprs: quantiles("tsdb_bigtable_write_request_bytes_bucket{@}")},
		graph{title: "Reads resumed", unit: unitPerSec,
			about: "Reads resumed per second after the Bigtable client gave up on their stream.",
			exprs: one("sum by (instance) (rate(tsdb_bigtable_reads_resumed_total{@}[@]))", "{{instance}}")},
	)
	return b.d
}
