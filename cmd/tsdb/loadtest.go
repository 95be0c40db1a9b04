package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/alecthomas/kingpin/v2"

	"halite/keyschema"
	"halite/loadtest"
)

// errLoadtestFailed: the load ran, and its report says what went wrong with the server.
var errLoadtestFailed = errors.New("the load test failed, see its report")

// loadtestCommands load a running server, or several.
type loadtestCommands struct {
	run, compare *kingpin.CmdClause
	url, write   string
	target       loadtest.Target
	targets      []string
	opts         loadtest.Options
	comparing    loadtest.CompareOptions
	from, to     string
	schemaFile   string
	format       string
	jsonFile     string
	quiet        bool
	noVerify     bool
	noCanary     bool
	profile      string
	series       int
}

func addLoadtestCommands(cmd *kingpin.CmdClause) *loadtestCommands {
	c := &loadtestCommands{}
	c.run = cmd.Command("run", "Load one server. This is the default.").Default()
	c.compare = cmd.Command("compare", "Send the same bytes and queries to several servers in turn and print ratios.")
	for _, sub := range []*kingpin.CmdClause{c.run, c.compare} {
		c.addFleetFlags(sub)
		c.addLoadFlags(sub)
	}
	c.addRunFlags(c.run)
	c.compare.Flag("target", "'name=…;write=URL;query=URL;pid=…;dir=…;flush=URL;params=…', once for each; ratios are to the first.").
		Required().StringsVar(&c.targets)
	c.compare.Flag("slice-samples", "Samples encoded, then sent to each server in turn.").Default("1000000").
		IntVar(&c.comparing.SliceSamples)
	c.compare.Flag("query-repeats", "How often each dashboard query is asked, of other hosts each time; 0 asks none.").Default("10").
		IntVar(&c.comparing.QueryRepeats)
	c.compare.Flag("tolerance", "Relative difference up to which answers count as equal.").Default("1e-9").
		Float64Var(&c.comparing.Tolerance)
	return c
}

func (c *loadtestCommands) addFleetFlags(cmd *kingpin.CmdClause) {
	f := &c.opts.Fleet
	cmd.Flag("seed", "Decides everything that looks random.").Default("1").Uint64Var(&f.Seed)
	cmd.Flag("job", "Label job of all series.").Default("loadtest").StringVar(&f.Job)
	cmd.Flag("profile", "What is loaded: the fleet of the flags below, or --series series: hot, of one hot metric, sequential, of "+
		"one told apart by a sequential id, or zipf, of metrics whose sizes follow Zipf's law.").Default(profileFleet).
		EnumVar(&c.profile, profileFleet, profileHot, profileSequential, profileZipf)
	cmd.Flag("series", "Series of such a profile, in place of hosts.").Default("100000").IntVar(&c.series)
	cmd.Flag("hosts", "Hosts; with 3 services each they have 100 series.").Default("100").IntVar(&f.Hosts)
	cmd.Flag("services", "Services on each host, 20 series each beside the host's own 40; -1 for none.").Default("3").
		IntVar(&f.Services)
	cmd.Flag("hot-series", "Series of one further metric, told apart by a sequential id.").IntVar(&f.HotSeries)
	cmd.Flag("zipf-series", "Series of further metrics whose sizes follow Zipf's law.").IntVar(&f.ZipfSeries)
	cmd.Flag("zipf-metrics", "Number of those metrics.").Default("100").IntVar(&f.ZipfMetrics)
	cmd.Flag("churn", "Percent of the hosts replaced at a time.").Float64Var(&f.ChurnPercent)
	cmd.Flag("churn-steps", "Samples of a series between replacements.").Default("20").IntVar(&f.ChurnSteps)
}

func (c *loadtestCommands) addLoadFlags(cmd *kingpin.CmdClause) {
	o := &c.opts
	cmd.Flag("from", "Start of a past range: RFC 3339, or a span before now such as 2h.").StringVar(&c.from)
	cmd.Flag("to", "End of a past range; default now.").StringVar(&c.to)
	cmd.Flag("interval", "Time between samples of a series. Default: 15s over a past range, else what --rate makes it.").
		DurationVar(&o.Interval)
	cmd.Flag("senders", "Requests under way at a time.").Default("4").IntVar(&o.Senders)
	cmd.Flag("request-samples", "Samples of a request.").Default("2000").IntVar(&o.RequestSamples)
	cmd.Flag("shuffle", "Change the order of the series from request to request.").BoolVar(&o.Shuffle)
	cmd.Flag("out-of-order", "Percent of samples sent just after the next one of their series.").Float64Var(&o.OutOfOrderPercent)
	cmd.Flag("late", "Percent of samples sent late by about --late-by.").Float64Var(&o.LatePercent)
	cmd.Flag("rewritten", "Percent of samples sent again after about --late-by, with another value.").
		Float64Var(&o.RewrittenPercent)
	cmd.Flag("late-by", "Mean delay of late and rewritten samples.").Default("1m").DurationVar(&o.LateBy)
	cmd.Flag("retry-for", "How long a request is tried again on 429, 5xx and broken connections.").Default("1m").
		DurationVar(&o.RetryFor)
	cmd.Flag("request-timeout", "Longest time of one try of a request or query.").Default("1m").DurationVar(&o.RequestTimeout)
	cmd.Flag("no-freshness", "Do not measure when samples become visible.").BoolVar(&c.noCanary)
	cmd.Flag("no-verify", "Do not read back what was acknowledged.").BoolVar(&c.noVerify)
	cmd.Flag("verify", "Percent of the hosts read back.").Default("100").Float64Var(&o.VerifyPercent)
	cmd.Flag("settle", "Rest after the load before CPU and disk are measured again.").Default("5s").DurationVar(&o.Settle)
	cmd.Flag("format", "Form in which the report is printed: text or json.").Default("text").EnumVar(&c.format, "text", "json")
	cmd.Flag("json", "File for the report as JSON, beside what is printed.").StringVar(&c.jsonFile)
	cmd.Flag("quiet", "No progress.").Short('q').BoolVar(&c.quiet)
}

