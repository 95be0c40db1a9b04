package tools

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"halite/api/receiver/opentsdb"
	"halite/cmd/tsdb/internal/client"
	"halite/cmd/tsdb/internal/transfer"
	"halite/query/opentsdb/request"
)

// scan holds the flags of `tsdb opentsdb scan`.
type scan struct {
	server        client.Server
	asImport      bool
	remove, quiet bool
	special       string
	args          []string
}

func addScan(add adder) {
	c := &scan{}
	cmd := add("scan", "Print the stored data points of metrics, as tsdb scan of OpenTSDB does.", c.run)
	addServer(cmd, &c.server)
	cmd.Flag("import", "Print lines that tsdb import of OpenTSDB and tsdb opentsdb import accept.").BoolVar(&c.asImport)
	cmd.Flag("delete", "Delete the printed samples when all of them are printed. Implies --import. The server needs "+
		"--web.enable-admin-api.").BoolVar(&c.remove)
	cmd.Flag("special-chars", "Characters that names may have with --import besides letters, digits and -_./, as "+
		"tsd.core.tag.allow_specialchars.").StringVar(&c.special)
	cmd.Flag("quiet", "Do not show progress.").Short('q').BoolVar(&c.quiet)
	cmd.Arg("QUERY", argumentsHelp+" Only the times, the metrics and the tags count.").Required().StringsVar(&c.args)
}

// counted is what the encoders of both formats count.
type counted interface {
	transfer.Encoder
	omitted() *opentsdb.Omitted
}

type importEncoder struct{ *opentsdb.Encoder }

func (e importEncoder) omitted() *opentsdb.Omitted { return &e.Omitted }

func (c *scan) run(ctx context.Context, w io.Writer) error {
	args, err := parseArguments(c.args, time.Now(), time.Local)
	if err != nil {
		return err
	}
	names, err := opentsdb.NewNames(c.special, opentsdb.TagsMaxDefault)
	if err != nil {
		return fmt.Errorf("--special-chars: %w", err)
	}
	var to counted = &storedEncoder{zone: time.Local}
	if c.asImport || c.remove {
		to = importEncoder{opentsdb.NewEncoder(names)}
	}
	p := &progress{Encoder: to, to: os.Stderr, now: time.Now, quiet: c.quiet}
	p.printedAt = p.now()
	from := transfer.NewRemoteRead(&c.server)
	var selectors [][]*labels.Matcher
	var series []int64
	for _, q := range args.queries {
		matchers, err := matchersOf(q)
		if err != nil {
			return err
		}
		r := transfer.Range{FromMs: args.startMs, ToMs: args.endMs, Matchers: matchers}
		n, err := transfer.Export(ctx, from, r, p, w)
		if err != nil {
			return err
		}
		selectors, series = append(selectors, matchers), append(series, n.Series)
	}
	omitted := to.omitted()
	if !c.quiet {
		fmt.Fprintf(p.to, "Scanned %d series. Printed %d data points.\n", p.series, p.points)
	}
	if text := describe(omitted); text != "" {
		fmt.Fprintln(p.to, "Left out:", text+".")
	}
	if !c.remove {
		return nil
	}
	if omitted.Sum() > 0 {
		return errors.New("nothing is deleted, because some samples are not printed")
	}
	for i := range selectors {
		if err := c.delete(ctx, selectors[i], series[i], args); err != nil {
			return err
		}
	}
	return nil
}

// matchersOf returns the matchers of the series of a query. They leave out rollups, as OpenTSDB keeps them in other tables.
func matchersOf(q subQuery) ([]*labels.Matcher, error) {
	sub := request.SubQuery{Metric: q.Metric}
	for _, key := range slices.Sorted(maps.Keys(q.Tags)) {
		f, err := request.TagFilter(key, q.Tags[key])
		if err != nil {
			return nil, fmt.Errorf("%s=%s: %w", key, q.Tags[key], err)
		}
		sub.Filters = append(sub.Filters, f)
	}
	return sub.Matchers(), nil
}

// delete deletes the scanned samples. printed is the number of their series.
func (c *scan) delete(ctx context.Context, matchers []*labels.Matcher, printed int64, args arguments) error {
	if printed == 0 {
		return nil
	}
	texts := make([]string, len(matchers))
	for i, m := range matchers {
		texts[i] = m.String()
	}
	form := url.Values{
		"match[]": {"{" + strings.Join(texts, ",") + "}"}, "report": {"true"},
		"start": {time.UnixMilli(args.startMs).UTC().Format(time.RFC3339Nano)},
		"end":   {time.UnixMilli(args.endMs).UTC().Format(time.RFC3339Nano)},
	}
	var done struct {
		Series int64 `json:"series"`
	}
	if err := c.server.Call(ctx, http.MethodPost, "/api/v1/admin/tsdb/delete_series", form, &done); err != nil {
		return fmt.Errorf("the data points are printed but not deleted: %w", err)
	}
	if done.Series < printed {
		return fmt.Errorf("%d series are printed, but samples of %d are deleted: another deletion or retention removed the others",
			printed, done.Series)
	}
	if !c.quiet {
		fmt.Fprintf(os.Stderr, "Deleted the samples of %d series.\n", done.Series)
	}
	return nil
}

// describe names the omitted samples.
func describe(o *opentsdb.Omitted) string {
	var parts []string
	for _, p := range []struct {
		n    int64
		what string
	}{
		{o.Untagged, "samples of series without tags"}, {o.Named, "samples of series with names that OpenTSDB does not permit"},
		{o.NotFinite, "values that are NaN or infinite"}, {o.Early, "samples at or shortly after the beginning of 1970"},
		{o.Histograms, "native histograms"},
	} {
		if p.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", p.n, p.what))
		}
	}
	return strings.Join(parts, ", ")
}

// progressInterval is the time between two lines of progress.
const progressInterval = 2 * time.Second

// progress counts the series and lines of an Encoder, and prints the progress.
type progress struct {
	transfer.Encoder
	to             io.Writer
	now            func() time.Time
	quiet          bool
	printedAt      time.Time
	series, points int64
}

// Begin implements transfer.Encoder.
func (p *progress) Begin(series labels.Labels) {
	p.series++
	p.Encoder.Begin(series)
}

// Append implements transfer.Encoder.
func (p *progress) Append(dst []byte) []byte {
	p.points += int64(p.Rows())
	if now := p.now(); !p.quiet && now.Sub(p.printedAt) >= progressInterval {
		p.printedAt = now
		fmt.Fprintf(p.to, "%d data points of %d series\n", p.points, p.series)
	}
	return p.Encoder.Append(dst)
}
