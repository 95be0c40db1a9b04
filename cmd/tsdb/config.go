package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"sort"
	"time"

	"github.com/alecthomas/kingpin/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/model"

	"halite/api"
	"halite/api/senders"
	"halite/cmd/tsdb/internal/opentsdb"
	"halite/cmd/tsdb/internal/program"
	"halite/cmd/tsdb/internal/rules"
	"halite/cmd/tsdb/internal/tables"
	"halite/ingest"
	"halite/ingest/head"
	"halite/keyschema"
	"halite/storage/index/memory"
	"halite/storage/keyviz"
)

// serveConfig holds the flags of `tsdb serve`; the fields follow the flags' groups.
type serveConfig struct {
	engine             string
	storagePath        string
	retentionRaw       model.Duration
	clockJump          model.Duration
	histogramRetention model.Duration
	rollups            rollupConfig
	configFile         string
	cacheBytes         int64
	memtableBytes      int64
	tabletBytes        int64
	keyvizBytes        int64
	demoRules          []keyschema.Rule // of a demo; nil otherwise
	tabletRows         int64
	indexBytes         int64
	headBytesMax       int64
	headTotalBytesMax  int64
	headTotalByUser    bool
	walBytesMax        int64
	freeBytesMin       int64
	reserveBytes       int64
	tombstonesMax      int
	aliasesMax         int
	acceptWALLoss      bool
	exitOnFailure      bool
	acceptTableLoss    []string // names of lost files, or tables.AcceptAll
	bigtable           tables.BigtableFlags
	takeOver           bool
	directMode         directConfig
	web                webConfig
	opentsdb           opentsdb.Flags
	alerts             rules.Flags
	bodyBytesMax       int64
	labelsMax          int
	labelNameMax       int64
	labelValueMax      int64
	metricNameMax      int64
	labelSetMax        int64
	histogramMax       int64
	decodedHistMax     int64
	exemplarsMax       int
	symbolsMax         int
	badLinesMax        int
	relabelledMax      int
	sendersMax         int
	seriesMax          int
	seriesMaxByUser    bool
	seriesWarn         float64
	seriesDryRun       bool
	aheadMax           time.Duration
	queryTimeout       time.Duration
	queryLookback      time.Duration
	querySamplesMax    int
	queryBytesMax      int64
	queryTotalBytesMax int64
	engineSamplesMax   int
	querySeriesMax     int
	queryConcurrency   int
	queryPointsMax     int
	topQueriesMax      int
	querySelectorsMax  int
	queryTextBytesMax  int
	queryDepthMax      int
	formatDepthMax     int
	subqueryStepsMax   int64
	subqueryPointsMax  int64
	labelGrowthMax     int
	cheapSamplesMax    int64
	queryQueueMax      int
	queryQueueWait     time.Duration
	queryTiers         string
	queryExperimental  bool
	queryDelayedNames  bool
	queryStartTimes    bool
	queryLogFile       string
	queryLogSlower     time.Duration
	resultCacheBytes   int64
	rowCacheBytes      int64
	resultCacheRecent  time.Duration
	logLevel           string
	logFormat          string
	flagValues         func() map[string]string
	openTablesMax      int            // see fitDescriptors
	shared             []*sharedBytes // see fitMemory
	inFlightBytesMax   int64          // set by fitMemory; 0 means the default of the package that uses it
	monthSeriesMax     int            // also set by fitMemory
	noJobs             bool           // the process opens the database for a single task
	// now is the clock; nil is time.Now.
	now func() time.Time

	// senders records which clients write.
	senders *senders.Tracker

	// metrics takes the metrics of the server; nil is a new registry.
	metrics metricRegistry

	// stderr is where the log goes.
	stderr io.Writer
	// ruleSettings are the rules that the server read before it listened.
	ruleSettings *rules.Settings
	// locked, if not nil, is called when this process has locked the storage. It may be called again.
	locked func()
	// replaying, if not nil, receives the progress of the log's replay.
	replaying func(ingest.ReplayProgress)
	// waiting, if not nil, receives the error that delays the start, such as a full disk. It receives nil when the wait ends.
	waiting func(lack error)
	// background, if not nil, runs concurrently with the server once the server is ready. Its arguments are the writer of
	// the server's own samples and the server's external URL. An error ends the server.
	background func(ctx context.Context, w sampleWriter, url string, log *slog.Logger) error
}

