package client

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/alecthomas/kingpin/v2"

	"halite/cmd/tsdb/internal/config"
	"halite/cmd/tsdb/internal/program"
	"halite/keyschema"
)

// keyvizFlags holds the flags of `tsdb keyviz compare`.
type keyvizFlags struct {
	server   Server
	from, to string
	metric   string
	name     string
	rules    string
	layout   string
	output   program.Output
}

// AddKeyviz declares `tsdb keyviz`.
func AddKeyviz(app *kingpin.Application) program.Commands {
	c, parent := &keyvizFlags{}, app.Command("keyviz", "Examine the load of the row keys of a running server.")
	cmd := parent.Command("compare", "Compare the recorded load with its distribution under other schema rules.")
	c.server.AddFlags(cmd, "The server.", DefaultURL)
	cmd.Flag("rules", "Configuration file whose schema_rules define the other keys.").PlaceHolder("FILE").StringVar(&c.rules)
	cmd.Flag("layout", "Keys that no schema rule can make: time-first, sequential-id-first or static-key.").StringVar(&c.layout)
	cmd.Flag("from", "First time: "+program.TimeForms+".").Default("6h").StringVar(&c.from)
	cmd.Flag("to", "Last time, in the same form.").Default("now").StringVar(&c.to)
	cmd.Flag("metric", "Load to compare, such as write_cells or read_rows.").Default("write_cells").StringVar(&c.metric)
	cmd.Flag("name", "Name of the metric whose keys are compared. Default: all.").StringVar(&c.name)
	c.output.AddFlag(cmd)
	return program.Commands{cmd.FullCommand(): c.compare}
}

// form returns the parameters of the request.
func (c *keyvizFlags) form(now time.Time) (url.Values, error) {
	from, err := program.ParseTime(c.from, now)
	if err != nil {
		return nil, fmt.Errorf("--from: %w", err)
	}
	to, err := program.ParseTime(c.to, now)
	if err != nil {
		return nil, fmt.Errorf("--to: %w", err)
	}
	form := url.Values{
		"start": {from.Format(time.RFC3339)}, "end": {to.Format(time.RFC3339)}, "metric": {c.metric}, "rows": {"64"},
	}
	if c.name != "" {
		first, last := keyschema.MetricRows(c.name)
		form.Set("start_key", base64.RawURLEncoding.EncodeToString(first))
		form.Set("end_key", base64.RawURLEncoding.EncodeToString(last))
	}
	switch {
	case (c.rules == "") == (c.layout == ""):
		return nil, errors.New("exactly one of --rules and --layout is needed")
	case c.layout != "":
		form.Set("layout", c.layout)
		return form, nil
	}
	read, err := config.Read(c.rules)
	if err != nil {
		return nil, err
	}
	rules := read.Rules()
	if rules == nil {
		rules = []keyschema.Rule{}
	}
	text, err := json.Marshal(rules)
	form.Set("rules", string(text))
	return form, err
}

// comparison is the part of a response that is printed.
type comparison struct {
	Keys   int         `json:"keys"`
	Before compareSide `json:"before"`
	After  compareSide `json:"after"`
}

type compareSide struct {
	MaxOverMean float64 `json:"maxOverMean"`
	Heatmap     struct {
		Diagnostics []struct {
			ID    string  `json:"id"`
			Level string  `json:"level"`
			Share float64 `json:"share"`
			Text  string  `json:"text"`
		} `json:"diagnostics"`
	} `json:"heatmap"`
}

func (c *keyvizFlags) compare(ctx context.Context, w io.Writer) error {
	form, err := c.form(time.Now())
	if err != nil {
		return err
	}
	var data comparison
	if err := c.server.Call(ctx, http.MethodGet, "/api/v1/keyviz/compare", form, &data); err != nil {
		return err
	}
	return c.output.Print(w, data, data.print)
}

func (d *comparison) print(w io.Writer) error {
	fmt.Fprintf(w, "%d sampled keys. Load of the hottest of 16 ranges, divided by the mean: 1 is even, 16 is the worst.\n", d.Keys)
	for _, side := range []struct {
		name string
		*compareSide
	}{{"before", &d.Before}, {"after", &d.After}} {
		if _, err := fmt.Fprintf(w, "%-7s %5.2f\n", side.name, side.MaxOverMean); err != nil {
			return err
		}
		for _, f := range side.Heatmap.Diagnostics {
			fmt.Fprintf(w, "        %s: %s\n", f.Level, f.Text)
		}
	}
	return nil
}
