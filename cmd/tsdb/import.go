package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/alecthomas/kingpin/v2"
	"github.com/alecthomas/units"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/promql/parser"

	"halite/cmd/tsdb/internal/client"
	"halite/cmd/tsdb/internal/config"
	"halite/cmd/tsdb/internal/datadir"
	opentsdbtools "halite/cmd/tsdb/internal/opentsdb/tools"
	"halite/cmd/tsdb/internal/program"
	"halite/cmd/tsdb/internal/tables"
	"halite/cmd/tsdb/internal/transfer"
	"halite/keyschema"
	"halite/query/promadapter"
	"halite/storage"
	"halite/storage/retention"
)

// importConfig holds the flags of `tsdb import`.
type importConfig struct {
	serve    *serveConfig
	server   client.Server
	options  transfer.Options
	from, to string
	match    string
	keptRaw  bool // --storage.retention.raw was given
	source   string
	reading  client.Server
	window   time.Duration
	retryFor time.Duration

	format, database, precision string
	special                     string
	extra                       []string

	partSamples              int
	pieceBytes, lineBytesMax units.Base2Bytes
}

// importFlags are the flags of serve that the help of `tsdb import` shows. The command also accepts the others.
var importFlags = []string{"storage.engine", "storage.path", "storage.retention.raw", "storage.retention.histograms",
	"config.file", "log.level"}

// opener opens the source that the arguments name.
type opener func(c *importConfig) (transfer.Source, error)

// importHelp is the common help of all forms of the import.
const importHelp = "into a running server with --url, or into --storage.path of a server that has stopped. See docs/migrating.md."

// newImport declares the flags of an import on cmd.
func newImport(cmd *kingpin.CmdClause) *importConfig {
	c := &importConfig{serve: addServeFlags(cmd)}
	for _, f := range cmd.Model().Flags {
		if flag := cmd.GetFlag(f.Name); flag != nil && !slices.Contains(importFlags, f.Name) {
			flag.Hidden()
		}
	}
	cmd.GetFlag("log.level").Default("warn")
	cmd.GetFlag("storage.retention.raw").IsSetByUser(&c.keptRaw)
	c.server.AddFlags(cmd, "Server to import into. Without it, the import opens --storage.path itself.", "")
	cmd.Flag("state", "File with the progress of the import. The same command continues from there. Default: import.json in "+
		"--storage.path, or tsdb-import.json in the current directory with --url.").StringVar(&c.options.StateFile)
	cmd.Flag("from", "Leave out older samples: an RFC 3339 time or a duration before now such as 720h.").StringVar(&c.from)
	cmd.Flag("to", "Leave out newer samples, in the same form.").StringVar(&c.to)
	cmd.Flag("skip-expired", "Leave out samples older than the retention. Without this flag, a source with such samples "+
		"is refused.").
		BoolVar(&c.options.SkipExpired)
	cmd.Flag("no-verify", "Do not compare source and destination at the end.").BoolVar(&c.options.NoVerify)
	cmd.Flag("retry-for", "How long to retry a request after 429, 5xx and broken connections.").Default("5m").
		DurationVar(&c.retryFor)
	cmd.Flag("quiet", "Do not show progress.").Short('q').BoolVar(&c.options.Quiet)
	return c
}

