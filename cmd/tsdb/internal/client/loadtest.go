package client

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/alecthomas/kingpin/v2"

	"halite/cmd/tsdb/internal/program"
	"halite/loadtest"
	loadclient "halite/loadtest/client"
)

// errLoadtestFailed means that the load ran and found faults of the server. The report lists them.
var errLoadtestFailed = errors.New("the load test failed: see its report")

// loadtestCommands holds the flags of `tsdb loadtest run` and `tsdb loadtest compare`.
type loadtestCommands struct {
	run, compare *kingpin.CmdClause
	server       Server
	write        string
	target       loadclient.Target
	targets      []string
	opts         loadtest.Options
	comparing    loadtest.CompareOptions
	from, to     string
	output       program.Output
	jsonFile     string
	quiet        bool
	noVerify     bool
	noFreshness  bool
	profile      string
	queries      string
	series       int
}

// AddLoadtest declares `tsdb loadtest`.
func AddLoadtest(app *kingpin.Application) program.Commands {
	cmd := app.Command("loadtest", "Load a running server and read every acknowledged sample back; see docs/loadtest.md.")
	c := &loadtestCommands{}
	c.run = cmd.Command("run", "Load one server. This is the default.").Default()
	c.compare = cmd.Command("compare", "Send the same samples and queries to several servers in turn and print ratios.")
	for _, sub := range []*kingpin.CmdClause{c.run, c.compare} {
		c.addFleetFlags(sub)
		c.addLoadFlags(sub)
	}
	c.addRunFlags(c.run)
	c.compare.Flag("target", "One server, as 'name=…;write=URL;query=URL;token-file=…;pid=…;dir=…;flush=URL;params=…'. "+
		"Repeat it for each server. Ratios are relative to the first.").
		Required().StringsVar(&c.targets)
	c.compare.Flag("slice-samples", "Number of samples to encode at a time and send to each server in turn.").Default("1000000").
		IntVar(&c.comparing.SliceSamples)
	c.compare.Flag("query-repeats", "Number of times to send each dashboard query, each time for other hosts. 0 sends none.").
		Default("10").
		IntVar(&c.comparing.QueryRepeats)
	c.compare.Flag("queries", "dashboards: the queries of dashboards. all: each function, operator, aggregation and modifier of "+
		"PromQL. The last server is then compared with the better one of the others.").
		Default(queriesDashboards).EnumVar(&c.queries, queriesDashboards, queriesAll)
	c.compare.Flag("query-bound", "Ratio of CPU time above which --queries all counts a query.").Default("0.8").
		Float64Var(&c.comparing.Bound)
	c.compare.Flag("tolerance", "Relative difference up to which query results count as equal.").Default("1e-9").
		Float64Var(&c.comparing.Tolerance)
	return program.Commands{
		c.run.FullCommand():     func(ctx context.Context, w io.Writer) error { return c.loadtest(ctx, w, false) },
		c.compare.FullCommand(): func(ctx context.Context, w io.Writer) error { return c.loadtest(ctx, w, true) },
	}
}

func (c *loadtestCommands) addFleetFlags(cmd *kingpin.CmdClause) {
	f := &c.opts.Load.Fleet
	cmd.Flag("seed", "Seed of all random choices.").Default("1").Uint64Var(&f.Seed)
	cmd.Flag("job", "Value of the label job of all series.").Default("loadtest").StringVar(&f.Job)
	cmd.Flag("profile", "Series to load. fleet: see the flags below. hot: --series series of one metric, with random ids. "+
		"sequential: the same with sequential ids. zipf: --series series of metrics whose sizes follow Zipf's law.").
		Default(profileFleet).EnumVar(&c.profile, profileFleet, profileHot, profileSequential, profileZipf)
	cmd.Flag("series", "Number of series of the profiles hot, sequential and zipf.").Default("100000").IntVar(&c.series)
	cmd.Flag("hosts", "Number of hosts. A host with 3 services has 100 series.").Default("100").IntVar(&f.Hosts)
	cmd.Flag("services", "Number of services on each host. A service has 20 series, the host itself 40. -1 means none.").
		Default("3").IntVar(&f.Services)
	cmd.Flag("hot-series", "Number of series of one additional metric, with sequential ids.").IntVar(&f.HotSeries)
	cmd.Flag("zipf-series", "Number of series of additional metrics whose sizes follow Zipf's law.").IntVar(&f.ZipfSeries)
	cmd.Flag("zipf-metrics", "Number of metrics for --zipf-series.").Default("100").IntVar(&f.ZipfMetrics)
	cmd.Flag("churn", "Percentage of the hosts to replace at a time.").Float64Var(&f.ChurnPercent)
	cmd.Flag("churn-steps", "Number of samples of a series between replacements.").Default("20").IntVar(&f.ChurnSteps)
}

