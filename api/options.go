package api

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/grafana/regexp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	promstorage "github.com/prometheus/prometheus/storage"

	"halite/api/doctor"
	"halite/api/opentsdb/queries"
	"halite/api/opentsdb/stats"
	"halite/api/receiver/influx"
	otsdb "halite/api/receiver/opentsdb"
	"halite/api/receiver/otlp"
	"halite/api/rules"
	"halite/api/senders"
	"halite/api/status"
	"halite/api/tenancy"
	"halite/api/tenantadmin"
	"halite/ingest"
	"halite/ingest/deletion"
	"halite/ingest/hatracker"
	"halite/ingest/tenantlimits"
	"halite/keyschema"
	"halite/query"
	"halite/query/budget"
	"halite/query/lastread"
	"halite/query/limits"
	"halite/query/topqueries"
	"halite/storage"
	"halite/storage/aliases"
	"halite/storage/index"
	"halite/storage/index/restricted"
	"halite/storage/keyviz"
	"halite/storage/notes"
	"halite/storage/principal"
	"halite/storage/retention"
	"halite/storage/tabletevents"
)

// Options configure a Server. Required fields must be set. The other fields have the default in their comment.
type Options struct {
	// Writer stores write requests. Required.
	Writer Writer
	// Engine evaluates PromQL. Required.
	Engine Engine
	// Index answers series and label look-ups. Required. It applies the restrictions of the principal, see package
	// storage/index/restricted.
	Index Index
	// Budgets bound the memory of look-ups of series, remote reads and federation; nil means no bound.
	Budgets Budgets
	// Queryable reads samples and chunks for remote read. Required.
	Queryable promstorage.SampleAndChunkQueryable
	// Metadata returns type, help and unit of metrics. If it is nil, the response to every metadata request is an empty map.
	Metadata MetadataSource
	// Stats describes the store for /api/v1/status/tsdb. If it is nil, the endpoint's figures are zero.
	Stats StatsSource
	// Flusher moves the head to the tables for POST /api/v1/admin/flush. nil answers that there is no head to flush.
	Flusher Flusher
	// Deleter deletes samples for POST /api/v1/admin/tsdb/delete_series and clean_tombstones. nil answers that deletions are
	// not supported.
	Deleter Deleter
	// Snapshot copies the store for POST /api/v1/admin/tsdb/snapshot, with every sample acknowledged before the call. nil
	// answers that snapshots are not supported.
	Snapshot func(ctx context.Context) (Snapshot, error)
	// Tablets lists tables and tablets for /api/v1/status/tablets; nil answers with none.
	Tablets TabletSource
	// HotTablets lists the hot tablets of [fromMs, toMs) for /api/v1/status/tablets. The service of the engine reports them; nil
	// means that it reports none.
	HotTablets func(ctx context.Context, fromMs, toMs int64) ([]storage.HotTablet, error)
	// TabletEvents has the history of tablets for /api/v1/status/tablets; nil means that there is none.
	TabletEvents *tabletevents.Log
	// Keyviz answers /api/v1/keyviz; nil answers that the key heat map is off.
	Keyviz *keyviz.Collector
	// Tombstones counts the uncleaned deletions, for the diagnosis of /api/v1/keyviz; nil means none.
	Tombstones func() int
	// Deletions describes the deletions whose rows are not yet clean, for GET /api/v1/admin/tsdb/deletions; nil means none.
	Deletions func() deletion.Status
	// Doctor examines the server for /api/v1/status/doctor; nil answers that there is no doctor.
	Doctor func(ctx context.Context) (doctor.Report, error)
	// Retention answers /api/v1/status/retention; nil answers with nothing.
	Retention RetentionSource

	// SeriesLimits answers /api/v1/status/limits; nil answers with nothing.
	SeriesLimits SeriesLimitSource
	// TenantUses returns the usage of the tenants' limits, for /api/v1/status/limits and tenant_limits; nil means that there
	// are no tenants.
	TenantUses func(others ...string) map[string]tenantlimits.Use
	// QueryLimits answers /api/v1/status/limits and /api/v1/status/query_rules; nil answers with nothing.
	QueryLimits *limits.Control
	// TopQueries answers /api/v1/status/top_queries; nil answers with none.
	TopQueries *topqueries.Tracker
	// LastReads knows when queries last read a metric, and MetricBytes the space of its samples on a unix day. Both are
	// for /api/v1/status/cardinality; nil omits these figures.
	LastReads   *lastread.Tracker
	MetricBytes func(ctx context.Context, metric string, day int64) (sizeBytes int64, err error)

	// OTLP returns the options of OTLP for each request; nil means Prometheus's defaults.
	OTLP func() otlp.Options
	// Influx returns the options of InfluxDB's line protocol for each request; nil means the defaults.
	Influx func() influx.Options
	// HAClusters describes the elections of HA pairs for /api/v1/status/senders; nil answers with none.
	HAClusters func() []hatracker.ClusterStatus
	// Senders records which clients write; nil means one with default options.
	Senders *senders.Tracker

	// OpenTSDBNames are the rules for names in writes of OpenTSDB's clients; nil means OpenTSDB's own.
	OpenTSDBNames *otsdb.Names
	// OpenTSDBStats returns the data points of /api/stats; nil means that there are none.
	OpenTSDBStats *stats.Source
	// Notes stores annotations and descriptions of OpenTSDB's clients; nil means that there are none.
	Notes *notes.Store

	// Aliases are the second names of metrics and labels; nil means that there are none.
	Aliases *aliases.Registry

	// Auth identifies the sender of a request; nil gives everybody every right.
	Auth Authenticator
	// Tenancy determines the tenants of a request; nil means that the server has no tenants.
	Tenancy *tenancy.Tenancy
	// Tenants lists, adds and drops tenants for /api/v1/admin/tenants; nil means that the server has none.
	Tenants TenantAdmin
	// If GuardProbes is set, /-/healthy and /-/ready need the scope read. Default: they answer everybody.
	GuardProbes bool

	// Ready reports whether the server can answer requests; nil means always. It is called for each request and must be
	// cheap.
	Ready func() Readiness
	// Refusing returns the error with which a running server refuses writes; nil means that it never does. /-/ready reports
	// it. If only a restart helps, the error wraps storage.ErrFailed, and /-/healthy reports it too.
	Refusing func() error
	// Gatherer gathers the metrics of /metrics; nil means prometheus.DefaultGatherer.
	Gatherer prometheus.Gatherer
	// Registerer registers the server's own metrics; nil means no registration.
	Registerer prometheus.Registerer
	// Logger logs panics and unexpected errors; nil discards all lines.
	Logger *slog.Logger
	// Now is the clock; nil means time.Now.
	Now func() time.Time

	// ExternalURL is the address under which users reach the server, without a slash at the end. Links begin with it. Default:
	// the address that a request names.
	ExternalURL string
	// RoutePrefix is the path below which clients reach the server if ExternalURL is empty. Default none.
	RoutePrefix string
	// OwnJob is the label job of the server's own samples, which the overview does not count as arriving samples. Default
	// none.
	OwnJob string
	// Build describes the program for /api/v1/status/overview and /api/v1/status/buildinfo.
	Build BuildInfo
	// Flags are the command line's flags and their values, for /api/v1/status/flags.
	Flags map[string]string
	// Config returns the configuration as YAML for /api/v1/status/config; nil answers with an empty document.
	Config func() string
	// Runtime describes the process for /api/v1/status/runtimeinfo; see RuntimeInfo. Nil reports only what Go knows.
	Runtime func() RuntimeInfo

	// RuleManager evaluates recording and alerting rules, for /api/v1/rules, alerts and alertmanagers; nil answers with none.
	RuleManager rules.Manager
	// Rules returns the schema rules in force, for /api/v1/status/schema; nil answers with none.
	Rules func() []keyschema.Rule
	// Reload reads the configuration again, for /-/reload; nil answers 403.
	Reload func(ctx context.Context) error
	// Quit starts a graceful stop of the process, for /-/quit, and returns at once; nil answers 403.
	Quit func()
	// AllKinds means that the server stores histograms, exemplars and start timestamps, for /api/v1/features.
	AllKinds bool
	// DelayedNames means that the engine drops metric names at the end of an evaluation, for /api/v1/features.
	DelayedNames bool
	// Lookback is the largest age of a series' newest sample for /federate. Default 5 min, as in the engine.
	Lookback time.Duration

	// OpenTSDB answers OpenTSDB's queries; *opentsdb.Engine implements it. nil omits their endpoints.
	OpenTSDB queries.Engine
	// AdminAPI allows the /api/v1/admin endpoints. Default false: they answer 403.
	AdminAPI bool
	// CORSOrigin matches the Origin headers of pages that may read responses in a browser. Nil, the default, allows none. The
	// expression should be anchored.
	CORSOrigin *regexp.Regexp
	// Limits bound the cost of a request. A zero field takes its default.
	Limits Limits
}

