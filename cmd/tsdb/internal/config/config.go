package config

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"time"

	promconfig "github.com/prometheus/prometheus/config"
	promrelabel "github.com/prometheus/prometheus/model/relabel"
	"go.yaml.in/yaml/v3"

	"halite/api/receiver/influx"
	"halite/api/receiver/otlp"
	"halite/ingest/hatracker"
	"halite/ingest/relabel"
	"halite/keyschema"
	"halite/storage/aliases"
)

const (
	// BytesMax bounds a file.
	BytesMax = 1 << 20
	// NodesMax bounds the values of a document. An alias counts as often as it is used.
	NodesMax = 200_000
)

// Config is the content of a file. The zero value is an empty file.
type Config struct {
	Global *Global `yaml:"global,omitempty"`
	// RuleFiles are patterns of files with recording and alerting rules.
	RuleFiles      []string        `yaml:"rule_files,omitempty"`
	Alerting       *Alerting       `yaml:"alerting,omitempty"`
	SchemaRules    []SchemaRule    `yaml:"schema_rules,omitempty"`
	RetentionRules []RetentionRule `yaml:"retention_rules,omitempty"`
	Limits         Limits          `yaml:"limits,omitempty"`
	// Tenants holds the limits of single tenants.
	Tenants    []Tenant    `yaml:"tenants,omitempty"`
	QueryRules []QueryRule `yaml:"query_rules,omitempty"`
	// RelabelConfigs change or drop the series of all writes.
	RelabelConfigs []RelabelConfig `yaml:"relabel_configs,omitempty"`
	// Aliases give metrics, labels and values second names.
	Aliases Aliases `yaml:"aliases,omitempty"`
	// HA turns on the election of one replica of each HA pair.
	HA *HA `yaml:"ha,omitempty"`
	// Influx changes how InfluxDB's line protocol becomes series.
	Influx *Influx `yaml:"influx,omitempty"`
	// OTLP changes how OTLP becomes series.
	OTLP *OTLP `yaml:"otlp,omitempty"`
}

// Read reads a file. The error lists the faults in the order of the file, each with file, line, column and field.
func Read(file string) (*Config, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	src, err := io.ReadAll(io.LimitReader(f, BytesMax+1))
	if err != nil {
		return nil, err
	}
	return Parse(file, src)
}

// Parse parses the content of a file with a name. Its errors are the same as in Read.
func Parse(name string, src []byte) (*Config, error) {
	if len(src) > BytesMax {
		return nil, fmt.Errorf("%s: %w", name, ErrBytes)
	}
	doc, err := parseDocument(src)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	c := &Config{}
	if doc == nil {
		return c, nil
	}
	d := &decoder{file: name, places: make(map[string]place)}
	d.decode(doc, "", reflect.ValueOf(c).Elem())
	if d.nodes <= NodesMax {
		c.validate(d.faultOfSoundEntries())
	}
	if err := joined(d.sorted()); err != nil {
		return nil, err
	}
	return c, nil
}

// parseDocument returns the only document of a file; nil if it is empty.
func parseDocument(src []byte) (*yaml.Node, error) {
	var doc, more yaml.Node
	dec := yaml.NewDecoder(bytes.NewReader(src))
	switch err := dec.Decode(&doc); {
	case errors.Is(err, io.EOF):
		return nil, nil
	case err != nil:
		return nil, syntaxFault(err)
	}
	if err := dec.Decode(&more); !errors.Is(err, io.EOF) {
		if err != nil {
			return nil, syntaxFault(err)
		}
		return nil, &Fault{Line: more.Line, Column: more.Column, Err: errors.New("the file has more than one YAML document")}
	}
	root := doc.Content[0]
	if root.Kind == yaml.ScalarNode && root.Tag == "!!null" {
		return nil, nil
	}
	return root, nil
}

// syntaxFault returns the error of the library with its line.
func syntaxFault(err error) error {
	text, line := strings.TrimPrefix(err.Error(), "yaml: "), 1
	if rest, ok := strings.CutPrefix(text, "line "); ok {
		if number, reason, ok := strings.Cut(rest, ": "); ok {
			if n, err := strconv.Atoi(number); err == nil {
				line, text = n, reason
			}
		}
	}
	return &Fault{Line: line, Err: errors.New(text)}
}

// Text returns the configuration as YAML, without comments; empty for an empty file.
func (c *Config) Text() string {
	text, err := yaml.Marshal(c)
	if err != nil || string(text) == "{}\n" {
		return "" // every type in a Config can be marshalled
	}
	return string(text)
}

// Rules returns the rules of schema, retention and series of metrics in the form of the store. A schema rule without from_hour
// has FromHour keyschema.NextHour.
func (c *Config) Rules() []keyschema.Rule {
	var out []keyschema.Rule
	for i := range c.SchemaRules {
		out = append(out, c.SchemaRules[i].rule())
	}
	for i := range c.RetentionRules {
		out = append(out, c.RetentionRules[i].rule())
	}
	for i := range c.Limits.SeriesPerMetric {
		out = append(out, c.Limits.SeriesPerMetric[i].rule())
	}
	for i := range c.Tenants {
		out = append(out, c.Tenants[i].rules()...)
	}
	return out
}

