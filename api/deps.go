package api

import (
	"context"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"

	"halite/ingest"
	"halite/query"
	readers "halite/query/promql"
	"halite/storage/index"
)

// Writer stores remote-write requests; *ingest.Ingester is one.
type Writer interface {
	// WriteRemote stores the request in body, a snappy-compressed prometheus.WriteRequest, and returns once it is
	// durable. It does not keep body. Series that are invalid inside a well-formed request are reported in the result,
	// the others are stored.
	WriteRemote(ctx context.Context, body []byte) (ingest.Result, error)
}

// Engine evaluates PromQL; *query.Engine is one. Its errors are *query.Error.
type Engine interface {
	Instant(ctx context.Context, r query.InstantRequest) (*query.Result, error)
	Range(ctx context.Context, r query.RangeRequest) (*query.Result, error)
	// Parse parses an expression that is not evaluated.
	Parse(expr string) (parser.Expr, error)
	// Parser is what Parse and the evaluation use, for selectors.
	Parser() parser.Parser
	// Active lists the queries that run or wait, oldest first.
	Active() []query.ActiveQuery
	// Cancel ends a query; it reports whether there is one with that id.
	Cancel(id uint64) bool
}

// Catalogue answers which series exist; *index.Index is one. Times are unix milliseconds, inclusive.
type Catalogue interface {
	Select(ctx context.Context, mintMs, maxtMs int64, matchers ...*labels.Matcher) ([]index.Series, error)
	LabelNames(ctx context.Context, mintMs, maxtMs int64, limit int, matchers ...*labels.Matcher) ([]string, error)
	LabelValues(
		ctx context.Context, name string, mintMs, maxtMs int64, limit int, matchers ...*labels.Matcher,
	) ([]string, error)
}

// Budgets bound what answers hold, together with queries; *promql.Queryable is one.
type Budgets interface {
	// Budget is for one answer, which ends it.
	Budget() *readers.Budget
}

// MetadataSource knows what senders said about their metrics; *ingest.Ingester is one.
type MetadataSource interface {
	// Metadata returns the entries of one metric, or of all if metric is empty; limit bounds the number of metrics, 0
	// means all.
	Metadata(metric string, limit int) map[string][]ingest.Metadata
}

// StatsSource describes the store.
type StatsSource interface {
	// StoreStats is called once a request; limit bounds each ranking.
	StoreStats(limit int) StoreStats
}

// StoreStats are the figures of /api/v1/status/tsdb.
type StoreStats struct {
	// Series and LabelPairs count the active series and the distinct name=value pairs among them.
	Series, LabelPairs int
	// Chunks counts the rows that are in memory only.
	Chunks int64
	// MinTimeMs and MaxTimeMs bound the samples in memory, unix milliseconds.
	MinTimeMs, MaxTimeMs int64
	// SeriesByMetric, ValuesByLabel, BytesByLabel and SeriesByPair are rankings, descending.
	SeriesByMetric, ValuesByLabel, BytesByLabel, SeriesByPair []index.NameCount
}

// Flusher moves the head to the tables; *ingest.Ingester is one.
type Flusher interface {
	// Flush returns once everything accepted before the call is in the tables and durable.
	Flush(ctx context.Context) error
}

// Readiness says whether the server may serve requests.
type Readiness struct {
	// Ready is true once requests can be answered.
	Ready bool
	// Stopping is true when the process is shutting down; it is never ready again.
	Stopping bool
	// Reason says in words why it is not ready, for people.
	Reason string
	// ReplayMin, ReplayMax and ReplayCurrent are the first, last and current segment of the log's replay.
	ReplayMin, ReplayMax, ReplayCurrent int
	// RetryAfter is when to ask again; 0 lets the server choose.
	RetryAfter time.Duration
}