// Limits bound the resources of a single request, or of all requests of a kind together.
type Limits struct {
	// WriteBytesMax bounds the body of a remote-write request as sent, that is, compressed. Default 32 MiB; more is 413.
	WriteBytesMax int64
	// WriteInflightBytesMax bounds the bodies of all write requests in memory. Default 256 MiB, at least WriteBytesMax. More
	// requests wait for WriteQueueWait.
	WriteInflightBytesMax int64
	// WriteQueueWait is the time that a write request may wait for WriteInflightBytesMax before it gets 503. Default 5 s.
	WriteQueueWait time.Duration
	// BadLinesMax is the number of malformed lines after which an import in lines ends with 400, unless more samples are valid.
	// Default 100,000.
	BadLinesMax int
	// BodyStallTimeout ends a request whose client sends nothing of the body for that time. Default 30 s.
	BodyStallTimeout time.Duration
	// FormBytesMax bounds the form body of a query or look-up. Default 10 MiB; more is 413.
	FormBytesMax int64
	// RangePointsMax bounds the steps of a range query. Default 11000. The engine has its own bound. This one is checked
	// first, and its error has Prometheus's words.
	RangePointsMax int
	// LookupTimeout bounds series and label look-ups, including their wait for a slot. Default 2 min.
	LookupTimeout time.Duration
	// SelectorsMax bounds the match[] parameters of a request and the queries of a remote read. Default 1000; more is 400.
	SelectorsMax int
	// LookupConcurrencyMax bounds the look-ups handled at once. Default 20.
	LookupConcurrencyMax int
	// ReadBytesMax bounds the body of a remote-read request, compressed and decoded. Default 1 MiB, as decoded objects may
	// take 50 times their encoded size.
	ReadBytesMax int64
	// ReadSamplesMax bounds the samples of an unstreamed remote read. Default 50 million; more is 400.
	ReadSamplesMax int
	// ReadTimeout bounds a remote read, including its wait for a slot. Default 10 min. In a streamed read it bounds the time
	// between two frames, without the time that the client takes for a frame.
	ReadTimeout time.Duration
	// ReadConcurrencyMax bounds the remote reads handled at once. Default 10; more of them wait.
	ReadConcurrencyMax int
	// ReadFrameBytesMax bounds a frame of a streamed remote read. Default 1 MiB.
	ReadFrameBytesMax int64
	// RetryAfterMin and RetryAfterMax bound the random Retry-After of a 503, so that the shards of a sender do not retry all
	// at once. Defaults 1 s and 10 s.
	RetryAfterMin, RetryAfterMax time.Duration
	// BufferBytesMax is the largest buffer of a body or response that is reused. Default 4 MiB.
	BufferBytesMax int
	// GzipBytesMin is the smallest response that is compressed, for clients that accept it. Default 1 KiB.
	GzipBytesMin int
	// MetricsRequestsMax bounds the requests of /metrics handled at once. Default 20; more get 503.
	MetricsRequestsMax int
	// RankingMax bounds the parameter limit of /api/v1/status/tsdb and the other rankings. Default 10,000; more is 400.
	RankingMax int
	// Status bounds the endpoints of package status.
	Status status.Limits
}

