package grafana

import "strings"

// Engines that Panel.Engine may name.
const (
	EnginePebble   = "pebble"
	EngineBigtable = "bigtable"
)

// The variables of every dashboard, as queries use them.
const (
	datasourceUID = "${ds}"
	selector      = `job=~"$job",instance=~"$instance"`
)

// Units, in Grafana's words.
const (
	unitNone     = "none"
	unitShort    = "short"
	unitBytes    = "bytes"
	unitByteRate = "Bps"
	unitSeconds  = "s"
	unitRatio    = "percentunit"
	unitPerSec   = "cps"
	unitRequests = "reqps"
)

// gridColumns is the width of Grafana's grid.
const gridColumns = 24

// Dashboards returns a new copy of all dashboards.
func Dashboards() []Dashboard {
	return []Dashboard{overview(), ingest(), queries(), storage(), rollups(), bigtable()}
}

// graph is the short form of a panel. In its expressions, {@} is replaced by matchers of job and instance, {@,more="…"}
// adds matchers, and [@] is replaced by the interval of rates.
type graph struct {
	kind   string // "timeseries" unless set
	title  string
	about  string // the description
	unit   string
	exprs  []expr
	width  int // in columns; 8 unless set, 4 for numbers
	max    float64
	stack  bool
	bad    bool // the number is red if it is at least 1
	badAt0 bool // the number is red if it is 0
	text   bool // the legend is shown in place of the number
	engine string
}

// expr is a query and its legend.
type expr struct {
	query, legend string
}

// one returns the expressions of a panel with a single query.
func one(query, legend string) []expr { return []expr{{query, legend}} }

// quantiles returns queries for the median and the 99th percentile of a histogram, grouped by the given labels.
func quantiles(bucket string, by ...string) []expr {
	groups, legend := "le", ""
	for _, label := range by {
		groups += ", " + label
		legend += " {{" + label + "}}"
	}
	histogram := "sum by (" + groups + ") (rate(" + bucket + "[@]))"
	return []expr{
		{"histogram_quantile(0.5, " + histogram + ")", "p50" + legend},
		{"histogram_quantile(0.99, " + histogram + ")", "p99" + legend},
	}
}

// builder places panels from left to right and from top to bottom.
type builder struct {
	d           Dashboard
	x, y, lineH int
	engine      string // of the following panels that name none
}

func newDashboard(name, title, about string) *builder {
	return &builder{d: Dashboard{
		UID: "halite-" + name, Title: "Halite / " + title, Description: about, Tags: []string{"halite"},
		SchemaVersion: SchemaVersion, Version: 1, Editable: true, GraphTooltip: 1, Refresh: "30s",
		Time: TimeRange{From: "now-1h", To: "now"}, Timezone: "browser",
		Links: []Link{{Title: "Halite", Type: "dashboards", Tags: []string{"halite"}, AsDropdown: true, IncludeVars: true,
			KeepTime: true}},
		Templating: Templating{List: variables()}, Annotations: Annotations{List: []any{}},
	}}
}

func variables() []Variable {
	labelValues := func(name, title, query string) Variable {
		return Variable{
			Name: name, Label: title, Type: "query", Datasource: &Datasource{"prometheus", datasourceUID},
			Query: VariableQuery{Query: query, RefID: "A"}, Definition: query, Refresh: 2, Sort: 1, Multi: true,
			IncludeAll: true, AllValue: ".+",
		}
	}
	return []Variable{
		{Name: "ds", Label: "Data source", Type: "datasource", Query: "prometheus"},
		labelValues("job", "Job", "label_values(tsdb_build_info, job)"),
		labelValues("instance", "Instance", `label_values(tsdb_build_info{job=~"$job"}, instance)`),
	}
}