// metricRegistry takes the metrics of the server and returns their values.
type metricRegistry interface {
	prometheus.Registerer
	prometheus.Gatherer
}

// addServeFlags declares the flags of `tsdb serve` on cmd, in Prometheus's style.
func addServeFlags(cmd *kingpin.CmdClause) *serveConfig {
	c := &serveConfig{stderr: os.Stderr}
	c.addStorageFlags(cmd)
	cmd.Flag("config.file", "YAML file with the rules and limits that a reload may change: row keys, retention and limits by "+
		"metric. See docs/configuration.md.").StringVar(&c.configFile)
	c.web.addFlags(cmd)
	c.opentsdb.Add(cmd)
	c.alerts.AddFlags(cmd)
	c.addIngestFlags(cmd)
	c.addQueryFlags(cmd)
	cmd.Flag("log.level", "Lowest level to log: debug, info, warn or error.").Default("info").
		EnumVar(&c.logLevel, "debug", "info", "warn", "error")
	cmd.Flag("log.format", "Format of log lines: logfmt or json.").Default("logfmt").EnumVar(&c.logFormat, "logfmt", "json")
	c.flagValues = func() map[string]string { return flagValues(cmd) }
	return c
}

func (c *serveConfig) addIngestFlags(cmd *kingpin.CmdClause) {
	cmd.Flag("ingest.max-body-bytes", "Maximum size of a request body, both compressed and decoded.").Default("32MiB").
		SetValue(program.Bytes(&c.bodyBytesMax))
	cmd.Flag("ingest.max-bad-lines", "Number of malformed lines after which an import of JSON lines or CSV ends with 400, unless "+
		"more samples are valid.").Default(fmt.Sprint(api.DefaultBadLinesMax)).IntVar(&c.badLinesMax)
	cmd.Flag("ingest.max-labels", "Maximum number of labels of a series.").Default("512").IntVar(&c.labelsMax)
	cmd.Flag("ingest.max-label-name-bytes", "Maximum length of a label name in bytes, up to 1024.").Default("1024").
		Int64Var(&c.labelNameMax)
	cmd.Flag("ingest.max-label-value-bytes", "Maximum length of a label value in bytes, up to 1048576.").Default("65536").
		Int64Var(&c.labelValueMax)
	cmd.Flag("ingest.max-metric-name-bytes", "Maximum length of a metric name in bytes, up to 1024, which a row key can hold.").
		Default("1024").Int64Var(&c.metricNameMax)
	cmd.Flag("ingest.max-label-set-bytes", "Maximum length of all label names and values of a series together in bytes, "+
		"up to 1048576. If labels do not fit into a row key of 4 KiB, the key holds their hash.").Default("262144").
		Int64Var(&c.labelSetMax)
	cmd.Flag("ingest.max-histogram-bytes", "Maximum size of an encoded native histogram in bytes, up to 1048576.").Default("65536").
		Int64Var(&c.histogramMax)
	cmd.Flag("ingest.max-decoded-histogram-bytes", "Maximum memory of the decoded native histograms of one series in a request. "+
		"0 means eight times --ingest.max-body-bytes.").Default("0").SetValue(program.Bytes(&c.decodedHistMax))
	cmd.Flag("ingest.max-exemplars", "Maximum number of exemplars kept for a series and hour, up to 128. The newest ones are kept.").
		Default("60").IntVar(&c.exemplarsMax)
	cmd.Flag("ingest.max-symbols", "Maximum number of symbols in a request of remote write 2.0.").Default("1000000").
		IntVar(&c.symbolsMax)
	cmd.Flag("ingest.max-relabelled-series", "Maximum number of label sets in the relabelling cache, beyond three for each "+
		"stored series. Label sets outside the cache are relabelled with each sample.").Default("1000000").IntVar(&c.relabelledMax)
	cmd.Flag("ingest.max-senders", "Maximum number of senders that /api/v1/status/senders lists. A new one "+
		"replaces the least recent one.").
		Default("1000").IntVar(&c.sendersMax)
	cmd.Flag("ingest.max-series", "Maximum number of active series. The server refuses further ones with 400 and still accepts "+
		"known series. 0 means no limit. Default: the memory limit divided by 512 bytes.").
		IsSetByUser(&c.seriesMaxByUser).IntVar(&c.seriesMax)
	cmd.Flag("ingest.max-series-warn", "Number of active series at which the server warns. A value up to 1 is a share of "+
		"--ingest.max-series and of the memory for series.").
		Default("0.8").Float64Var(&c.seriesWarn)
	cmd.Flag("ingest.max-series-dry-run", "Count and log series beyond --ingest.max-series, but accept them.").
		BoolVar(&c.seriesDryRun)
	cmd.Flag("ingest.max-ahead", "How far in the future a sample may be.").Default("10m").DurationVar(&c.aheadMax)
}