// addImport declares `tsdb import`.
func addImport(app *kingpin.Application) program.Commands {
	cmd := app.Command("import", "Import samples "+importHelp)
	c := newImport(cmd)
	commands := program.Commands{}
	add := func(name, help, arg, argHelp string, open opener) *kingpin.CmdClause {
		sub := cmd.Command(name, help)
		sub.Arg(arg, argHelp).Required().StringVar(&c.source)
		commands[sub.FullCommand()] = func(ctx context.Context, w io.Writer) error { return c.run(ctx, w, open) }
		return sub
	}
	blocks := add("prometheus-blocks", "Import blocks of Prometheus or Thanos, with native histograms and without deleted samples.",
		"DIR", "Data directory of a Prometheus server, one of its snapshots, or a block.", (*importConfig).openBlocks)
	read := add("remote-read", "Import from a server with remote read, such as Prometheus, Mimir or Halite. Needs --from.",
		"URL", "Base URL of its API. If it ends in /read, it is the URL of remote read.", (*importConfig).openRemoteRead)
	read.Flag("window", "Time range of one request.").Default("2h").DurationVar(&c.window)
	read.Flag("source-token-file", "File with the bearer token for the source.").StringVar(&c.reading.TokenFile)
	for _, sub := range []*kingpin.CmdClause{blocks, read} {
		sub.Flag("match", "Import only series that this selector matches.").StringVar(&c.match)
		sub.Flag("part-samples", "Number of samples that are written at once. The import continues after a whole part.").
			Default("65536").IntVar(&c.partSamples)
		sub.Flag("writers", "Number of concurrent writers.").Default("4").IntVar(&c.options.Writers)
	}
	c.addFiles(add)
	return commands
}

// addFiles declares the imports of files.
func (c *importConfig) addFiles(add func(name, help, arg, argHelp string, open opener) *kingpin.CmdClause) {
	for _, f := range []struct{ format, help string }{
		{transfer.FormatJSONL, "Import JSON lines of VictoriaMetrics's /api/v1/export, or of tsdb export."},
		{transfer.FormatCSV, "Import comma-separated values, with --format or with a header as tsdb export writes it."},
		{transfer.FormatInflux, "Import InfluxDB's line protocol."},
		{transfer.FormatOpenTSDB, "Import lines such as METRIC TIME VALUE TAG=VALUE, the output of OpenTSDB's tsdb scan --import."},
		{transfer.FormatOpenMetrics, "Import OpenMetrics in which each sample has a timestamp."},
	} {
		open := func(c *importConfig) (transfer.Source, error) { return c.openFile(f.format) }
		sub := add(f.format, f.help, "FILE", importFileHelp, open)
		c.addPieces(sub)
		switch f.format {
		case transfer.FormatOpenTSDB:
			c.addSpecial(sub)
			continue
		case transfer.FormatInflux:
			sub.Flag("db", "Database: the value of the label db.").StringVar(&c.database)
			sub.Flag("precision", "Unit of timestamps: ns, us, ms, s, m or h.").Default("ns").
				EnumVar(&c.precision, "ns", "us", "ms", "s", "m", "h")
			continue
		case transfer.FormatCSV:
			sub.Flag("format", "Columns as POSITION:KIND:NAME, separated by commas. Kinds are time, label and metric. Times are unix_s, "+
				"unix_ms, unix_ns, rfc3339 or custom:LAYOUT. Without it the file has a header.").StringVar(&c.format)
		}
		sub.Flag("extra-label", "Label of all series, as name=value. May be repeated.").StringsVar(&c.extra)
	}
}

// addPieces declares the flags for reading a file.
func (c *importConfig) addPieces(cmd *kingpin.CmdClause) {
	cmd.Flag("piece-bytes", "Size of the pieces of whole lines that are read and written at once.").Default("1MiB").
		BytesVar(&c.pieceBytes)
	cmd.Flag("max-line-bytes", "Maximum length of a line. A longer line ends the import.").Default("64MiB").BytesVar(&c.lineBytesMax)
}

func (c *importConfig) addSpecial(cmd *kingpin.CmdClause) {
	cmd.Flag("special-chars", "Characters that names may have besides letters, digits and -_./, as "+
		"tsd.core.tag.allow_specialchars.").StringVar(&c.special)
}

// addOpenTSDB declares `tsdb opentsdb`. Its import is `tsdb import opentsdb` under the name that OpenTSDB's users know.
func addOpenTSDB(app *kingpin.Application) program.Commands {
	cmd := app.Command("opentsdb", "Commands of OpenTSDB's command line, with its arguments and text formats. See docs/opentsdb.md.")
	commands := opentsdbtools.Add(cmd)
	sub := cmd.Command("import", "Import lines such as METRIC TIME VALUE TAG=VALUE "+importHelp)
	c := newImport(sub)
	c.addSpecial(sub)
	c.addPieces(sub)
	sub.Arg("FILE", importFileHelp).Required().StringVar(&c.source)
	commands[sub.FullCommand()] = func(ctx context.Context, w io.Writer) error {
		return c.run(ctx, w, func(c *importConfig) (transfer.Source, error) { return c.openFile(transfer.FormatOpenTSDB) })
	}
	return commands
}

