package main

import (
	"cmp"
	"log/slog"
	"path/filepath"

	"github.com/prometheus/client_golang/prometheus"

	"halite/query"
	"halite/query/querylog"
)

// activeQueriesName is the file in --storage.path with the queries that run.
const activeQueriesName = "queries.active"

// openQueryLog opens the log of slow queries and the file of active ones. The caller holds the lock of --storage.path. In
// mode direct there is no such directory, so active queries are not recorded.
func openQueryLog(c *serveConfig, log *slog.Logger, r prometheus.Registerer) (*querylog.Log, error) {
	opts := querylog.Options{
		File: c.queryLogFile, SlowerThan: c.queryLogSlower, Slots: cmp.Or(c.queryConcurrency, query.DefaultConcurrencyMax()),
		Logger: log, Registerer: r,
	}
	if !c.direct() {
		opts.ActiveFile = filepath.Join(c.storagePath, activeQueriesName)
	}
	return querylog.Open(opts)
}