func (c *serveConfig) addQueryFlags(cmd *kingpin.CmdClause) {
	cmd.Flag("query.timeout", "Maximum time of a query.").Default("2m").DurationVar(&c.queryTimeout)
	cmd.Flag("query.lookback-delta", "How far an instant selector looks back.").Default("5m").DurationVar(&c.queryLookback)
	cmd.Flag("query.max-samples", "Maximum number of samples that a query holds in memory.").Default("50000000").
		IntVar(&c.querySamplesMax)
	cmd.Flag("query.max-bytes", "Maximum memory of the samples of a query. 0 means a fifth of the memory limit of the heap, "+
		"from 64MB to 2GB.").Default("0").SetValue(program.Bytes(&c.queryBytesMax))
	cmd.Flag("query.max-total-bytes", "Maximum memory of all queries together, until the last byte of each response is written. "+
		"An eighth of it is for queries below 1 MiB. 0 means two fifths of the memory limit of the heap, and at least five "+
		"quarters of --query.max-bytes.").Default("0").SetValue(program.Bytes(&c.queryTotalBytesMax))
	cmd.Flag("query.max-engine-samples", "Maximum number of samples in Prometheus's engine, which evaluates what the columnar "+
		"operators cannot. 0 means --query.max-samples, or the number that fits into half of --query.max-bytes if that is "+
		"smaller.").Default("0").
		IntVar(&c.engineSamplesMax)
	cmd.Flag("query.max-series", "Maximum number of series that all selectors of a query select together.").Default("5000000").
		IntVar(&c.querySeriesMax)
	cmd.Flag("query.max-concurrency", "Maximum number of queries evaluated at once. 0 means twice the number of CPUs, at least "+
		"4.").
		Default("0").IntVar(&c.queryConcurrency)
	cmd.Flag("query.max-depth", "Maximum depth of an expression. Each operator of a chain counts.").Default("2000").
		IntVar(&c.queryDepthMax)
	cmd.Flag("query.max-format-depth", "Maximum depth of an expression that /api/v1/format_query formats.").Default("300").
		IntVar(&c.formatDepthMax)
	cmd.Flag("query.max-subquery-steps", "Maximum number of steps of a subquery.").Default("1000000").Int64Var(&c.subqueryStepsMax)
	cmd.Flag("query.max-subquery-points", "Maximum number of subquery points that a function reads for one series over all "+
		"steps.").
		Default("100000000").Int64Var(&c.subqueryPointsMax)
	cmd.Flag("query.max-label-growth", "Maximum factor by which label_replace and label_join may lengthen labels.").
		Default("100").IntVar(&c.labelGrowthMax)
	cmd.Flag("query.cheap-samples", "Maximum estimated number of samples of a cheap query. Larger queries use at most three "+
		"quarters of --query.max-concurrency, so they do not delay cheap ones.").Default("10000000").Int64Var(&c.cheapSamplesMax)
	cmd.Flag("query.max-queue", "Maximum number of waiting cheap queries, and of waiting large queries. The server refuses "+
		"further ones with 503.").Default("1000").
		IntVar(&c.queryQueueMax)
	cmd.Flag("query.queue-wait", "Maximum time that a query waits. After that, the server refuses it with 503.").Default("30s").
		DurationVar(&c.queryQueueWait)
	cmd.Flag("query.tiers", "Data for long windows. auto uses rollups where they give the exact result at lower cost, and "+
		"where raw samples have expired. raw uses samples only. A request may set tiers=raw.").Default(tiersAuto).
		EnumVar(&c.queryTiers, tiersAuto, tiersRaw)
	cmd.Flag("query.experimental", "Accept the experimental functions, aggregations, selector modifiers and fill modifiers "+
		"that Prometheus has behind --enable-feature.").BoolVar(&c.queryExperimental)
	cmd.Flag("query.delayed-name-removal", "Drop metric names at the end of the evaluation, as Prometheus does with "+
		"--enable-feature=promql-delayed-name-removal.").BoolVar(&c.queryDelayedNames)
	cmd.Flag("query.use-start-timestamps", "Let rate, irate, increase and resets use the start timestamps of samples, as "+
		"Prometheus does with --enable-feature=use-start-timestamps.").BoolVar(&c.queryStartTimes)
	cmd.Flag("query.log-file", "File for slow queries and for queries that a crash interrupted. The server appends them "+
		"as JSON lines. Empty logs none. SIGHUP and POST /-/reload reopen the file.").StringVar(&c.queryLogFile)
	cmd.Flag("query.log-slower-than", "Minimum time of a query in --query.log-file. 0s logs all.").Default("1s").
		DurationVar(&c.queryLogSlower)
	c.addShared(cmd.Flag("query.result-cache-bytes", "Memory for cached results. The default is at most a thirty-second of the "+
		"memory limit. 0 switches the cache off.").Default("64MB"),
		sharedBytes{sizeBytes: &c.resultCacheBytes, part: 32, offHeap: true})
	c.addShared(cmd.Flag("query.row-cache-bytes", "Memory for decoded rows and rollups. The default is at most an eighth of "+
		"the memory limit. 0 switches the cache off.").Default("256MB"),
		sharedBytes{sizeBytes: &c.rowCacheBytes, part: 8, offHeap: true})
	cmd.Flag("query.result-cache-recent", "Age up to which the result cache evaluates samples again. With 0s, the cache "+
		"only checks whether a later write changed a cached result.").Default("0s").DurationVar(&c.resultCacheRecent)
	cmd.Flag("query.max-points", "Maximum number of points of a series in a range query.").Default("11000").
		IntVar(&c.queryPointsMax)
	cmd.Flag("query.max-selectors", "Maximum number of match[] parameters of a request, and of queries in a remote read.").
		Default("1000").IntVar(&c.querySelectorsMax)
	cmd.Flag("query.max-top-queries", "Maximum number of queries whose costs are counted for /api/v1/status/top_queries.").
		Default("1000").IntVar(&c.topQueriesMax)
	cmd.Flag("query.max-text-bytes", "Maximum length of a query.").Default("1048576").IntVar(&c.queryTextBytesMax)
}