func (c *loadtestCommands) addRunFlags(cmd *kingpin.CmdClause) {
	cmd.Flag("url", "The server.").Default("http://127.0.0.1:9480").StringVar(&c.url)
	cmd.Flag("write", "Its remote-write URL, if not --url and /api/v1/write.").StringVar(&c.write)
	cmd.Flag("pid", "Its process, for CPU and memory.").IntVar(&c.target.PID)
	cmd.Flag("dir", "Its data directory, for its size.").StringVar(&c.target.Dir)
	cmd.Flag("flush", "URL that is POSTed before that size is taken.").StringVar(&c.target.FlushURL)
	cmd.Flag("rate", "Samples a second; 0 sends as fast as the server takes them.").Float64Var(&c.opts.Rate)
	cmd.Flag("duration", "Length of a live load.").Default("1m").DurationVar(&c.opts.Duration)
	cmd.Flag("query-rate", "Dashboard queries a second beside the load.").Float64Var(&c.opts.QueryRate)
	cmd.Flag("schema-rules", "The server's file of schema rules, for the salts; see docs/schema.md.").StringVar(&c.schemaFile)
}

// loadtest runs a sub-command until its end or a signal. The first signal ends the load, and what was acknowledged is read
// back; or it ends the reading. A second one always does.
func (c *loadtestCommands) loadtest(command string, w io.Writer) error {
	if err := c.complete(time.Now()); err != nil {
		return err
	}
	loading, stopLoading := context.WithCancel(context.Background())
	verifying, stopVerifying := context.WithCancel(context.Background())
	defer stopLoading()
	defer stopVerifying()
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)
	go func() {
		for _, stop := range []func(){stopLoading, stopVerifying} {
			select {
			case <-signals:
				stop()
			case <-verifying.Done():
				return
			}
		}
	}()
	if command == c.compare.FullCommand() {
		var targets []loadtest.Target
		for _, text := range c.targets {
			t, err := loadtest.ParseTarget(text)
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

// Profiles of --profile.
const (
	profileFleet      = "fleet"
	profileHot        = "hot"
	profileSequential = "sequential"
	profileZipf       = "zipf"
)

// applyProfile replaces the fleet by what --profile names.
func (c *loadtestCommands) applyProfile() {
	f := &c.opts.Fleet
	if c.profile == profileFleet {
		return
	}
	f.Hosts, f.HotSeries, f.ZipfSeries = 0, c.series, 0
	f.HotScattered = c.profile == profileHot
	if c.profile == profileZipf {
		f.HotSeries, f.ZipfSeries = 0, c.series
	}
}

// complete turns flags into options.
func (c *loadtestCommands) complete(now time.Time) error {
	c.applyProfile()
	c.target.QueryURL, c.target.WriteURL = c.url, c.write
	if c.write == "" {
		c.target.WriteURL = c.url + "/api/v1/write"
	}
	if c.noCanary {
		c.opts.CanaryEvery = -1
	}
	if c.noVerify || c.opts.VerifyPercent == 0 {
		c.opts.VerifyPercent = -1
	}
	if c.from == "" && c.to != "" {
		return errors.New("--to needs --from")
	}
	if c.from != "" {
		var err error
		if c.opts.From, err = parseWhen(c.from, now); err != nil {
			return fmt.Errorf("--from: %w", err)
		}
		if c.opts.To, err = parseWhen(c.to, now); err != nil {
			return fmt.Errorf("--to: %w", err)
		}
	}
	if c.schemaFile != "" {
		rules, err := readRulesFile(c.schemaFile)
		if err != nil {
			return fmt.Errorf("--schema-rules: %w", err)
		}
		if c.opts.Schema, err = keyschema.NewSchema(rules); err != nil {
			return fmt.Errorf("--schema-rules: %w", err)
		}
	}
	if !c.quiet {
		c.opts.Progress = os.Stderr
		info, err := os.Stderr.Stat()
		c.opts.Terminal = err == nil && info.Mode()&os.ModeCharDevice != 0
	}
	return nil
}

// parseWhen reads a time, or a span before now; empty is now.
func parseWhen(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return now, nil
	}
	if d, err := time.ParseDuration(text); err == nil {
		return now.Add(-d.Abs()), nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return at, fmt.Errorf("%q is neither a time of RFC 3339 nor a span such as 2h", text)
	}
	return at, nil
}

// outcome is a report.
type outcome interface {
	WriteText(w io.Writer) error
	Failed() bool
}

// print writes the report where it is wanted, and says whether the test failed.
func (c *loadtestCommands) print(w io.Writer, o outcome) error {
	text, err := json.MarshalIndent(o, "", "  ")
	if err != nil {
		return err
	}
	text = append(text, '\n')
	if c.format == "json" {
		_, err = w.Write(text)
	} else {
		err = o.WriteText(w)
	}
	if err != nil {
		return err
	}
	if c.jsonFile != "" {
		if err := os.WriteFile(c.jsonFile, text, 0o644); err != nil {
			return fmt.Errorf("--json: %w", err)
		}
	}
	if o.Failed() {
		return errLoadtestFailed
	}
	return nil
}