// importFileHelp describes the argument of an import of a file.
const importFileHelp = "File to import, compressed if its name ends in .gz; - is standard input."

func (c *importConfig) openFile(format string) (transfer.Source, error) {
	if c.from != "" || c.to != "" {
		return nil, errors.New("--from and --to do not apply to files")
	}
	params := url.Values{"extra_label": c.extra}
	switch format {
	case transfer.FormatCSV:
		params.Set("format", c.format)
	case transfer.FormatOpenTSDB:
		params = url.Values{transfer.SpecialChars: {c.special}}
	case transfer.FormatInflux:
		params = url.Values{"db": {c.database}, "precision": {c.precision}}
	}
	c.options.Writers = 1 // the last value of a time wins, so pieces are stored in their order
	// Kingpin turns the argument - into an empty string.
	file, err := transfer.OpenFile(cmp.Or(c.source, transfer.Stdin), format, params, transfer.Pieces{
		SizeBytes: int64(c.pieceBytes), LineBytesMax: int64(c.lineBytesMax),
	})
	if err != nil {
		return nil, err
	}
	if c.serve.configFile != "" {
		settings, err := config.Read(c.serve.configFile)
		if err != nil {
			return nil, fmt.Errorf("--config.file: %w", err)
		}
		file.Influx = settings.InfluxOptions()
	}
	if !file.Rereadable() && !c.options.NoVerify {
		fmt.Fprintln(c.options.Out, "Standard input can be read only once, so the samples are not compared at the end.")
		c.options.NoVerify = true
	}
	return file, nil
}

// run imports a source until it is done or ctx ends.
func (c *importConfig) run(ctx context.Context, w io.Writer, open opener) (err error) {
	c.options.Out = w
	source, err := open(c)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, source.Close()) }()
	if c.options.Writers < 1 {
		return errors.New("--writers must be above 0")
	}
	if c.options.Size, err = source.Size(ctx); err != nil {
		return err
	}
	sink, done, err := c.openSink(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, done()) }()
	err = transfer.Import(ctx, source, sink, c.options)
	if ctx.Err() != nil {
		return fmt.Errorf("stopped; the same command continues the import: %w", err)
	}
	return err
}

// bounds returns the time range of a source that the flags select.
func (c *importConfig) bounds() (r transfer.Range, err error) {
	r = transfer.Range{FromMs: 0, ToMs: math.MaxInt64}
	now := time.Now()
	if err := program.ParseRange(c.from, c.to, now, &r.FromMs, &r.ToMs); err != nil {
		return r, err
	}
	text := c.match
	if text == "" {
		text = `{__name__!=""}`
	}
	if r.Matchers, err = parser.NewParser(parser.Options{}).ParseMetricSelector(text); err != nil {
		return r, fmt.Errorf("--match: %w", err)
	}
	return r, nil
}

func (c *importConfig) openBlocks() (transfer.Source, error) {
	r, err := c.bounds()
	if err != nil {
		return nil, err
	}
	blocks, err := transfer.OpenBlocks(c.source, r, c.partSamples, c.serve.logger())
	if err != nil {
		return nil, err
	}
	if blocks.HasLog() {
		fmt.Fprintf(c.options.Out, "%s has a write-ahead log, which is not imported: take a snapshot of Prometheus to get its "+
			"newest samples in blocks.\n", c.source)
	}
	return blocks, nil
}

func (c *importConfig) openRemoteRead() (transfer.Source, error) {
	r, err := c.bounds()
	if err != nil {
		return nil, err
	}
	c.reading.URL = c.source
	return transfer.OpenRemoteRead(&c.reading, r, c.window, c.partSamples)
}