// Validate reports every fault of the flags together.
func (c *serveConfig) Validate() error {
	var faults []error
	positive := map[string]int64{
		"storage.cache-bytes": c.cacheBytes, "storage.memtable-bytes": c.memtableBytes,
		"storage.index-bytes": c.indexBytes, "storage.head-bytes": c.headBytesMax,
		"storage.wal-bytes": c.walBytesMax, "storage.tablet-bytes": c.tabletBytes, "storage.tablet-rows": c.tabletRows,
		"ingest.max-body-bytes": c.bodyBytesMax, "ingest.max-labels": int64(c.labelsMax),
		"ingest.max-bad-lines":        int64(c.badLinesMax),
		"ingest.max-label-name-bytes": c.labelNameMax, "ingest.max-label-value-bytes": c.labelValueMax,
		"ingest.max-metric-name-bytes": c.metricNameMax, "ingest.max-label-set-bytes": c.labelSetMax,
		"ingest.max-exemplars": int64(c.exemplarsMax), "ingest.max-symbols": int64(c.symbolsMax),
		"ingest.max-relabelled-series": int64(c.relabelledMax),
		"ingest.max-histogram-bytes":   c.histogramMax, "ingest.max-senders": int64(c.sendersMax),
		"web.self-scrape-interval": int64(c.web.selfScrapeEvery), "query.timeout": int64(c.queryTimeout),
		"query.lookback-delta": int64(c.queryLookback), "query.max-samples": int64(c.querySamplesMax),
		"query.max-series": int64(c.querySeriesMax), "query.max-top-queries": int64(c.topQueriesMax),
		"query.max-queue": int64(c.queryQueueMax), "query.max-depth": int64(c.queryDepthMax),
		"query.max-format-depth":   int64(c.formatDepthMax),
		"query.max-subquery-steps": c.subqueryStepsMax, "query.max-subquery-points": c.subqueryPointsMax,
		"query.max-label-growth": int64(c.labelGrowthMax), "query.queue-wait": int64(c.queryQueueWait),
		"query.max-points": int64(c.queryPointsMax), "query.max-text-bytes": int64(c.queryTextBytesMax),
		"query.cheap-samples": c.cheapSamplesMax, "query.max-selectors": int64(c.querySelectorsMax),
	}
	maps.Copy(positive, c.web.limits.Positive())
	for name, v := range positive {
		if v <= 0 {
			faults = append(faults, fmt.Errorf("--%s must be above 0", name))
		}
	}
	faults = append(faults, c.labelFaults()...)
	faults = append(append(faults, c.histogramFaults()...), c.keyvizFaults()...)
	if err := c.bigtable.Validate(); c.engine == tables.EngineBigtable && err != nil {
		faults = append(faults, err)
	}
	if err := errors.Join(c.opentsdb.Validate(), c.directMode.Validate(c.engine), c.web.tenants.Validate()); err != nil {
		faults = append(faults, err)
	}
	if r := time.Duration(c.retentionRaw); r != 0 && r < 24*time.Hour {
		faults = append(faults, fmt.Errorf("--storage.retention.raw is %s; it must be 0, or at least 1d, the span of a partition",
			c.retentionRaw))
	}
	if jump := time.Duration(c.clockJump); jump != 0 && jump < time.Hour {
		faults = append(faults, fmt.Errorf("--storage.retention.clock-jump is %s; it must be 0, or at least 1h", c.clockJump))
	}
	if err := errors.Join(c.rollups.Validate(time.Duration(c.retentionRaw)), c.alerts.Validate()); err != nil {
		faults = append(faults, err)
	}
	if !(c.seriesWarn > 0) {
		faults = append(faults, errors.New("--ingest.max-series-warn must be above 0"))
	}
	for name, value := range map[string]int64{
		"ingest.max-series": int64(c.seriesMax), "ingest.max-ahead": int64(c.aheadMax),
		"ingest.max-decoded-histogram-bytes": c.decodedHistMax,
		"storage.free-bytes":                 c.freeBytesMin, "storage.reserve-bytes": c.reserveBytes,
		"storage.head-total-bytes": c.headTotalBytesMax, "storage.tombstones-max": int64(c.tombstonesMax),
		"storage.aliases-max": int64(c.aliasesMax),
		"query.max-bytes":     c.queryBytesMax, "query.max-total-bytes": c.queryTotalBytesMax,
		"query.max-engine-samples": int64(c.engineSamplesMax), "query.max-concurrency": int64(c.queryConcurrency),
		"query.log-slower-than": int64(c.queryLogSlower), "query.result-cache-bytes": c.resultCacheBytes,
		"query.row-cache-bytes": c.rowCacheBytes, "query.result-cache-recent": int64(c.resultCacheRecent),
	} {
		if value < 0 {
			faults = append(faults, fmt.Errorf("--%s must not be negative", name))
		}
	}
	sort.Slice(faults, func(i, j int) bool { return faults[i].Error() < faults[j].Error() })
	return errors.Join(faults...)
}