// Default values of Limits.
const (
	DefaultWriteBytesMax         = 32 << 20
	DefaultWriteInflightBytesMax = 256 << 20
	DefaultWriteQueueWait        = 5 * time.Second
	DefaultBadLinesMax           = 100_000
	DefaultBodyStallTimeout      = 30 * time.Second
	DefaultFormBytesMax          = 10 << 20
	DefaultRangePointsMax        = 11000
	DefaultLookupTimeout         = 2 * time.Minute
	DefaultSelectorsMax          = 1000
	DefaultLookupConcurrencyMax  = 20
	DefaultReadBytesMax          = 1 << 20
	DefaultReadSamplesMax        = 50_000_000
	DefaultReadTimeout           = 10 * time.Minute
	DefaultReadConcurrencyMax    = 10
	DefaultReadFrameBytesMax     = 1 << 20
	DefaultRetryAfterMin         = time.Second
	DefaultRetryAfterMax         = 10 * time.Second
	DefaultBufferBytesMax        = 4 << 20
	DefaultGzipBytesMin          = 1 << 10
	DefaultMetricsRequestsMax    = 20
	DefaultRankingMax            = 10_000
)

// BuildInfo describes the program.
type BuildInfo struct {
	// Name is the program's name for users. Default "Halite".
	Name string
	// Version is the program's own version. Default "unknown".
	Version string
	// APIVersion is the Prometheus version whose HTTP API this server is compatible with, a semantic version. Clients
	// such as Grafana choose their requests by it. Default DefaultAPIVersion.
	APIVersion string
	// DocsURL is where the web interface sends readers. Default the reference of Prometheus' HTTP API.
	DocsURL string
	// Revision, Branch, BuildUser, BuildDate and GoVersion appear unchanged in responses.
	Revision, Branch, BuildUser, BuildDate, GoVersion string
}

