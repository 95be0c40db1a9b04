package grafana

func bigtable() Dashboard {
	b := newDashboard("bigtable", "Bigtable client",
		"What the server asks of Bigtable, with --storage.engine=bigtable. Empty on other engines.")
	b.row("Requests", EngineBigtable,
		graph{title: "Attempts", unit: unitRequests, stack: true,
			about: "Attempts of calls a second, repeated ones included, by method.",
			exprs: one("sum by (method) (rate(tsdb_bigtable_requests_total{@}[@]))", "{{method}}")},
		graph{title: "By answer", unit: unitRequests, stack: true,
			about: "Attempts a second by status code. NotFound is normal while tables " +
				"are made.",
			exprs: one("sum by (code) (rate(tsdb_bigtable_requests_total{@}[@]))", "{{code}}")},
		graph{title: "Failed attempts", unit: unitRatio, max: 1, about: "Share of attempts that were not answered OK.",
			exprs: one("1 - sum by (instance) (rate(tsdb_bigtable_requests_total{@,code=\"OK\"}[@])) / "+
				"sum by (instance) (rate(tsdb_bigtable_requests_total{@}[@]))", "{{instance}}")},
		graph{title: "Latency, median", unit: unitSeconds, about: "Median duration of attempts, by method.",
			exprs: one("histogram_quantile(0.5, sum by (le, method) (rate(tsdb_bigtable_request_seconds_bucket{@}[@])))", "{{method}}")},
		graph{title: "Latency, 99th percentile", unit: unitSeconds, about: "99th percentile of the duration of attempts, by method.",
			exprs: one("histogram_quantile(0.99, sum by (le, method) (rate(tsdb_bigtable_request_seconds_bucket{@}[@])))", "{{method}}")},
		graph{title: "Bytes", unit: unitByteRate, about: "Bytes of messages sent and received a second.",
			exprs: []expr{
				{"sum by (instance) (rate(tsdb_bigtable_sent_bytes_total{@}[@]))", "sent {{instance}}"},
				{"sum by (instance) (rate(tsdb_bigtable_received_bytes_total{@}[@]))", "received {{instance}}"},
			}},
	)
	b.row("Rows", EngineBigtable,
		graph{title: "Rows", unit: unitPerSec, about: "Rows written and read a second.",
			exprs: []expr{
				{"sum by (instance) (rate(tsdb_bigtable_rows_written_total{@}[@]))", "written {{instance}}"},
				{"sum by (instance) (rate(tsdb_bigtable_rows_read_total{@}[@]))", "read {{instance}}"},
			}},
		graph{title: "Mutations of a row", unit: unitShort, about: "Mean number of entries of acknowledged row mutations.",
			exprs: one("sum by (instance) (rate(tsdb_bigtable_mutations_total{@}[@])) / "+
				"sum by (instance) (rate(tsdb_bigtable_rows_written_total{@}[@]))", "{{instance}}")},
		graph{title: "Rows failed", unit: unitPerSec,
			about: "Rows whose mutation failed after all retries. They stay in memory and log.",
			exprs: one("sum by (instance) (rate(tsdb_bigtable_rows_failed_total{@}[@]))", "{{instance}}")},
		graph{title: "Ranges of a read", unit: unitShort, about: "Keys and row ranges of one read request.",
			exprs: quantiles("tsdb_bigtable_read_request_ranges_bucket{@}")},
		graph{title: "Bytes of a bulk write", unit: unitBytes, about: "Keys, qualifiers and values of one bulk write request.",
			exprs: quantiles("tsdb_bigtable_write_request_bytes_bucket{@}")},
		graph{title: "Reads resumed", unit: unitPerSec, about: "Reads taken up again after the client had given up on a stream.",
			exprs: one("sum by (instance) (rate(tsdb_bigtable_reads_resumed_total{@}[@]))", "{{instance}}")},
	)
	return b.d
}