// keyvizFaults returns an error if the key heat map has too little memory.
func (c *serveConfig) keyvizFaults() []error {
	if c.keyvizBytes == 0 || c.keyvizBytes >= keyviz.MemoryBytesMin {
		return nil
	}
	return []error{fmt.Errorf("--keyviz.max-memory is %d; it must be 0, or at least %d bytes", c.keyvizBytes, keyviz.MemoryBytesMin)}
}

// labelFaults lists the limits of labels and histograms that exceed what rows and the index hold.
func (c *serveConfig) labelFaults() (faults []error) {
	for name, limit := range map[string]struct{ value, most int64 }{
		"label-name-bytes":  {c.labelNameMax, memory.LabelNameBytesMax},
		"label-value-bytes": {c.labelValueMax, memory.LabelValueBytesMax},
		"metric-name-bytes": {c.metricNameMax, keyschema.MetricBytesMax},
		"label-set-bytes":   {c.labelSetMax, ingest.LabelSetBytesUpperBound},
		"histogram-bytes":   {c.histogramMax, ingest.HistogramBytesUpperBound},
		"exemplars":         {int64(c.exemplarsMax), head.ExemplarsUpperBound},
	} {
		if limit.value > limit.most {
			faults = append(faults, fmt.Errorf("--ingest.max-%s is %d: the store holds at most %d", name, limit.value, limit.most))
		}
	}
	return faults
}