func (c *loadtestCommands) addLoadFlags(cmd *kingpin.CmdClause) {
	o := &c.opts.Load
	cmd.Flag("from", "Start of a past range: "+program.TimeForms+". Default: a live load.").
		StringVar(&c.from)
	cmd.Flag("to", "End of the past range, in the same form. Default: now.").StringVar(&c.to)
	cmd.Flag("interval", "Time between samples of a series. Default: 15s over a past range; in a live load it follows from --rate.").
		DurationVar(&o.Interval)
	cmd.Flag("senders", "Number of concurrent requests.").Default("4").IntVar(&o.Senders)
	cmd.Flag("request-samples", "Number of samples per request.").Default("2000").IntVar(&o.RequestSamples)
	cmd.Flag("shuffle", "Change the order of the series from request to request.").BoolVar(&o.Shuffle)
	cmd.Flag("out-of-order", "Percentage of samples to send just after the next sample of their series.").
		Float64Var(&o.OutOfOrderPercent)
	cmd.Flag("late", "Percentage of samples to send about --late-by after their timestamp.").Float64Var(&o.LatePercent)
	cmd.Flag("rewritten", "Percentage of samples to send again after about --late-by, with another value.").
		Float64Var(&o.RewrittenPercent)
	cmd.Flag("late-by", "Mean delay of late and rewritten samples.").Default("1m").DurationVar(&o.LateBy)
	cmd.Flag("retry-for", "How long to retry a request after 429, 5xx and broken connections.").Default("1m").
		DurationVar(&c.opts.RetryFor)
	cmd.Flag("request-timeout", "Timeout of one attempt of a request or query.").Default("1m").DurationVar(&c.opts.RequestTimeout)
	cmd.Flag("no-freshness", "Do not measure how soon samples are visible.").BoolVar(&c.noFreshness)
	cmd.Flag("no-verify", "Do not read acknowledged samples back.").BoolVar(&c.noVerify)
	cmd.Flag("verify", "Percentage of the hosts to read back.").Default("100").Float64Var(&c.opts.VerifyPercent)
	cmd.Flag("settle", "Time to wait after the load before CPU time and disk are measured again.").Default("5s").
		DurationVar(&c.opts.Settle)
	c.output.AddFlag(cmd)
	cmd.Flag("json", "File for the report as JSON, in addition to the printed report.").StringVar(&c.jsonFile)
	cmd.Flag("quiet", "Do not show progress.").Short('q').BoolVar(&c.quiet)
}

func (c *loadtestCommands) addRunFlags(cmd *kingpin.CmdClause) {
	c.server.AddFlags(cmd, "URL of the server.", DefaultURL)
	cmd.Flag("write", "Remote-write URL of the server. Default: --url with /api/v1/write.").StringVar(&c.write)
	cmd.Flag("pid", "Process id of the server, to measure its CPU time and memory.").IntVar(&c.target.PID)
	cmd.Flag("dir", "Data directory of the server, to measure its size.").StringVar(&c.target.Dir)
	cmd.Flag("flush", "URL to POST to before the size of --dir is measured.").StringVar(&c.target.FlushURL)
	cmd.Flag("rate", "Samples per second. 0 sends as fast as the server accepts.").Float64Var(&c.opts.Load.Rate)
	cmd.Flag("duration", "Length of a live load.").Default("1m").DurationVar(&c.opts.Load.Duration)
	cmd.Flag("query-rate", "Dashboard queries per second during the load.").Float64Var(&c.opts.QueryRate)
}

