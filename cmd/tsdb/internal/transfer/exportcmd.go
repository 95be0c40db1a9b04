package transfer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kingpin/v2"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/promql/parser"

	"halite/api/receiver/csv"
	"halite/api/receiver/jsonl"
	"halite/cmd/tsdb/internal/backup"
	"halite/cmd/tsdb/internal/client"
	"halite/cmd/tsdb/internal/program"
)

// exportFlags holds the flags of `tsdb export`.
type exportFlags struct {
	server          client.Server
	match, from, to string
	output, dir     string
	columns         string
	skipExisting    bool
	quiet           bool
}

// outputHelp describes a flag that is not called --output, because that is the form of the result in all commands.
const outputHelp = "File to write. Default: standard output."

// AddExport declares `tsdb export`.
func AddExport(app *kingpin.Application) program.Commands {
	cmd := app.Command("export", "Export samples of a running server. See docs/migrating.md.")
	c := &exportFlags{}
	c.server.AddFlags(cmd, "Server to read from.", client.DefaultURL)
	cmd.Flag("match", "Selector of the series to export.").Default(`{__name__!=""}`).StringVar(&c.match)
	cmd.Flag("from", "Time of the first sample: an RFC 3339 time or a duration before now such as 720h. Default: the oldest "+
		"sample.").StringVar(&c.from)
	cmd.Flag("to", "Time of the last sample, in the same form. Default: now.").StringVar(&c.to)
	cmd.Flag("quiet", "Do not show progress.").Short('q').BoolVar(&c.quiet)
	commands := program.Commands{}
	add := func(name, help string, run func(context.Context, *RemoteRead, Range, io.Writer) (Exported, error)) *kingpin.CmdClause {
		sub := cmd.Command(name, help)
		commands[sub.FullCommand()] = func(ctx context.Context, w io.Writer) error { return c.run(ctx, w, run) }
		return sub
	}
	for _, sub := range []*kingpin.CmdClause{
		add("jsonl", "Write JSON lines, which tsdb import jsonl and VictoriaMetrics accept.", c.jsonLines),
		add("openmetrics", "Write OpenMetrics, which promtool tsdb create-blocks-from openmetrics accepts.", c.openMetrics),
	} {
		sub.Flag("output-file", outputHelp).Short('o').StringVar(&c.output)
	}
	rows := add("csv", "Write rows of comma-separated values with a header.", c.rows)
	rows.Flag("output-file", outputHelp).Short('o').StringVar(&c.output)
	rows.Flag("format", "Columns, separated by commas: labels, __value__, and __timestamp__ or __timestamp__:FORMAT with unix_s, "+
		"unix_ms, unix_ns, rfc3339 or custom:LAYOUT. Default: all labels, __timestamp__ and __value__.").StringVar(&c.columns)
	files := add("parquet", "Write a Parquet file for each day. Needs --from.", c.parquet)
	files.Arg("DIR", "Directory of the files.").Required().StringVar(&c.dir)
	files.Flag("skip-existing", "Leave out days that have a file already.").BoolVar(&c.skipExisting)
	return commands
}

func (c *exportFlags) run(
	ctx context.Context, w io.Writer, run func(context.Context, *RemoteRead, Range, io.Writer) (Exported, error),
) (err error) {
	now := time.Now()
	r := Range{FromMs: 0, ToMs: now.UnixMilli()}
	if err := program.ParseRange(c.from, c.to, now, &r.FromMs, &r.ToMs); err != nil {
		return err
	}
	if r.FromMs > r.ToMs {
		return errors.New("--from is after --to")
	}
	if r.Matchers, err = parser.NewParser(parser.Options{}).ParseMetricSelector(c.match); err != nil {
		return fmt.Errorf("--match: %w", err)
	}
	if c.output != "" {
		file, err := os.Create(c.output)
		if err != nil {
			return fmt.Errorf("--output-file: %w", err)
		}
		defer func() { err = errors.Join(err, file.Close()) }()
		w = file
	}
	began := time.Now()
	n, err := run(ctx, NewRemoteRead(&c.server), r, w)
	if err != nil {
		return err
	}
	if !c.quiet {
		all := n.Samples + n.Histograms
		fmt.Fprintf(os.Stderr, "Exported %d samples and %d native histograms of %d series, %.0f samples/s.\n", n.Samples, n.Histograms,
			n.Series, float64(all)/max(time.Since(began).Seconds(), 1e-3))
	}
	return nil
}

func (c *exportFlags) jsonLines(ctx context.Context, from *RemoteRead, r Range, w io.Writer) (Exported, error) {
	return Export(ctx, from, r, &jsonl.Encoder{}, w)
}

func (c *exportFlags) openMetrics(ctx context.Context, from *RemoteRead, r Range, w io.Writer) (Exported, error) {
	e := &OpenMetricsEncoder{}
	n, err := Export(ctx, from, r, e, w)
	if err == nil {
		_, err = io.WriteString(w, OpenMetricsEnd)
	}
	return c.withoutHistograms(n, e.Omitted), err
}

// withoutHistograms warns of native histograms that a format cannot hold.
func (c *exportFlags) withoutHistograms(n Exported, omitted int64) Exported {
	if n.Histograms = 0; omitted > 0 {
		fmt.Fprintf(os.Stderr, "%d native histograms are left out: the format cannot hold them.\n", omitted)
	}
	return n
}

func (c *exportFlags) rows(ctx context.Context, from *RemoteRead, r Range, w io.Writer) (Exported, error) {
	if c.columns == "" {
		names, err := c.labelNames(ctx, r)
		if err != nil {
			return Exported{}, err
		}
		c.columns = strings.Join(append(names, "__timestamp__", "__value__"), ",")
	}
	e, err := csv.NewEncoder(c.columns)
	if err != nil {
		return Exported{}, err
	}
	if _, err := w.Write(e.Header()); err != nil {
		return Exported{}, err
	}
	n, err := Export(ctx, from, r, e, w)
	return c.withoutHistograms(n, int64(e.Omitted)), err
}

// labelNames returns the names of the labels of all series, the metric first.
func (c *exportFlags) labelNames(ctx context.Context, r Range) (names []string, err error) {
	form := url.Values{"match[]": {c.match}, "start": {seconds(r.FromMs)}, "end": {seconds(r.ToMs)}}
	if err := c.server.Call(ctx, http.MethodGet, "/api/v1/labels", form, &names); err != nil {
		return nil, fmt.Errorf("names of labels: %w", err)
	}
	slices.SortStableFunc(names, func(a, b string) int {
		return cmp.Compare(math.Abs(float64(strings.Compare(a, model.MetricNameLabel))),
			math.Abs(float64(strings.Compare(b, model.MetricNameLabel))))
	})
	return names, nil
}

func seconds(ms int64) string { return fmt.Sprintf("%d.%03d", ms/1000, ms%1000) }

func (c *exportFlags) parquet(ctx context.Context, from *RemoteRead, r Range, _ io.Writer) (Exported, error) {
	if c.from == "" {
		return Exported{}, errors.New("--from is missing: it names the first day")
	}
	var progress *backup.Progress
	if !c.quiet {
		progress = backup.NewProgressOf(os.Stderr, time.Now, "days")
	}
	return ExportParquet(ctx, from, r, c.dir, c.skipExisting, progress)
}