// clock returns the clock of all packages.
func (c *serveConfig) clock() func() time.Time {
	if c.now == nil {
		return time.Now
	}
	return c.now
}

// aheadOrDefault returns how far in the future samples may lie.
func (c *serveConfig) aheadOrDefault() time.Duration {
	return cmp.Or(c.aheadMax, ingest.AheadMaxDefault)
}

// logger returns a logger to standard error in the chosen format.
func (c *serveConfig) logger() *slog.Logger {
	var level slog.Level
	if err := level.UnmarshalText([]byte(c.logLevel)); err != nil {
		level = slog.LevelInfo
	}
	opts := &slog.HandlerOptions{Level: level, ReplaceAttr: durationText}
	if c.logFormat == "json" {
		return slog.New(slog.NewJSONHandler(c.stderr, opts))
	}
	return slog.New(slog.NewTextHandler(c.stderr, opts))
}

// durationText writes durations with their unit. The JSON handler would write nanoseconds.
func durationText(_ []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindDuration {
		a.Value = slog.StringValue(a.Value.Duration().String())
	}
	return a
}

// shownFlags are the flags for /api/v1/status/flags. Tools that check rules, such as pint, read the retention under Prometheus's
// name. Without it they assume 15 days, and warn of longer windows.
func (c *serveConfig) shownFlags() map[string]string {
	flags, retention := c.flagValues(), c.retentionRaw
	if retention == 0 {
		retention = foreverAtPrometheus
	}
	flags["storage.tsdb.retention.time"] = retention.String()
	return flags
}

// foreverAtPrometheus stands for a retention without end, because Prometheus has none.
const foreverAtPrometheus = model.Duration(100 * 365 * 24 * time.Hour)

// flagValues lists every flag of cmd with its value in force.
func flagValues(cmd *kingpin.CmdClause) map[string]string {
	values := make(map[string]string)
	for _, f := range cmd.Model().Flags {
		if f.Hidden || f.Name == "help" {
			continue
		}
		values[f.Name] = f.Value.String()
	}
	return values
}
