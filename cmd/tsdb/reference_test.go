package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/alecthomas/kingpin/v2"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"

	"halite/cmd/tsdb/internal/config"
	"halite/cmd/tsdb/internal/program"
	"halite/storage/bigtable/emulator"
)

var rewrite = flag.Bool("rewrite", false, "rewrite the generated files of docs/reference")

// generated is the line of a generated file that explains how to change it.
const generated = "<!-- Generated from the code: make golden -->\n"

// referenceDir is the folder of the generated documents.
const referenceDir = "../../docs/reference/"

// checkReference compares a file of docs/reference with the text that the code gives, or rewrites it.
func checkReference(t *testing.T, name, text string) {
	t.Helper()
	if *rewrite {
		require.NoError(t, os.WriteFile(referenceDir+name, []byte(text), 0o644))
		return
	}
	got, err := os.ReadFile(referenceDir + name)
	require.NoError(t, err)
	require.Equal(t, text, string(got), "docs/reference/%s is old: run make golden", name)
}

// cell is a text in a table of Markdown. The text has no code blocks.
func cell(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	return strings.NewReplacer("|", `\|`, "<", "&lt;", "*", `\*`, "_", `\_`).Replace(text)
}

// TestFlagReference: docs/reference/flags.md lists each flag of each command.
func TestFlagReference(t *testing.T) {
	app := kingpin.New(program.BuiltName, "")
	addCommands(app)
	var b strings.Builder
	b.WriteString(generated + `# Flags

Each command takes the flags of its table. ` + "`--help`" + ` prints them too. A flag ` + "`--[no-]name`" + ` is a switch: ` +
		"`--no-name`" + ` turns it
off. A flag marked *required* has no default. A flag marked *repeatable* may come several times.

` + program.Units + "\n")
	model := app.Model()
	for _, c := range model.FlattenedCommands() {
		if c.Hidden || c.FullCommand == "demo" { // demo takes the flags of serve
			continue
		}
		fmt.Fprintf(&b, "\n## %s %s\n%s\n", program.BuiltName, c.FullCommand, strings.TrimSpace(c.Help))
		writeArguments(&b, c)
		writeFlags(&b, c.Flags)
	}
	serve, demo := app.GetCommand("serve").Model(), app.GetCommand("demo").Model()
	fmt.Fprintf(&b, "\n## %s demo\n%s\n", program.BuiltName, demo.Help)
	known := make(map[string]bool)
	for _, f := range serve.Flags {
		known[f.Name] = f.Name != "storage.path"
	}
	writeFlags(&b, slices.DeleteFunc(slices.Clone(demo.Flags), func(f *kingpin.FlagModel) bool { return known[f.Name] }))
	checkReference(t, "flags.md", b.String())
}

func writeArguments(b *strings.Builder, c *kingpin.CmdModel) {
	for _, a := range c.Args {
		fmt.Fprintf(b, "\nArgument `%s`: %s\n", a.Name, a.Help)
	}
}

func writeFlags(b *strings.Builder, flags []*kingpin.FlagModel) {
	rows := 0
	for _, f := range flags {
		if f.Hidden || f.Name == "help" || f.Name == "version" {
			continue
		}
		if rows++; rows == 1 {
			b.WriteString("\n| flag | default | meaning |\n|---|---|---|\n")
		}
		fmt.Fprintf(b, "| `%s` | %s | %s |\n", flagName(f), flagDefault(f), cell(f.Help))
	}
}

func flagName(f *kingpin.FlagModel) string {
	if f.IsBoolFlag() {
		return "--[no-]" + f.Name
	}
	return "--" + f.Name
}

func flagDefault(f *kingpin.FlagModel) string {
	cumulative, ok := f.Value.(interface{ IsCumulative() bool })
	switch {
	case f.Required:
		return "*required*"
	case len(f.Default) > 0 && f.Default[0] != "":
		return "`" + strings.Join(f.Default, " ") + "`"
	case ok && cumulative.IsCumulative():
		return "*repeatable*"
	}
	return ""
}

// recorder is a registry that keeps the collectors, so that a test sees the metrics without values too.
type recorder struct {
	*prometheus.Registry
	mu    sync.Mutex
	taken []prometheus.Collector
}

// Register is part of prometheus.Registerer.
func (r *recorder) Register(c prometheus.Collector) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.taken = append(r.taken, c)
	return r.Registry.Register(c)
}

