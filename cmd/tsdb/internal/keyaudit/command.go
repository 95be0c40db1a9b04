package keyaudit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"time"

	"github.com/alecthomas/kingpin/v2"

	"halite/cmd/tsdb/internal/client"
	"halite/cmd/tsdb/internal/program"
)

// ErrPersonal means that keys seem to hold personal data.
var ErrPersonal = errors.New("row keys seem to hold personal data or secrets")

// flags are the flags of the command.
type flags struct {
	server                client.Server
	from, to              string
	valuesMax, metricsMax int
	shareMin              float64
	output                program.Output
}

// AddKeys declares `tsdb keys audit`.
func AddKeys(app *kingpin.Application) program.Commands {
	c, parent := &flags{}, app.Command("keys", "Examine the row keys of a running server.")
	cmd := parent.Command("audit", "Find personal data, random ids and sequential ids in row keys, and say how to change them. "+
		"The exit code is 1 if personal data is found.")
	c.server.AddFlags(cmd, "The server.", client.DefaultURL)
	cmd.Flag("from", "First time: "+program.TimeForms+".").Default("24h").StringVar(&c.from)
	cmd.Flag("to", "Last time, in the same form.").Default("now").StringVar(&c.to)
	cmd.Flag("max-values", "Maximum number of values to read of each label.").Default("100000").IntVar(&c.valuesMax)
	cmd.Flag("max-metrics", "Maximum number of metrics to name in a finding.").Default("5").IntVar(&c.metricsMax)
	cmd.Flag("min-share", "Minimum share of a label's values that look like an id or a time, from 0 to 1. One value that looks "+
		"like personal data always suffices.").Default("0.5").Float64Var(&c.shareMin)
	c.output.AddFlag(cmd)
	return program.Commands{cmd.FullCommand(): c.audit}
}

func (c *flags) audit(ctx context.Context, w io.Writer) error {
	var fromMs, toMs int64
	if err := program.ParseRange(c.from, c.to, time.Now(), &fromMs, &toMs); err != nil {
		return err
	}
	switch {
	case c.valuesMax < 1:
		return fmt.Errorf("--max-values is %d; it must be at least 1", c.valuesMax)
	case c.metricsMax < 1:
		return fmt.Errorf("--max-metrics is %d; it must be at least 1", c.metricsMax)
	case c.shareMin < 0 || c.shareMin > 1:
		return fmt.Errorf("--min-share is %g; it must be from 0 to 1", c.shareMin)
	}
	a := &auditor{
		server: &c.server, valuesMax: c.valuesMax, metricsMax: c.metricsMax, shareMin: c.shareMin, patterns: newPatterns(),
		window: url.Values{
			"start": {time.UnixMilli(fromMs).UTC().Format(time.RFC3339Nano)}, "end": {time.UnixMilli(toMs).UTC().Format(time.RFC3339Nano)},
		},
	}
	r, err := a.run(ctx)
	if err != nil {
		return err
	}
	if err := c.output.Print(w, r, func(w io.Writer) error { return r.print(w) }); err != nil {
		return err
	}
	for i := range r.Findings {
		if r.Findings[i].Personal {
			return ErrPersonal
		}
	}
	return nil
}

// print writes the report as text.
func (r *report) print(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%d labels with %d values examined.\n", r.Labels, r.Values)
	if len(r.Cut) > 0 {
		fmt.Fprintf(&b, "Labels with more values than --max-values: %s\n", strings.Join(r.Cut, ", "))
	}
	if len(r.Findings) == 0 {
		b.WriteString("Nothing found.\n")
	}
	for i := range r.Findings {
		f := &r.Findings[i]
		fmt.Fprintf(&b, "\n%s: %s in %d of %d values, such as %s\n", f.Label, f.Kind, f.Values, f.Read, f.Example)
		fmt.Fprintf(&b, "  metrics: %s\n  %s\n", strings.Join(f.Metrics, ", "), f.Advice)
		for line := range strings.Lines(f.Rule) {
			b.WriteString("    " + line)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}
