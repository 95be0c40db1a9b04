package client

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kingpin/v2"
	"go.yaml.in/yaml/v3"

	"halite/cmd/tsdb/internal/config"
	"halite/cmd/tsdb/internal/program"
	"halite/cmd/tsdb/internal/rules"
	"halite/keyschema"
	"halite/query"
	"halite/storage/retention"
)

// checkConfig holds the arguments of `tsdb check config`.
type checkConfig struct {
	file   string
	server Server
	// experimental is --query.experimental of the server.
	experimental bool
	now          func() time.Time
}

// AddCheck declares `tsdb check config`, `tsdb check healthy` and `tsdb check ready`.
func AddCheck(app *kingpin.Application) program.Commands {
	check := app.Command("check", "Check files, or a running server.")
	cmd := check.Command("config", "Check a configuration file, and show the changes that it would make in a running server.")
	c := &checkConfig{now: time.Now}
	cmd.Arg("file", "The file for --config.file of serve.").Required().StringVar(&c.file)
	cmd.Flag("query.experimental", "Accept experimental PromQL in rules, as the server does with this flag.").
		BoolVar(&c.experimental)
	c.server.AddFlags(cmd, "A running server to compare the file with. Default: none.", "")
	commands := program.Commands{cmd.FullCommand(): c.run}
	for _, p := range [...]struct{ name, help string }{
		{"healthy", "Check whether a server works and needs no restart."}, {"ready", "Check whether a server accepts requests."},
	} {
		command, run := addProbe(check, p.name, p.help)
		commands[command] = run
	}
	return commands
}

func (c *checkConfig) run(ctx context.Context, w io.Writer) error {
	next, err := config.Read(c.file)
	if err != nil {
		return err
	}
	settings, err := rules.Load(next, filepath.Dir(c.file), query.NewParser(query.Options{Experimental: c.experimental}))
	if err != nil {
		return fmt.Errorf("%s: %w", c.file, err)
	}
	lines := []string{fmt.Sprintf("%s is valid: %s", c.file, next.Summary())}
	if len(settings.Files.Paths) > 0 {
		lines = append(lines, settings.Files.Summary())
	}
	if c.server.URL != "" {
		changes, err := c.changes(ctx, next, settings)
		if err != nil {
			return err
		}
		if len(changes) == 0 {
			changes = []string{"nothing would change"}
		}
		lines = append(lines, changes...)
	}
	_, err = io.WriteString(w, strings.Join(lines, "\n")+"\n")
	return err
}

// changes lists the changes that a reload would make in the server. The error says why the server would refuse the
// file.
func (c *checkConfig) changes(ctx context.Context, next *config.Config, settings *rules.Settings) ([]string, error) {
	var (
		schema struct{ Rules []keyschema.Rule }
		loaded struct{ YAML string }
		flags  map[string]string
		kept   struct{ Costs []retention.Cost }
	)
	for path, data := range map[string]any{"schema": &schema, "config": &loaded, "flags": &flags, "retention": &kept} {
		if err := c.server.Call(ctx, http.MethodGet, "/api/v1/status/"+path, nil, data); err != nil {
			return nil, err
		}
	}
	ahead, err := time.ParseDuration(flags["ingest.max-ahead"])
	if err != nil {
		return nil, fmt.Errorf("the server's --ingest.max-ahead: %w", err)
	}
	if flags["tenants"] == "false" {
		if err := settings.RequireNoTenants(); err != nil {
			return nil, fmt.Errorf("the server would refuse %s: %w", c.file, err)
		}
	}
	running, err := config.Parse("the configuration of the server", []byte(loaded.YAML))
	if err != nil {
		return nil, fmt.Errorf("is it another version? %w", err)
	}
	out, err := ruleChanges(schema.Rules, next.Rules(), kept.Costs, keyschema.HourOf(c.now().Add(ahead+time.Minute).UnixMilli()))
	if err != nil {
		return nil, fmt.Errorf("the server would refuse %s: %w", c.file, err)
	}
	before, after := *running, *next
	for _, rest := range []*config.Config{&before, &after} {
		rest.SchemaRules, rest.RetentionRules, rest.Limits.SeriesPerMetric = nil, nil, nil // compared as rules
		rest.Tenants = slices.Clone(rest.Tenants)
		for i := range rest.Tenants {
			rest.Tenants[i].SeriesPerMetric, rest.Tenants[i].Retention = nil, nil
		}
	}
	more, err := valueChanges(&before, &after)
	return append(out, more...), err
}

// checkRetention returns an error if a retention rule of next contradicts the ages that the server has without rules. It cannot
// know these ages if current has a rule for all metrics.
func checkRetention(current, next *keyschema.Schema, costs []retention.Cost) error {
	if slices.ContainsFunc(current.Rules(), func(r keyschema.Rule) bool { return r.Pattern == "*" && r.Retention != nil }) {
		return nil
	}
	if _, err := next.Retention(retention.AgesOfAll(costs)); err != nil {
		return fmt.Errorf("retention rules: %w", err)
	}
	return nil
}