// MustRegister is part of prometheus.Registerer.
func (r *recorder) MustRegister(all ...prometheus.Collector) {
	for _, c := range all {
		if err := r.Register(c); err != nil {
			panic(err)
		}
	}
}

// describedMetric is a metric as the reference shows it.
type describedMetric struct{ name, kind, labels, help string }

var descPattern = regexp.MustCompile(
	`^Desc\{fqName: "([^"]+)", help: "(.*?)", (?:unit: ".*", )?constLabels: \{(.*)\}, variableLabels: \{(.*)\}\}$`)

// describe returns the metrics of a collector.
func describe(t *testing.T, c prometheus.Collector) (found []describedMetric) {
	kinds := make(map[string]string)
	for m := range collected(func(ch chan<- prometheus.Metric) { c.Collect(ch) }) {
		var value dto.Metric
		require.NoError(t, m.Write(&value))
		kinds[m.Desc().String()] = kindOf(&value)
	}
	for d := range collected(func(ch chan<- *prometheus.Desc) { c.Describe(ch) }) {
		parts := descPattern.FindStringSubmatch(d.String())
		require.NotNil(t, parts, d.String())
		kind := kinds[d.String()]
		switch c.(type) {
		case *prometheus.CounterVec:
			kind = "counter"
		case *prometheus.GaugeVec:
			kind = "gauge"
		case *prometheus.HistogramVec:
			kind = "histogram"
		}
		labels := slices.DeleteFunc(strings.Split(parts[4], ","), func(l string) bool { return l == "" })
		for pair := range strings.SplitSeq(parts[3], ",") {
			if name, _, ok := strings.Cut(pair, "="); ok {
				labels = append(labels, name)
			}
		}
		slices.Sort(labels)
		found = append(found, describedMetric{parts[1], kind, strings.Join(labels, ", "), strings.ReplaceAll(parts[2], `\"`, `"`)})
	}
	return found
}

// collected ranges over what a function sends.
func collected[T any](send func(chan<- T)) func(func(T) bool) {
	return func(yield func(T) bool) {
		ch := make(chan T)
		go func() {
			defer close(ch)
			send(ch)
		}()
		more := true
		for v := range ch { // to the end, as the sender waits
			more = more && yield(v)
		}
	}
}

func kindOf(m *dto.Metric) string {
	switch {
	case m.Counter != nil:
		return "counter"
	case m.Gauge != nil:
		return "gauge"
	case m.Histogram != nil:
		return "histogram"
	case m.Summary != nil:
		return "summary"
	}
	return "untyped"
}

// metricsOf runs a server with flags until it is ready, and returns the metrics that it has.
func metricsOf(t *testing.T, flags ...string) map[string]describedMetric {
	r := &recorder{Registry: newRegistry()}
	app := kingpin.New(program.BuiltName, "")
	c := addServeFlags(app.Command("serve", ""))
	_, err := app.Parse(append([]string{"serve", "--storage.path", t.TempDir(), "--web.listen-address", "127.0.0.1:0",
		"--no-web.self-scrape"}, flags...))
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	c.metrics, c.stderr = r, io.Discard
	all := make(map[string]describedMetric)
	c.background = func(context.Context, sampleWriter, string, *slog.Logger) error {
		r.mu.Lock()
		taken := slices.Clone(r.taken)
		r.mu.Unlock()
		for _, c := range taken {
			for _, m := range describe(t, c) {
				all[m.name] = m
			}
		}
		cancel()
		return nil
	}
	require.NoError(t, serve(ctx, c, slog.New(slog.DiscardHandler), io.Discard))
	return all
}

