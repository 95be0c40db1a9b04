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
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kingpin/v2"
	"github.com/prometheus/common/model"

	"halite/cmd/tsdb/internal/program"
)

const (
	graphSeriesMax = 50 // number of series drawn; the others are counted
	graphTall      = 8  // lines of the graph of a single series
	graphNameMax   = 64
)

// graphConfig holds the flags of `tsdb graph`.
type graphConfig struct {
	server   Server
	query    string
	from, to string
	zone     string
	width    int
	output   program.Output
}

// AddGraph declares `tsdb graph`.
func AddGraph(app *kingpin.Application) program.Commands {
	cmd := app.Command("graph", "Draw a query of a running server in the terminal.")
	c := &graphConfig{}
	c.server.AddFlags(cmd, "The server.", DefaultURL)
	cmd.Flag("from", "First time: "+program.TimeForms+".").Default("15m").StringVar(&c.from)
	cmd.Flag("to", "Last time, in the same form.").Default("now").StringVar(&c.to)
	cmd.Flag("time-zone", "Time zone of the times, such as UTC or Europe/Berlin.").Default("Local").StringVar(&c.zone)
	cmd.Flag("width", "Columns of the graph.").Default("72").IntVar(&c.width)
	c.output.AddFlag(cmd)
	cmd.Arg("query", "PromQL.").Required().StringVar(&c.query)
	return program.Commands{cmd.FullCommand(): c.draw}
}

// span is the time range of a graph. Column n shows from + n × step.
type span struct {
	from, to time.Time
	step     time.Duration
}

// span parses the times.
func (c *graphConfig) span(now time.Time) (s span, err error) {
	zone, err := time.LoadLocation(c.zone)
	if err != nil {
		return s, fmt.Errorf("--time-zone: %w", err)
	}
	if s.from, err = program.ParseTime(c.from, now); err != nil {
		return s, fmt.Errorf("--from: %w", err)
	}
	if s.to, err = program.ParseTime(c.to, now); err != nil {
		return s, fmt.Errorf("--to: %w", err)
	}
	if c.width < 1 || c.width > 1000 || s.to.Sub(s.from) < time.Second {
		return s, errors.New("--width must be 1 to 1000, and --from at least 1s before --to")
	}
	s.step = max(time.Second, (s.to.Sub(s.from) / time.Duration(c.width)).Round(time.Second))
	s.to = s.to.Truncate(s.step).In(zone)
	s.from = s.to.Add(-time.Duration(c.width-1) * s.step)
	return s, nil
}

// plottedSeries is a series with a value for each column; NaN where it has none.
type plottedSeries struct {
	metric model.Metric
	name   string
	values []float64
}

// draw queries the server and draws every series on one scale. The scale includes 0.
func (c *graphConfig) draw(ctx context.Context, w io.Writer) error {
	s, err := c.span(time.Now())
	if err != nil {
		return err
	}
	matrix, err := c.fetch(ctx, s)
	if err != nil {
		return err
	}
	return c.output.Print(w, matrix, func(w io.Writer) error {
		if len(matrix) == 0 {
			return fmt.Errorf("%s has no samples for this query from %s to %s", &c.server, s.from.Format(time.DateTime),
				s.to.Format(time.DateTime))
		}
		return s.draw(w, c.columns(matrix, s))
	})
}

// fetch fetches the series.
func (c *graphConfig) fetch(ctx context.Context, s span) (model.Matrix, error) {
	form := url.Values{
		"query": {c.query}, "step": {strconv.FormatFloat(s.step.Seconds(), 'f', -1, 64)},
		"start": {strconv.FormatInt(s.from.Unix(), 10)}, "end": {strconv.FormatInt(s.to.Unix(), 10)},
	}
	var data struct {
		Result model.Matrix `json:"result"`
	}
	err := c.server.Call(ctx, http.MethodPost, "/api/v1/query_range", form, &data)
	return data.Result, err
}

// columns gives each series a value for each column.
func (c *graphConfig) columns(matrix model.Matrix, s span) []plottedSeries {
	list := make([]plottedSeries, len(matrix))
	for i, r := range matrix {
		p := &list[i]
		p.metric, p.values = r.Metric, make([]float64, c.width)
		for column := range p.values {
			p.values[column] = math.NaN()
		}
		for _, v := range r.Values {
			if column := int(v.Timestamp.Time().Sub(s.from) / s.step); column >= 0 && column < c.width {
				p.values[column] = float64(v.Value)
			}
		}
	}
	return list
}

// draw draws the series, each with the labels in which it differs from others.
func (s span) draw(w io.Writer, list []plottedSeries) error {
	common := nameSeries(list)
	slices.SortFunc(list, func(a, b plottedSeries) int { return cmp.Compare(a.name, b.name) })
	lines := 1
	if len(list) == 1 {
		lines = graphTall
	}
	low, high := scaleOf(list)
	if len(common) > 0 {
		fmt.Fprintln(w, common.String())
	}
	if len(list) > graphSeriesMax {
		fmt.Fprintf(w, "the first %d of %d series\n", graphSeriesMax, len(list))
		list = list[:graphSeriesMax]
	}
	nameWidth := 0
	for _, p := range list {
		nameWidth = max(nameWidth, len([]rune(p.name)))
	}
	for _, p := range list {
		plot(w, p, nameWidth, lines, low, high)
	}
	const form = time.DateTime + " MST"
	_, err := fmt.Fprintf(w, "%*s  %s to %s, a column is %s, full height %s (bottom %s)\n", nameWidth, "",
		s.from.Format(form), s.to.Format(form), s.step, short(high), short(low))
	return err
}

// nameSeries names each series by the labels that not all series share, and returns the shared ones.
func nameSeries(list []plottedSeries) (common model.Metric) {
	common = list[0].metric.Clone()
	for _, p := range list {
		for name, value := range common {
			if p.metric[name] != value {
				delete(common, name)
			}
		}
	}
	for i := range list {
		own := list[i].metric.Clone()
		for name := range common {
			delete(own, name)
		}
		list[i].name = nameOf(own)
	}
	return common
}

// nameOf returns the text of labels. It shortens a long text in the middle.
func nameOf(m model.Metric) string {
	text := m.String()
	switch {
	case len(m) == 0:
		text = ""
	case len(m) == 1 && m[model.MetricNameLabel] == "":
		for _, value := range m { // the value of a single label suffices
			text = string(value)
		}
	}
	if runes := []rune(text); len(runes) > graphNameMax {
		return string(runes[:graphNameMax/2]) + "…" + string(runes[len(runes)-graphNameMax/2+1:])
	}
	return text
}

// scaleOf returns the range of the finite values and 0.
func scaleOf(list []plottedSeries) (low, high float64) {
	for _, s := range list {
		for _, v := range s.values {
			if !math.IsNaN(v) && !math.IsInf(v, 0) {
				low, high = min(low, v), max(high, v)
			}
		}
	}
	return low, high
}

// plot draws a series as bars, between its name and its last value.
func plot(w io.Writer, s plottedSeries, nameWidth, lines int, low, high float64) {
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
				at = max(at, 1) // a value of 0 has a bar too
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

// short returns a number with four digits.
func short(v float64) string { return strconv.FormatFloat(v, 'g', 4, 64) }