// row adds a titled row with its panels. Engine, if not "", is the storage engine that its panels need.
func (b *builder) row(title, engine string, graphs ...graph) {
	b.engine = engine
	b.newLine()
	open := false
	b.d.Panels = append(b.d.Panels, Panel{
		ID: len(b.d.Panels) + 1, Type: "row", Title: title, GridPos: GridPos{H: 1, W: gridColumns, Y: b.y}, Collapsed: &open,
	})
	b.y++
	for _, g := range graphs {
		b.panel(g)
	}
}

func (b *builder) newLine() {
	b.x, b.y, b.lineH = 0, b.y+b.lineH, 0
}

func (b *builder) panel(g graph) {
	width, height := 8, 8
	if g.kind == "" {
		g.kind = "timeseries"
	}
	if g.kind == "stat" {
		width, height = 4, 4
	}
	if g.width != 0 {
		width = g.width
	}
	if b.x+width > gridColumns {
		b.newLine()
	}
	if g.engine == "" {
		g.engine = b.engine
	}
	source := &Datasource{"prometheus", datasourceUID}
	p := Panel{
		ID: len(b.d.Panels) + 1, Type: g.kind, Title: g.title, Description: g.about, Datasource: source, Engine: g.engine,
		GridPos: GridPos{H: height, W: width, X: b.x, Y: b.y}, FieldConfig: g.fields(), Options: g.options(),
	}
	for i, e := range g.exprs {
		p.Targets = append(p.Targets, Target{
			RefID: string(rune('A' + i)), Datasource: source, EditorMode: "code", Expr: expand(e.query), LegendFormat: e.legend,
			Instant: g.kind == "stat", Range: g.kind != "stat",
		})
	}
	b.d.Panels = append(b.d.Panels, p)
	b.x += width
	b.lineH = max(b.lineH, height)
}

// expand replaces the short forms in a query.
func expand(query string) string {
	return strings.NewReplacer("{@", "{"+selector, "[@]", "[$__rate_interval]").Replace(query)
}

func (g *graph) fields() *FieldConfig {
	zero := 0.0
	f := FieldDefaults{Unit: g.unit, Min: &zero, Color: map[string]any{"mode": "palette-classic"}}
	if g.max != 0 {
		f.Max = &g.max
	}
	if g.kind == "stat" {
		f.Color = map[string]any{"mode": "thresholds"}
		f.Thresholds = g.thresholds()
		return &FieldConfig{Defaults: f, Overrides: []any{}}
	}
	stacking, fill := "none", 10
	if g.stack {
		stacking, fill = "normal", 40
	}
	f.Custom = map[string]any{
		"drawStyle": "line", "fillOpacity": fill, "lineWidth": 1, "showPoints": "never", "spanNulls": false,
		"stacking": map[string]any{"group": "A", "mode": stacking},
	}
	return &FieldConfig{Defaults: f, Overrides: []any{}}
}

func (g *graph) thresholds() *Thresholds {
	first, second := 1.0, "green"
	steps := []Threshold{{Color: "blue"}}
	switch {
	case g.bad:
		steps, second = []Threshold{{Color: "green"}}, "red"
	case g.badAt0:
		steps = []Threshold{{Color: "red"}}
	default:
		return &Thresholds{Mode: "absolute", Steps: steps}
	}
	return &Thresholds{Mode: "absolute", Steps: append(steps, Threshold{second, &first})}
}

func (g *graph) options() any {
	if g.kind == "stat" {
		textMode := "auto"
		if g.text {
			textMode = "name"
		}
		return map[string]any{
			"colorMode": "value", "graphMode": "none", "justifyMode": "auto", "orientation": "auto", "textMode": textMode,
			"reduceOptions": map[string]any{"calcs": []string{"lastNotNull"}, "fields": "", "values": false},
		}
	}
	return map[string]any{
		"legend":  map[string]any{"calcs": []string{"mean", "max"}, "displayMode": "table", "placement": "bottom", "showLegend": true},
		"tooltip": map[string]any{"mode": "multi", "sort": "desc"},
	}
}