// TestMetricReference: docs/reference/metrics.md lists each metric that the server may have.
func TestMetricReference(t *testing.T) {
	bigtable, err := emulator.Start(emulator.Options{ListenAddress: "127.0.0.1:0"})
	require.NoError(t, err)
	defer bigtable.Close()
	t.Setenv("BIGTABLE_EMULATOR_HOST", bigtable.Addr())
	engine := []string{"--storage.engine=bigtable", "--bigtable.project=my-project", "--bigtable.instance=my-instance"}
	all := metricsOf(t, "--tenants", "--opentsdb.listen-address", "127.0.0.1:0", "--storage.rollups")
	inPebble := len(all)
	require.Greater(t, inPebble, 100)
	buffered := metricsOf(t, append(engine, "--storage.rollups")...)
	direct := metricsOf(t, append(engine, "--bigtable.mode=direct", "--bigtable.table-prefix=direct-", "--storage.rollups")...)
	for _, more := range []map[string]describedMetric{buffered, direct} {
		for name, m := range more {
			if _, known := all[name]; !known {
				all[name] = m
			}
		}
	}
	require.Greater(t, len(all), inPebble, "metrics of Bigtable")
	var b strings.Builder
	b.WriteString(generated + `# Metrics

` + "`/metrics`" + ` shows these metrics, and the server stores them as series of its own. The metrics of the
Go runtime and of the process, ` + "`go_…` and `process_…`" + `, are as in every Go program. A metric with labels appears with its
first value.
[Operating](../operating.md#what-to-watch) says which of them to watch.

| metric | type | labels | meaning |
|---|---|---|---|
`)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		m := all[name]
		if strings.HasPrefix(name, "go_") || strings.HasPrefix(name, "process_") {
			continue
		}
		require.NotEmpty(t, m.help, name)
		kind := m.kind
		switch { // a collector without values yet names only the metric
		case kind == "" && strings.HasSuffix(name, "_total"):
			kind = "counter"
		case kind == "":
			kind = "gauge"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", name, kind, cell(m.labels), cell(m.help))
	}
	checkReference(t, "metrics.md", b.String())
}

// TestConfigReference: docs/reference/config.md lists each key of --config.file, and a document explains it.
func TestConfigReference(t *testing.T) {
	var explained strings.Builder
	for _, name := range []string{"configuration.md", "schema.md", "tenants.md", "rules.md"} {
		text, err := os.ReadFile("../../docs/" + name)
		require.NoError(t, err)
		explained.Write(text)
	}
	var b strings.Builder
	b.WriteString(generated + `# Keys of the configuration file

` + "`--config.file` takes a YAML file with these keys. `[]`" + ` marks a list. [configuration.md](../configuration.md)
explains them, [schema.md](../schema.md) the rules of metrics, [tenants.md](../tenants.md) the limits of tenants, and
[rules.md](../rules.md) recording and alerting rules. The keys below alertmanagers are as in Prometheus.

| key | value |
|---|---|
`)
	writeKeys(t, &b, "", reflect.TypeFor[config.Config](), explained.String())
	checkReference(t, "config.md", b.String())
}

// writeKeys writes the keys of a type of the configuration, with those below it.
func writeKeys(t *testing.T, b *strings.Builder, prefix string, typ reflect.Type, explained string) {
	for i := range typ.NumField() {
		f := typ.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		if strings.Contains(options, "inline") {
			writeKeys(t, b, prefix, f.Type, explained)
			continue
		}
		if name == "" || name == "-" {
			continue
		}
		if !strings.HasPrefix(prefix, "alerting.alertmanagers[].") { // Prometheus documents these
			require.True(t, strings.Contains(explained, name), "no document explains %s%s", prefix, name)
		}
		value, key := f.Type, prefix+name
		if value.Kind() == reflect.Pointer {
			value = value.Elem()
		}
		if value.Kind() == reflect.Slice && value.Elem().Kind() == reflect.Struct {
			value, key = value.Elem(), key+"[]"
		}
		if value.Kind() == reflect.Struct && hasKeys(value) {
			fmt.Fprintf(b, "| `%s` | |\n", key)
			writeKeys(t, b, key+".", value, explained)
			continue
		}
		fmt.Fprintf(b, "| `%s` | %s |\n", key, valueText(value))
	}
}

func hasKeys(typ reflect.Type) bool {
	for i := range typ.NumField() {
		if typ.Field(i).Tag.Get("yaml") != "" {
			return true
		}
	}
	return false
}

// valueText describes the values of a key of the configuration.
func valueText(typ reflect.Type) string {
	switch typ.Name() {
	case "Duration":
		return "duration, such as 30s"
	case "Age":
		return "age, such as 30d"
	case "Bytes":
		return "size, such as 512MiB"
	case "Regexp":
		return "regular expression"
	case "Basis":
		return "tags or promoted"
	case "Action":
		return "refuse or slow_lane"
	}
	switch typ.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Int64, reflect.Uint64:
		return "whole number"
	case reflect.Float64:
		return "number"
	case reflect.Slice:
		return "list of texts"
	}
	return "text"
}
