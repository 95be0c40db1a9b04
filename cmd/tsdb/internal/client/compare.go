package client

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/alecthomas/kingpin/v2"

	"halite/cmd/tsdb/internal/program"
	"halite/loadtest"
	loadclient "halite/loadtest/client"
)

// errResultsDiffer means that some responses differ. The table names them.
var errResultsDiffer = errors.New("some responses differ")

// compareFlags holds the flags of `tsdb compare`.
type compareFlags struct {
	server, against Server
	file            string
	at              string
	span, step      time.Duration
	repeats         int
	tolerance       float64
	timeout         time.Duration
}

// AddCompare declares `tsdb compare`.
func AddCompare(app *kingpin.Application) program.Commands {
	cmd := app.Command("compare", "Send the same queries to two servers and show differing responses and the times taken.")
	c := &compareFlags{}
	c.server.AddFlags(cmd, "First server.", DefaultURL)
	cmd.Flag("against", "URL of the second server, which has the API of Prometheus. It may hold user and password.").
		Required().StringVar(&c.against.URL)
	cmd.Flag("against-token-file", "File with the token for the second server.").StringVar(&c.against.TokenFile)
	cmd.Flag("queries", "File with a PromQL query on each line; lines that begin with # are comments.").Required().StringVar(&c.file)
	cmd.Flag("time", "End of the queries: an RFC 3339 time or a duration before now such as 2h.").Default("5m").StringVar(&c.at)
	cmd.Flag("range", "Span of range queries. 0s sends instant queries.").Default("0s").DurationVar(&c.span)
	cmd.Flag("step", "Step of range queries.").Default("1m").DurationVar(&c.step)
	cmd.Flag("repeats", "Number of times to send each query. The shortest time counts.").Default("3").IntVar(&c.repeats)
	cmd.Flag("tolerance", "Relative difference up to which values count as equal.").Default("1e-9").Float64Var(&c.tolerance)
	cmd.Flag("timeout", "Timeout of a query.").Default("2m").DurationVar(&c.timeout)
	return program.Commands{cmd.FullCommand(): c.run}
}

func (c *compareFlags) run(ctx context.Context, w io.Writer) error {
	if c.repeats < 1 || c.step <= 0 || c.span < 0 {
		return errors.New("--repeats and --step must be above 0, and --range must not be negative")
	}
	at, err := program.ParseTime(c.at, time.Now())
	if err != nil {
		return fmt.Errorf("--time: %w", err)
	}
	queries, err := readQueries(c.file)
	if err != nil {
		return fmt.Errorf("--queries: %w", err)
	}
	var servers [2]*loadclient.Querier
	for n, s := range []*Server{&c.server, &c.against} {
		token, err := s.token()
		if err != nil {
			return err
		}
		servers[n] = loadclient.NewQuerier(&loadclient.Target{QueryURL: s.URL, Token: token}, 1, c.timeout)
	}
	const row = "%-7v %-8v %-10s %-10s %-7s %s\n"
	fmt.Fprintf(w, row, "SERIES", "POINTS", "FIRST", "SECOND", "RESULT", "QUERY")
	differ := 0
	for _, query := range queries {
		a := loadtest.CompareListed(ctx, servers, c.request(query, at), c.repeats, c.tolerance)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		verdict := "equal"
		switch {
		case a.Failed:
			verdict = "failed"
		case a.Difference != "":
			verdict = "differs"
		}
		fmt.Fprintf(w, row, a.Series, a.Points, milliseconds(a.Took[0]), milliseconds(a.Took[1]), verdict, query)
		if a.Difference != "" {
			differ++
			fmt.Fprintf(w, "        %s\n", a.Difference)
		}
	}
	fmt.Fprintf(w, "%d of %d queries have equal responses.\n", len(queries)-differ, len(queries))
	if differ > 0 {
		return errResultsDiffer
	}
	return nil
}

func milliseconds(d time.Duration) string {
	return fmt.Sprintf("%.1fms", float64(d.Microseconds())/1e3)
}

// request returns the request of a query.
func (c *compareFlags) request(query string, at time.Time) loadtest.ListedQuery {
	end := loadclient.Seconds(at.UnixMilli())
	if c.span == 0 {
		return loadtest.ListedQuery{Path: "/api/v1/query", Params: url.Values{"query": {query}, "time": {end}}}
	}
	return loadtest.ListedQuery{Path: "/api/v1/query_range", Params: url.Values{
		"query": {query}, "start": {loadclient.Seconds(at.Add(-c.span).UnixMilli())}, "end": {end},
		"step": {fmt.Sprint(c.step.Seconds())},
	}}
}

// readQueries returns the queries of a file.
func readQueries(path string) (queries []string, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if line := strings.TrimSpace(lines.Text()); line != "" && line[0] != '#' {
			queries = append(queries, line)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if len(queries) == 0 {
		return nil, fmt.Errorf("%s has no queries", path)
	}
	return queries, nil
}