// loadtest runs a sub-command. The first signal ends loading, and with it the load. Then acknowledged samples are still read
// back. The second signal ends the reading back.
func (c *loadtestCommands) loadtest(loading context.Context, w io.Writer, compare bool) error {
	if err := c.complete(time.Now()); err != nil {
		return err
	}
	verifying, stop := untilSecondSignal(loading)
	defer stop()
	if compare {
		var targets []loadclient.Target
		for _, text := range c.targets {
			t, err := loadclient.ParseTarget(text)
			if err != nil {
				return fmt.Errorf("--target: %w", err)
			}
			targets = append(targets, t)
		}
		comparison, err := loadtest.Compare(loading, verifying, targets, c.opts, c.comparing)
		if err != nil {
			return err
		}
		return c.print(w, comparison)
	}
	report, err := loadtest.Run(loading, verifying, c.target, c.opts)
	if err != nil {
		return err
	}
	return c.print(w, report)
}

// untilSecondSignal returns a context with the values of ctx that the second signal from now on cancels.
func untilSecondSignal(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		defer signal.Stop(signals)
		for range 2 {
			select {
			case <-signals:
			case <-ctx.Done():
				return
			}
		}
		cancel()
	}()
	return ctx, cancel
}

// Values of --queries.
const (
	queriesDashboards = "dashboards"
	queriesAll        = "all"
)

// Values of --profile.
const (
	profileFleet      = "fleet"
	profileHot        = "hot"
	profileSequential = "sequential"
	profileZipf       = "zipf"
)

// applyProfile sets the fleet that --profile names.
func (c *loadtestCommands) applyProfile() {
	f := &c.opts.Load.Fleet
	if c.profile == profileFleet {
		return
	}
	f.Hosts, f.HotSeries, f.ZipfSeries = 0, c.series, 0
	f.HotScattered = c.profile == profileHot
	if c.profile == profileZipf {
		f.HotSeries, f.ZipfSeries = 0, c.series
	}
}

// complete converts flags into options.
func (c *loadtestCommands) complete(now time.Time) error {
	c.applyProfile()
	c.comparing.Suite = c.queries == queriesAll
	var err error
	if c.target.Token, err = c.server.token(); err != nil {
		return err
	}
	c.target.QueryURL, c.target.WriteURL = c.server.URL, c.write
	if c.write == "" {
		c.target.WriteURL = strings.TrimSuffix(c.server.URL, "/") + "/api/v1/write"
	}
	if c.noFreshness {
		c.opts.FreshnessEvery = -1
	}
	if c.noVerify || c.opts.VerifyPercent == 0 {
		c.opts.VerifyPercent = -1
	}
	if c.from == "" && c.to != "" {
		return errors.New("--to needs --from")
	}
	if c.from != "" {
		if c.opts.Load.From, err = program.ParseTime(c.from, now); err != nil {
			return fmt.Errorf("--from: %w", err)
		}
		if c.opts.Load.To, err = program.ParseTime(cmp.Or(c.to, "now"), now); err != nil {
			return fmt.Errorf("--to: %w", err)
		}
	}
	if !c.quiet {
		c.opts.Progress = os.Stderr
		info, err := os.Stderr.Stat()
		c.opts.Terminal = err == nil && info.Mode()&os.ModeCharDevice != 0
	}
	return nil
}

// textReport is a report or a comparison.
type textReport interface {
	WriteText(w io.Writer) error
	Failed() bool
}

// print writes the report to w and to the file of --json. It returns errLoadtestFailed if the load test failed.
func (c *loadtestCommands) print(w io.Writer, o textReport) error {
	if err := c.output.Print(w, o, o.WriteText); err != nil {
		return err
	}
	if c.jsonFile != "" {
		text, err := json.MarshalIndent(o, "", "  ")
		if err != nil {
			return err
		}
		if err := os.WriteFile(c.jsonFile, append(text, '\n'), 0o644); err != nil {
			return fmt.Errorf("--json: %w", err)
		}
	}
	if o.Failed() {
		return errLoadtestFailed
	}
	return nil
}