// ruleChanges compares the rules in force with wanted ones. nowHour is the last hour that may have samples.
func ruleChanges(rules, wanted []keyschema.Rule, costs []retention.Cost, nowHour int64) (out []string, err error) {
	current, err := keyschema.NewSchema(rules)
	if err != nil {
		return nil, err
	}
	next, err := keyschema.NewSchema(current.Begin(wanted, nowHour))
	if err != nil {
		return nil, err
	}
	if err := current.CheckChange(next, nowHour); err != nil {
		return nil, err
	}
	if err := checkRetention(current, next, costs); err != nil {
		return nil, err
	}
	before, err := ruleTexts(current.Rules())
	if err != nil {
		return nil, err
	}
	after, err := ruleTexts(next.Rules())
	if err != nil {
		return nil, err
	}
	for _, r := range before {
		if !slices.Contains(after, r) {
			out = append(out, "- "+r.text+r.effect)
		}
	}
	for _, r := range after {
		if !slices.Contains(before, r) {
			out = append(out, "+ "+r.text+r.effect)
		}
	}
	return out, nil
}

// ruleText is a part of a rule as JSON, with the time at which a change of this part takes effect.
type ruleText struct{ text, effect string }

// ruleTexts divides each rule into its parts about keys, retention and series.
func ruleTexts(rules []keyschema.Rule) (out []ruleText, err error) {
	add := func(v any, effect string) {
		text, fault := json.Marshal(v)
		if fault != nil {
			err = fault
		}
		out = append(out, ruleText{string(text), effect})
	}
	for _, r := range rules {
		if r.Retention != nil {
			add(struct {
				Pattern   string                   `json:"pattern"`
				Retention *keyschema.RuleRetention `json:"retention"`
			}{r.Pattern, r.Retention}, ", at once")
		}
		if r.MaxSeries != nil {
			add(struct {
				Pattern string  `json:"pattern"`
				Max     int     `json:"max"`
				Warn    float64 `json:"warn,omitempty"`
				DryRun  bool    `json:"dry_run,omitempty"`
			}{r.Pattern, *r.MaxSeries, r.MaxSeriesWarn, r.MaxSeriesDryRun}, ", at once")
		}
		if r.Salts > 0 {
			r.Retention, r.MaxSeries, r.MaxSeriesWarn, r.MaxSeriesDryRun = nil, nil, 0, false
			add(r, ", from "+time.UnixMilli(keyschema.HourStartMs(r.FromHour)).UTC().Format(time.RFC3339))
		}
	}
	return out, err
}

// valueChanges compares all sections without rules of metrics. Each limit and each entry of a list is a line.
func valueChanges(before, after *config.Config) (out []string, err error) {
	var lines [2][]string
	for i, c := range []*config.Config{before, after} {
		if lines[i], err = valueLines(c); err != nil {
			return nil, err
		}
	}
	for _, line := range lines[0] {
		if !slices.Contains(lines[1], line) {
			out = append(out, "- "+line)
		}
	}
	for _, line := range lines[1] {
		if !slices.Contains(lines[0], line) {
			out = append(out, "+ "+line)
		}
	}
	if len(out) == 0 && !slices.Equal(lines[0], lines[1]) {
		out = append(out, "the order of rules changes, at once")
	}
	return out, nil
}

// namedValue is a section of a configuration, or a part of one.
type namedValue struct {
	name  string
	value *yaml.Node
}

// namedValues divides a configuration into sections, the section limits into its limits, and lists into their entries.
func namedValues(c *config.Config) (out []namedValue, err error) {
	var document yaml.Node
	if err := document.Encode(c); err != nil {
		return nil, err
	}
	for i := 0; i+1 < len(document.Content); i += 2 {
		section, value := document.Content[i].Value, document.Content[i+1]
		switch {
		case section == "limits":
			for k := 0; k+1 < len(value.Content); k += 2 {
				out = append(out, namedValue{section + "." + value.Content[k].Value, value.Content[k+1]})
			}
		case value.Kind == yaml.SequenceNode:
			for _, entry := range value.Content {
				out = append(out, namedValue{section, entry})
			}
		default:
			out = append(out, namedValue{section, value})
		}
	}
	return out, nil
}

// valueLines returns the parts of a configuration as lines of YAML.
func valueLines(c *config.Config) (out []string, err error) {
	values, err := namedValues(c)
	if err != nil {
		return nil, err
	}
	for _, v := range values {
		v.value.Style = yaml.FlowStyle
		text, err := yaml.Marshal(v.value)
		if err != nil {
			return nil, err
		}
		out = append(out, v.name+": "+strings.Join(strings.Fields(string(text)), " ")+", at once")
	}
	return out, nil
}
