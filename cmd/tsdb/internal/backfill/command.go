package backfill

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/alecthomas/kingpin/v2"

	"halite/cmd/tsdb/internal/backup"
	"halite/cmd/tsdb/internal/client"
	"halite/cmd/tsdb/internal/program"
	"halite/cmd/tsdb/internal/rules"
	"halite/cmd/tsdb/internal/transfer"
	"halite/query"
)

// command holds the flags of `tsdb rules backfill`.
type command struct {
	server           client.Server
	from, to         string
	interval, window time.Duration
	dryRun           bool
	files            []string
	output           program.Output
	progress         io.Writer
	now              func() time.Time
}

// AddRules declares `tsdb rules`.
func AddRules(app *kingpin.Application) program.Commands {
	all := app.Command("rules", "Check rule files, and evaluate recording rules over the past.")
	check := all.Command("check", "Check rule files.")
	var files []string
	var experimental bool
	check.Arg("file", "A rule file, or a pattern of rule files.").Required().StringsVar(&files)
	check.Flag("query.experimental", "Accept experimental PromQL, as the server does with this flag.").BoolVar(&experimental)

	cmd := all.Command("backfill", "Evaluate recording rules over the past of a running server and store the results. It is safe "+
		"to repeat: equal results replace each other.")
	c := &command{progress: os.Stderr, now: time.Now}
	c.server.AddFlags(cmd, "The server that answers the queries and stores the results.", client.DefaultURL)
	cmd.Flag("from", "First time to evaluate: "+program.TimeForms+".").Required().StringVar(&c.from)
	cmd.Flag("to", "Last time to evaluate, in the same form.").Default("now").StringVar(&c.to)
	cmd.Flag("evaluation-interval", "Interval of groups without one; global.evaluation_interval of the server.").Default("1m").
		DurationVar(&c.interval)
	cmd.Flag("window", "Maximum time range of one query. Smaller windows take less memory.").Default("6h").DurationVar(&c.window)
	cmd.Flag("dry-run", "Evaluate and count, and store nothing.").BoolVar(&c.dryRun)
	cmd.Arg("file", "A rule file, or a pattern of rule files. Give the same path as in rule_files of the server. Then "+
		"evaluations have the same times as on the server.").Required().StringsVar(&c.files)
	c.output.AddFlag(cmd)
	return program.Commands{
		check.FullCommand(): func(_ context.Context, w io.Writer) error { return checkFiles(w, files, experimental) },
		cmd.FullCommand():   c.run,
	}
}

// checkFiles prints what valid rule files hold.
func checkFiles(w io.Writer, patterns []string, experimental bool) error {
	files, err := rules.ReadFiles(patterns, query.NewParser(query.Options{Experimental: experimental}))
	if err != nil {
		return err
	}
	if len(files.Paths) == 0 {
		return errors.New("the patterns match no file")
	}
	_, err = fmt.Fprintf(w, "valid: %s\n", files.Summary())
	return err
}

// report is the result of a backfill.
type report struct {
	DryRun bool         `json:"dryRun"`
	From   time.Time    `json:"from"`
	To     time.Time    `json:"to"`
	Rules  []ruleReport `json:"rules"`
	// AlertingRules are not evaluated.
	AlertingRules int `json:"alertingRules"`
}

// ruleReport counts the results of a rule.
type ruleReport struct {
	File         string `json:"file"`
	Group        string `json:"group"`
	Rule         string `json:"rule"`
	Series       int    `json:"series"`
	Samples      int64  `json:"samples"`
	StaleMarkers int64  `json:"staleMarkers"`
}

func (c *command) run(ctx context.Context, w io.Writer) error {
	b := &backfill{server: &c.server, dryRun: c.dryRun}
	now := c.now()
	if err := errors.Join(program.ParseMs("from", c.from, now, &b.fromMs), program.ParseMs("to", c.to, now, &b.toMs)); err != nil {
		return err
	}
	switch {
	case b.toMs < b.fromMs:
		return fmt.Errorf("--to is %s, before --from at %s", timeText(b.toMs), timeText(b.fromMs))
	case b.toMs > now.UnixMilli():
		return fmt.Errorf("--to is %s, in the future", timeText(b.toMs))
	case b.fromMs < 0:
		return fmt.Errorf("--from is %s, before 1970", timeText(b.fromMs))
	case c.interval < time.Millisecond || c.window < time.Millisecond:
		return errors.New("--evaluation-interval and --window must be at least 1ms")
	}
	files, err := rules.ReadFiles(c.files, query.NewParser(query.Options{Experimental: true})) // the server decides
	if err != nil {
		return err
	}
	if tenants := files.Tenants(); len(tenants) > 1 {
		return fmt.Errorf("the files have groups of the tenants %s: give the files of one tenant, and its token",
			strings.Join(tenants, ", "))
	}
	alerting := 0
	if b.groups, alerting, err = newGroups(files, c.interval, b.fromMs); err != nil {
		return err
	}
	if len(b.groups) == 0 {
		return errors.New("the files have no recording rules")
	}
	if b.remote, err = transfer.NewRemote(&c.server, retryFor); err != nil {
		return err
	}
	b.arrange(c.window)
	if b.circular {
		fmt.Fprintln(c.progress, "rules read their own results or results of later rules: the command evaluates one interval at a time")
	}
	progress := backup.NewProgressOf(c.progress, c.now, "evaluations")
	progress.Begin(b.work())
	b.done = progress.Add
	if err := b.run(ctx); err != nil {
		return fmt.Errorf("%w; what is stored stays, and the command can be repeated", err)
	}
	r := report{DryRun: c.dryRun, From: time.UnixMilli(b.fromMs).UTC(), To: time.UnixMilli(b.toMs).UTC(), AlertingRules: alerting}
	for _, g := range b.groups {
		for _, each := range g.rules {
			r.Rules = append(r.Rules, each.report)
		}
	}
	return c.output.Print(w, r, r.printText)
}

func (r report) printText(w io.Writer) error {
	verb := "stored"
	if r.DryRun {
		verb = "would store"
	}
	for _, rule := range r.Rules {
		if _, err := fmt.Fprintf(w, "%s: %s %d samples of %d series, and %d stale markers\n", rule.Rule, verb, rule.Samples,
			rule.Series, rule.StaleMarkers); err != nil {
			return err
		}
	}
	if r.AlertingRules > 0 {
		_, err := fmt.Fprintf(w, "%d alerting rules are left out\n", r.AlertingRules)
		return err
	}
	return nil
}