// validate reports what is wrong with values that have the right type.
func (c *Config) validate(fault func(field, format string, args ...any)) {
	if c.Global != nil {
		c.Global.validate(fault)
	}
	for i, pattern := range c.RuleFiles {
		if _, err := filepath.Match(pattern, ""); err != nil || pattern == "" {
			fault(fmt.Sprintf("rule_files[%d]", i), "%q is not a pattern of files", shortened(pattern))
		}
	}
	if c.Alerting != nil {
		c.Alerting.validate(fault)
	}
	for i := range c.SchemaRules {
		c.SchemaRules[i].validate(fmt.Sprintf("schema_rules[%d]", i), c.SchemaRules[:i], fault)
	}
	for i := range c.RetentionRules {
		c.RetentionRules[i].validate(fmt.Sprintf("retention_rules[%d]", i), c.RetentionRules[:i], fault)
	}
	c.Limits.validate(fault)
	c.validateTenants(fault)
	for i := range c.QueryRules {
		c.QueryRules[i].validate(fmt.Sprintf("query_rules[%d]", i), c.QueryRules[:i], fault)
	}
	if n := len(c.RelabelConfigs); n > relabel.RulesMax {
		fault("relabel_configs", "there are %d rules, at most %d are allowed", n, relabel.RulesMax)
	}
	for i := range c.RelabelConfigs {
		c.RelabelConfigs[i].validate(fmt.Sprintf("relabel_configs[%d]", i), fault)
	}
	c.Aliases.validate(fault)
	if c.HA != nil {
		c.HA.validate(fault)
	}
	if c.Influx != nil {
		c.Influx.validate(fault)
	}
	if c.OTLP != nil {
		c.OTLP.validate(fault)
	}
}

// Summary counts what the configuration holds.
func (c *Config) Summary() string {
	alertmanagers := 0
	if c.Alerting != nil {
		alertmanagers = len(c.Alerting.Alertmanagers)
	}
	return fmt.Sprintf("%d schema rules, %d retention rules, %d limits of metrics, %d query rules, %d relabelling rules, "+
		"%d patterns of rule files, %d sets of Alertmanagers",
		len(c.SchemaRules), len(c.RetentionRules), len(c.Limits.SeriesPerMetric), len(c.QueryRules), len(c.RelabelConfigs),
		len(c.RuleFiles), alertmanagers)
}

// QueryAliases returns the aliases in the form of package aliases.
func (c *Config) QueryAliases() []aliases.Alias { return c.Aliases.valid() }

// Relabelling returns the relabelling rules in the form of Prometheus.
func (c *Config) Relabelling() []*promrelabel.Config { return relabelling(c.RelabelConfigs) }

// HATracker returns the options of HA pairs; nil if there are none.
func (c *Config) HATracker() *hatracker.Options {
	h := c.HA
	if h == nil {
		return nil
	}
	o := &hatracker.Options{ClusterLabel: h.ClusterLabel, ReplicaLabel: h.ReplicaLabel}
	if h.Failover != nil {
		o.Failover = time.Duration(*h.Failover)
	}
	if h.MaxClusters != nil {
		o.ClustersMax = *h.MaxClusters
	}
	return o
}

// InfluxOptions returns the options of InfluxDB's line protocol.
func (c *Config) InfluxOptions() influx.Options { return c.Influx.options() }

// OTLPOptions returns the options of OTLP. lookback is the look-back of queries.
func (c *Config) OTLPOptions(lookback time.Duration) otlp.Options {
	out := otlp.DefaultOptions(lookback)
	if c.OTLP == nil {
		return out
	}
	if theirs, err := c.OTLP.options(); err == nil { // Parse refuses other values
		out.OTLPConfig = theirs
	}
	out.StoreDelta = c.OTLP.Delta == deltaStore
	out.AttributesMax = cmp.Or(c.OTLP.AttributesMax, out.AttributesMax)
	return out
}

// AlertingConfig returns the receivers of alerts and the external labels in the form of Prometheus. Relative paths are
// below dir.
func (c *Config) AlertingConfig(dir string) (*promconfig.Config, error) {
	out := &promconfig.Config{GlobalConfig: promconfig.DefaultGlobalConfig}
	out.GlobalConfig.ExternalLabels = c.Global.labels()
	if c.Alerting == nil {
		return out, nil
	}
	return out, c.Alerting.addTo(&out.AlertingConfig, dir)
}

// RulePatterns returns the patterns of rule files. Relative ones are below dir.
func (c *Config) RulePatterns(dir string) (out []string) {
	for _, pattern := range c.RuleFiles {
		if !filepath.IsAbs(pattern) {
			pattern = filepath.Join(dir, pattern)
		}
		out = append(out, pattern)
	}
	return out
}
