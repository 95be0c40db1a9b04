package client

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
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kingpin/v2"
	"github.com/prometheus/common/model"
)

const (
	graphSeriesMax = 50 // drawn; the rest is counted
	graphTall      = 8  // lines of a series that is alone
	graphNameMax   = 48
)

// graphConfig holds the flags of `tsdb graph`.
type graphConfig struct {
	server Server
	query  string
	span   model.Duration
	width  int
}

// AddGraph declares `tsdb graph`.
func AddGraph(app *kingpin.Application) Commands {
	cmd := app.Command("graph", "Draw a query of a running server in the terminal.")
	c := &graphConfig{}
	c.server.AddFlags(cmd, "The server.", DefaultURL)
	cmd.Flag("range", "How far back.").Default("15m").SetValue(&c.span)
	cmd.Flag("width", "Columns of the graph.").Default("72").IntVar(&c.width)
	cmd.Arg("query", "PromQL.").Required().StringVar(&c.query)
	return Commands{cmd.FullCommand(): func(w io.Writer) error { return drawGraph(c, w) }}
}

// plotted is a series with a value for each column; NaN where it has none.
type plotted struct {
	name   string
	values []float64
}

// drawGraph asks the server for the last --range and draws every series on one scale from 0, or below if values are.
func drawGraph(c *graphConfig, w io.Writer) error {
	if c.width < 1 || c.width > 1000 || time.Duration(c.span) < time.Second {
		return errors.New("--width must be 1 to 1000, --range at least 1s")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	step := (time.Duration(c.span) / time.Duration(c.width)).Round(time.Second)
	step = max(step, time.Second)
	end := time.Now().Truncate(step)
	list, err := c.ask(ctx, end, step)
	if err != nil {
		return err
	}
	if len(list) == 0 {
		return fmt.Errorf("%s knows no samples of this query in the last %s", &c.server, c.span)
	}
	lines := 1
	if len(list) == 1 {
		lines = graphTall
	}
	low, high := scaleOf(list)
	if len(list) > graphSeriesMax {
		fmt.Fprintf(w, "the first %d of %d series\n", graphSeriesMax, len(list))
		list = list[:graphSeriesMax]
	}
	nameWidth := 0
	for _, s := range list {
		nameWidth = max(nameWidth, len([]rune(s.name)))
	}
	for _, s := range list {
		plot(w, s, nameWidth, lines, low, high)
	}
	_, err = fmt.Fprintf(w, "%*s  %s to %s, a column is %s, full height %s (bottom %s)\n", nameWidth, "",
		end.Add(-time.Duration(c.width-1)*step).Format(time.DateTime), end.Format(time.DateTime), step, short(high), short(low))
	return err
}

// ask fetches the series, sorted by name.
func (c *graphConfig) ask(ctx context.Context, end time.Time, step time.Duration) ([]plotted, error) {
	start := end.Add(-time.Duration(c.width-1) * step)
	form := url.Values{
		"query": {c.query}, "step": {strconv.FormatFloat(step.Seconds(), 'f', -1, 64)},
		"start": {strconv.FormatInt(start.Unix(), 10)}, "end": {strconv.FormatInt(end.Unix(), 10)},
	}
	var data struct {
		Result []struct {
			Metric model.Metric       `json:"metric"`
			Values []model.SamplePair `json:"values"`
		} `json:"result"`
	}
	if err := c.server.Ask(ctx, http.MethodPost, "/api/v1/query_range", form, &data); err != nil {
		return nil, err
	}
	var list []plotted
	for _, r := range data.Result {
		s := plotted{name: nameOf(r.Metric), values: make([]float64, c.width)}
		for i := range s.values {
			s.values[i] = math.NaN()
		}
		for _, p := range r.Values {
			if i := int(p.Timestamp.Time().Sub(start) / step); i >= 0 && i < c.width {
				s.values[i] = float64(p.Value)
			}
		}
		list = append(list, s)
	}
	slices.SortFunc(list, func(a, b plotted) int { return cmp.Compare(a.name, b.name) })
	return list, nil
}

// nameOf is a series' labels, cut if they are long.
func nameOf(m model.Metric) string {
	text := m.String()
	if len(m) == 1 && m[model.MetricNameLabel] == "" {
		for _, value := range m { // of a single label the value is enough
			text = string(value)
		}
	}
	if runes := []rune(text); len(runes) > graphNameMax {
		return string(runes[:graphNameMax-1]) + "…"
	}
	return text
}

// scaleOf is the range of the finite values, 0 included.
func scaleOf(list []plotted) (low, high float64) {
	for _, s := range list {
		for _, v := range s.values {
			if !math.IsNaN(v) && !math.IsInf(v, 0) {
				low, high = min(low, v), max(high, v)
			}
		}
	}
	return low, high
}

// plot draws a series as bars, with its name before and its last value behind.
func plot(w io.Writer, s plotted, nameWidth, lines int, low, high float64) {
	blocks := []rune(" ▁▂▃▄▅▆▇█")
	last := math.NaN()
	for line := lines - 1; line >= 0; line-- {
		var b strings.Builder
		for _, v := range s.values {
			if math.IsNaN(v) {
				b.WriteRune(' ')
				continue
			}
			last = v
			eighths := 0.0
			if high > low {
				eighths = math.Round((v-low)/(high-low)*float64(lines*8)) - float64(line*8)
			}
			at := int(min(max(eighths, 0), 8))
			if line == 0 {
				at = max(at, 1) // a value of 0 is one too
			}
			b.WriteRune(blocks[at])
		}
		name, value := "", ""
		if line == 0 {
			name, value = s.name, short(last)
		}
		fmt.Fprintf(w, "%-*s  %s  %s\n", nameWidth, name, b.String(), value)
	}
}

// short is a number in four digits.
func short(v float64) string { return strconv.FormatFloat(v, 'g', 4, 64) }