// openSink opens the destination. It refuses a source with samples that the retention would drop.
func (c *importConfig) openSink(ctx context.Context) (transfer.Sink, func() error, error) {
	if c.server.URL == "" {
		return c.openDirectory(ctx)
	}
	c.options.StateFile = cmp.Or(c.options.StateFile, "tsdb-import.json")
	remote, err := transfer.NewRemote(&c.server, c.retryFor)
	if err == nil && !c.options.SkipExpired {
		err = remote.CheckRetention(ctx, c.options.Size, c.options.Out)
	}
	return remote, func() error { return nil }, err
}

// openDirectory opens the database of a stopped server.
func (c *importConfig) openDirectory(ctx context.Context) (transfer.Sink, func() error, error) {
	c.options.StateFile = cmp.Or(c.options.StateFile, filepath.Join(c.serve.storagePath, "import.json"))
	if err := c.keepRetention(ctx); err != nil {
		return nil, nil, fmt.Errorf("%w (--url imports into a running server)", err)
	}
	if err := c.serve.Validate(); err != nil {
		return nil, nil, err
	}
	// This must precede the first start with other retentions.
	if err := c.checkRetention(keyschema.Uniform(c.serve.ages())); err != nil && c.serve.configFile == "" {
		return nil, nil, err
	}
	log := c.serve.logger()
	c.serve.fitMemory(log)
	c.serve.noJobs = true
	stopPacing := paceCollector()
	db, err := openDatabase(ctx, c.serve, log, prometheus.NewRegistry())
	if err != nil {
		stopPacing()
		return nil, nil, fmt.Errorf("%w (--url imports into a running server)", err)
	}
	done := func() error {
		stopPacing()
		return db.close(context.Background())
	}
	if err := c.checkRetention(db.retention.Load()); err != nil {
		return nil, nil, errors.Join(err, done())
	}
	return &transfer.Local{Dir: c.serve.storagePath, Writer: db.ingester, Queryable: promadapter.New(db.reader)}, done, nil
}

// keepRetention uses the retention of the last server that opened the directory, unless flags set it. Otherwise the import
// would shorten the server's retention.
func (c *importConfig) keepRetention(ctx context.Context) error {
	if c.keptRaw {
		return nil
	}
	flags := tables.OfflineFlags{Engine: c.serve.engine, StoragePath: c.serve.storagePath, Bigtable: c.serve.bigtable}
	_, err := os.Stat(datadir.TablesDir(flags.StoragePath))
	if flags.Engine == tables.EnginePebble && errors.Is(err, os.ErrNotExist) {
		return nil
	}
	store, err := flags.Open(ctx)
	if errors.Is(err, storage.ErrNoTable) {
		return nil // a process was killed before it had made the tables
	}
	if err != nil {
		return err
	}
	ages, found, err := retention.ServerRetention(ctx, store)
	if err = errors.Join(err, store.Close()); err != nil || !found {
		return err
	}
	c.serve.retentionRaw = model.Duration(ages[keyschema.Raw])
	c.serve.histogramRetention = model.Duration(ages[keyschema.NativeHistograms])
	c.serve.rollups.hours, c.serve.rollups.hoursSet = model.Duration(ages[keyschema.Hours]), true
	c.serve.rollups.days = model.Duration(ages[keyschema.Days])
	return nil
}

// checkRetention returns an error if a metric of the source has samples that are too old to be kept.
func (c *importConfig) checkRetention(kept *keyschema.RetentionByMetric) error {
	if c.options.SkipExpired {
		return nil
	}
	size, now := c.options.Size, c.serve.clock()()
	metrics := size.Metrics
	if metrics == nil {
		metrics = []string{""}
	}
	for _, metric := range metrics {
		ages := kept.ForMetric(metric)
		fault := transfer.Expired(size, ages[keyschema.Raw], ages[keyschema.NativeHistograms], now)
		if rule := kept.Rules()[kept.RuleOf(metric)].Pattern; fault != nil && rule != "*" {
			return fmt.Errorf("rule %q of the configuration file: %w", rule, fault)
		}
		if fault != nil {
			return fault
		}
	}
	return nil
}