// DefaultLookback is the default of Options.Lookback.
const DefaultLookback = 5 * time.Minute

// defaultOTLP returns Prometheus's options of OTLP.
func defaultOTLP() otlp.Options { return otlp.DefaultOptions(DefaultLookback) }

// DefaultAPIVersion is the Prometheus release whose HTTP API the tests compare.
const DefaultAPIVersion = "3.15.0"

// DefaultDocsURL describes the API that this server implements.
const DefaultDocsURL = "https://prometheus.io/docs/prometheus/latest/querying/api/"

// RuntimeInfo describes the process for /api/v1/status/runtimeinfo. The server adds the figures that Go provides:
// goroutines, GOMAXPROCS, memory limit, GOGC, GODEBUG, host name, working directory.
type RuntimeInfo struct {
	// StartTime is when the process started.
	StartTime time.Time
	// ConfigLoaded reports whether the configuration was loaded successfully, at ConfigTime.
	ConfigLoaded bool
	ConfigTime   time.Time
	// CorruptionCount is the number of damaged places found in the log.
	CorruptionCount int64
	// StorageRetention is the retention in words, such as "30d".
	StorageRetention string
}

// Validate fills in defaults and reports every fault of the options at once.
func (o *Options) Validate() error {
	var faults []error
	for _, f := range []struct {
		name string
		set  bool
	}{
		{"Writer", o.Writer != nil}, {"Engine", o.Engine != nil},
		{"Index", o.Index != nil}, {"Queryable", o.Queryable != nil},
	} {
		if !f.set {
			faults = append(faults, fmt.Errorf("api: option %s is required", f.name))
		}
	}
	if o.Auth == nil {
		o.Auth = nobodyLogsIn{}
	}
	if o.Ready == nil {
		o.Ready = func() Readiness { return Readiness{Ready: true} }
	}
	if o.Gatherer == nil {
		o.Gatherer = prometheus.DefaultGatherer
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Senders == nil {
		o.Senders = senders.New(senders.Options{Now: o.Now, Logger: o.Logger})
	}
	if o.OpenTSDBNames == nil {
		o.OpenTSDBNames = otsdb.DefaultNames()
	}
	if o.Influx == nil {
		o.Influx = influx.DefaultOptions
	}
	if o.OTLP == nil {
		o.OTLP = defaultOTLP
	}
	if o.Lookback == 0 {
		o.Lookback = DefaultLookback
	}
	if o.Lookback < 0 {
		faults = append(faults, fmt.Errorf("api: option Lookback is %s; it must be positive, or 0 for its default", o.Lookback))
	}
	o.Build.setDefaults()
	return errors.Join(append(faults, o.Limits.Validate())...)
}

// Validate fills in defaults and reports every invalid limit.
func (l *Limits) Validate() error {
	var faults []error
	setPositive(&l.WriteBytesMax, DefaultWriteBytesMax, "WriteBytesMax", &faults)
	setPositive(&l.WriteInflightBytesMax, max(DefaultWriteInflightBytesMax, l.WriteBytesMax),
		"WriteInflightBytesMax", &faults)
	setPositive(&l.WriteQueueWait, DefaultWriteQueueWait, "WriteQueueWait", &faults)
	setPositive(&l.BadLinesMax, DefaultBadLinesMax, "BadLinesMax", &faults)
	setPositive(&l.BodyStallTimeout, DefaultBodyStallTimeout, "BodyStallTimeout", &faults)
	setPositive(&l.FormBytesMax, DefaultFormBytesMax, "FormBytesMax", &faults)
	setPositive(&l.RangePointsMax, DefaultRangePointsMax, "RangePointsMax", &faults)
	setPositive(&l.LookupTimeout, DefaultLookupTimeout, "LookupTimeout", &faults)
	setPositive(&l.SelectorsMax, DefaultSelectorsMax, "SelectorsMax", &faults)
	setPositive(&l.LookupConcurrencyMax, DefaultLookupConcurrencyMax, "LookupConcurrencyMax", &faults)
	setPositive(&l.ReadBytesMax, DefaultReadBytesMax, "ReadBytesMax", &faults)
	setPositive(&l.ReadSamplesMax, DefaultReadSamplesMax, "ReadSamplesMax", &faults)
	setPositive(&l.ReadTimeout, DefaultReadTimeout, "ReadTimeout", &faults)
	setPositive(&l.ReadConcurrencyMax, DefaultReadConcurrencyMax, "ReadConcurrencyMax", &faults)
	setPositive(&l.ReadFrameBytesMax, DefaultReadFrameBytesMax, "ReadFrameBytesMax", &faults)
	setPositive(&l.RetryAfterMin, DefaultRetryAfterMin, "RetryAfterMin", &faults)
	setPositive(&l.RetryAfterMax, max(DefaultRetryAfterMax, l.RetryAfterMin), "RetryAfterMax", &faults)
	setPositive(&l.BufferBytesMax, DefaultBufferBytesMax, "BufferBytesMax", &faults)
	setPositive(&l.GzipBytesMin, DefaultGzipBytesMin, "GzipBytesMin", &faults)
	setPositive(&l.MetricsRequestsMax, DefaultMetricsRequestsMax, "MetricsRequestsMax", &faults)
	setPositive(&l.RankingMax, DefaultRankingMax, "RankingMax", &faults)
	if l.WriteInflightBytesMax < l.WriteBytesMax {
		faults = append(faults, fmt.Errorf("api: limit WriteInflightBytesMax %d is below WriteBytesMax %d",
			l.WriteInflightBytesMax, l.WriteBytesMax))
	}
	if l.RetryAfterMax < l.RetryAfterMin {
		faults = append(faults, fmt.Errorf("api: limit RetryAfterMax %s is below RetryAfterMin %s",
			l.RetryAfterMax, l.RetryAfterMin))
	}
	return errors.Join(faults...)
}

func setPositive[T ~int | ~int64](v *T, def T, name string, faults *[]error) {
	if *v == 0 {
		*v = def
	}
	if *v < 0 {
		*faults = append(*faults, fmt.Errorf("api: limit %s is %d; it must be positive, or 0 for its default", name, *v))
	}
}

func (b *BuildInfo) setDefaults() {
	for _, f := range []struct {
		v   *string
		def string
	}{{&b.Name, "Halite"}, {&b.Version, "unknown"}, {&b.APIVersion, DefaultAPIVersion}, {&b.DocsURL, DefaultDocsURL}} {
		if *f.v == "" {
			*f.v = f.def
		}
	}
}

// Writer stores write requests; *ingest.Ingester is one.
type Writer interface {
	// Write stores a request and returns once it is durable. It does not keep the body. It stores the valid series of a
	// well-formed request and reports the others in the result.
	Write(ctx context.Context, in ingest.Input) (ingest.Result, error)
}

// Authenticator identifies the sender of a request; *auth.Authenticator is one.
type Authenticator interface {
	// Identify returns an *auth.Refusal if the sender is unknown.
	Identify(r *http.Request) (*principal.Principal, error)
}

// nobodyLogsIn gives everybody every right.
type nobodyLogsIn struct{}

// Identify implements Authenticator.
func (nobodyLogsIn) Identify(*http.Request) (*principal.Principal, error) {
	return &principal.Principal{Scopes: principal.Every}, nil
}

// Engine evaluates PromQL; *query.Engine is one. Its errors are *query.Error.
type Engine interface {
	Instant(ctx context.Context, r query.InstantRequest) (*query.Result, error)
	Range(ctx context.Context, r query.RangeRequest) (*query.Result, error)
	// Parse parses an expression that is not evaluated.
	Parse(expr string) (parser.Expr, error)
	// Format formats an expression as Prometheus does.
	Format(expr string) (string, error)
	// Parser is the parser that Parse and the evaluation use, for selectors.
	Parser() parser.Parser
	// Active lists the queries that run or wait, oldest first.
	Active() []query.ActiveQuery
	// Cancel ends a query. It reports whether a query with that id exists.
	Cancel(id uint64) bool
}

// Index looks up series and labels; *index.Index is one. Times are unix milliseconds, inclusive.
type Index interface {
	Select(ctx context.Context, budget index.Budget, mintMs, maxtMs int64, matchers ...*labels.Matcher) ([]index.Series, error)
	LabelNames(ctx context.Context, mintMs, maxtMs int64, limit int, matchers ...*labels.Matcher) ([]string, error)
	LabelValues(
		ctx context.Context, name string, mintMs, maxtMs int64, limit int, matchers ...*labels.Matcher,
	) ([]string, error)
	// Explain returns the work of a look-up instead of its response.
	Explain(ctx context.Context, budget index.Budget, kind index.ResultKind, label string, mintMs, maxtMs int64,
		matchers ...*labels.Matcher) (index.Work, error)
}

// Budgets bound the memory of responses, together with queries; *read.Reader is one.
type Budgets interface {
	// BudgetOf returns the budget of one response, within the limits of the principal in ctx. The response closes it.
	BudgetOf(ctx context.Context) *budget.Budget
}

// MetadataSource returns the metadata that senders sent; *ingest.Ingester is one.
type MetadataSource interface {
	// Metadata returns the entries of one metric, or of all if metric is empty; limit bounds the number of metrics, 0
	// means all.
	Metadata(metric string, limit int) map[string][]ingest.Metadata
	// TargetMetadata returns the entry of a metric for a target.
	TargetMetadata(metric, job, instance string) (m ingest.Metadata, known bool)
}

// StatsSource describes the store.
type StatsSource interface {
	// StoreStats is called once for each request; limit bounds each ranking.
	StoreStats(limit int) StoreStats
}

// StoreStats are the figures of /api/v1/status/tsdb.
type StoreStats struct {
	// Series and LabelPairs count the active series and the distinct name=value pairs among them.
	Series, LabelPairs int
	// Chunks counts the rows that are only in memory.
	Chunks int64
	// MinTimeMs and MaxTimeMs bound the samples in memory, unix milliseconds.
	MinTimeMs, MaxTimeMs int64
	// SeriesByMetric, ValuesByLabel, BytesByLabel and SeriesByPair are rankings, descending.
	SeriesByMetric, ValuesByLabel, BytesByLabel, SeriesByPair []index.NameCount
}

// Flusher moves the head to the tables; *ingest.Ingester is one.
type Flusher interface {
	// Flush returns once all samples accepted before the call are in the tables and durable.
	Flush(ctx context.Context) error
}

// Snapshot is a copy of the store on its own disk.
type Snapshot struct {
	// Name is its directory below the server's directory of snapshots, Path its absolute path on the server's machine.
	Name string `json:"name"`
	Path string `json:"path"`
	// Tables is false if the copy has only the log, because the tables are not on this machine.
	Tables bool `json:"tables"`
}

// Readiness says whether the server may serve requests.
type Readiness struct {
	// Ready is true once requests can be answered.
	Ready bool
	// Stopping is true when the process is shutting down; it is never ready again.
	Stopping bool
	// Reason says why it is not ready, for operators.
	Reason string
	// ReplayMin, ReplayMax and ReplayCurrent are the first, last and current segment of the log's replay.
	ReplayMin, ReplayMax, ReplayCurrent int
	// RetryAfter is the time until the next try; 0 lets the server choose.
	RetryAfter time.Duration
}

// Deleter deletes samples; *ingest.Ingester is one.
type Deleter interface {
	// DeleteSeries deletes durably and returns the number of series that match.
	DeleteSeries(ctx context.Context, d deletion.Request) (series int, err error)
	// CountDeletion counts what DeleteSeries would delete.
	CountDeletion(ctx context.Context, d deletion.Request) (deletion.Count, error)
	// CleanTombstones frees the space of deleted samples.
	CleanTombstones(ctx context.Context) (deletion.Report, error)
}

// TenantAdmin administers tenants; *tenantadmin.Admin implements it.
type TenantAdmin interface {
	// List returns all tenants with their usage, and UsageOf returns one.
	List(ctx context.Context) ([]tenantadmin.Usage, error)
	UsageOf(ctx context.Context, name string) (tenantadmin.Usage, error)
	// Add adds a tenant.
	Add(ctx context.Context, name string) error
	// Preview returns what Drop would remove. Drop returns the number of series.
	Preview(ctx context.Context, name string) (tenantadmin.Content, error)
	Drop(ctx context.Context, name string) (series int, err error)
}

// storedSelectors is an Index that knows the stored names behind the names of aliases; *restricted.Index is one.
type storedSelectors interface {
	// StoredSelectors returns what selectors select in a window, by stored names.
	StoredSelectors(ctx context.Context, mintMs, maxtMs int64, selectors ...[]*labels.Matcher) ([]restricted.Stored, error)
}

// aliasDeleter deletes series by their names in responses, which may be aliases.
type aliasDeleter struct {
	Deleter // takes stored names
	names   storedSelectors
}

// DeleteSeries implements Deleter. It counts a series once for each stored name, and again for each part of the time with other
// aliases.
func (x aliasDeleter) DeleteSeries(ctx context.Context, d deletion.Request) (series int, err error) {
	err = x.forEachPart(ctx, d, func(part deletion.Request) error {
		n, err := x.Deleter.DeleteSeries(ctx, part)
		series += n
		return err
	})
	return series, err
}

// CountDeletion implements Deleter. It counts series as DeleteSeries does.
func (x aliasDeleter) CountDeletion(ctx context.Context, d deletion.Request) (count deletion.Count, err error) {
	err = x.forEachPart(ctx, d, func(part deletion.Request) error {
		n, err := x.Deleter.CountDeletion(ctx, part)
		count.Add(&n)
		return err
	})
	return count, err
}

// forEachPart calls do with the stored names of a deletion, once for each part of its time with other aliases.
func (x aliasDeleter) forEachPart(ctx context.Context, d deletion.Request, do func(deletion.Request) error) error {
	stored, err := x.names.StoredSelectors(ctx, d.FromMs, d.ToMs, d.Selectors...)
	if err != nil {
		return fmt.Errorf("%w: %w", deletion.ErrBadRequest, err)
	}
	for _, part := range stored {
		d.FromMs, d.ToMs, d.Selectors = part.FromMs, part.ToMs, part.Selectors
		if err := do(d); err != nil {
			return err
		}
	}
	return nil
}

// restrictedDeleter adds the matchers of the principal to each selector of a deletion.
type restrictedDeleter struct{ Deleter }

// newAliasDeleter returns a Deleter for the names that an index shows. An index without aliases shows the stored ones.
func newAliasDeleter(d Deleter, i Index) Deleter {
	if names, ok := i.(storedSelectors); ok {
		return aliasDeleter{d, names}
	}
	return restrictedDeleter{d}
}

// DeleteSeries implements Deleter.
func (x restrictedDeleter) DeleteSeries(ctx context.Context, d deletion.Request) (series int, err error) {
	return x.Deleter.DeleteSeries(ctx, restrict(ctx, d))
}

// CountDeletion implements Deleter.
func (x restrictedDeleter) CountDeletion(ctx context.Context, d deletion.Request) (deletion.Count, error) {
	return x.Deleter.CountDeletion(ctx, restrict(ctx, d))
}

func restrict(ctx context.Context, d deletion.Request) deletion.Request {
	selectors := make([][]*labels.Matcher, 0, len(d.Selectors))
	for _, set := range d.Selectors {
		for _, s := range principal.From(ctx).Selectors(set) {
			selectors = append(selectors, s.Matchers)
		}
	}
	d.Selectors = selectors
	return d
}

// SeriesLimitSource returns the usage of series limits; most bounds each list of metrics.
type SeriesLimitSource func(most int) ingest.SeriesLimitStatus

// RetentionSource returns the disk space of each tier of each rule, and the space that other retentions would free.
type RetentionSource func(ctx context.Context, try retention.Change) ([]retention.Cost, error)

// TabletSource lists tables and their tablets; every storage.Store is one.
type TabletSource interface {
	Tables(ctx context.Context) ([]storage.TableSchema, error)
	Table(ctx context.Context, name string) (storage.Table, error)
}
