package grafana_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/promql/parser"
	"github.com/stretchr/testify/require"

	"halite/grafana"
)

// TestFilesAreGenerated checks that the JSON files equal the output of the code, and that there are no other files.
func TestFilesAreGenerated(t *testing.T) {
	var want []string
	for _, d := range grafana.Dashboards() {
		text, err := d.JSON()
		require.NoError(t, err)
		path := filepath.Join("dashboards", d.FileName())
		want = append(want, path)
		have, err := os.ReadFile(path)
		require.NoError(t, err, "run go generate ./grafana")
		require.Equal(t, string(text), string(have), "%s is out of date: run go generate ./grafana", path)
	}
	have, err := filepath.Glob("dashboards/*")
	require.NoError(t, err)
	require.ElementsMatch(t, want, have)
}

// TestShape checks requirements of Grafana on the JSON files.
func TestShape(t *testing.T) {
	uids, titles := map[string]bool{}, map[string]bool{}
	for _, d := range grafana.Dashboards() {
		text, err := os.ReadFile(filepath.Join("dashboards", d.FileName()))
		require.NoError(t, err)
		var raw map[string]any
		require.NoError(t, json.Unmarshal(text, &raw))
		require.Contains(t, raw, "id")
		require.Nil(t, raw["id"], "Grafana numbers dashboards")
		require.NotContains(t, raw, "__inputs", "Grafana does not prompt for inputs of provisioned dashboards")
		require.NotContains(t, string(text), "127.0.0.1", "no server's name")
		require.NotContains(t, string(text), "localhost", "no server's name")
		require.LessOrEqual(t, len(d.UID), 40, "longest uid")
		require.False(t, uids[d.UID] || titles[d.Title], "%s twice", d.Title)
		uids[d.UID], titles[d.Title] = true, true
		require.NotEmpty(t, d.Description)
		require.Equal(t, []string{"ds", "job", "instance"}, variableNames(d))
		checkGrid(t, &d)
	}
	require.Len(t, uids, 6)
}

func variableNames(d grafana.Dashboard) []string {
	var names []string
	for _, v := range d.Templating.List {
		names = append(names, v.Name)
	}
	return names
}

// checkGrid checks that ids are unique, that no panels overlap, and that all fit into the 24 columns.
func checkGrid(t *testing.T, d *grafana.Dashboard) {
	ids, taken := map[int]bool{}, map[[2]int]string{}
	for _, p := range d.Panels {
		require.Positive(t, p.ID)
		require.False(t, ids[p.ID], "%s: id %d twice", d.UID, p.ID)
		ids[p.ID] = true
		g := p.GridPos
		require.True(t, g.X >= 0 && g.Y >= 0 && g.W > 0 && g.H > 0 && g.X+g.W <= 24, "%s/%s: %+v", d.UID, p.Title, g)
		for x := g.X; x < g.X+g.W; x++ {
			for y := g.Y; y < g.Y+g.H; y++ {
				require.Empty(t, taken[[2]int{x, y}], "%s/%s overlaps", d.UID, p.Title)
				taken[[2]int{x, y}] = p.Title
			}
		}
	}
}

// units are the Grafana units that the dashboards use.
var units = []string{"none", "short", "bytes", "Bps", "s", "percentunit", "cps", "reqps"}

// TestPanels checks that every panel has a description, uses the chosen data source, and has a valid unit.
func TestPanels(t *testing.T) {
	for _, d := range grafana.Dashboards() {
		titles, row := map[string]bool{}, ""
		for _, p := range d.Panels {
			at := d.UID + "/" + p.Title
			require.NotEmpty(t, p.Title, at)
			if p.Type == "row" {
				row = p.Title
				continue
			}
			require.False(t, titles[row+"/"+p.Title], "%s twice", at)
			titles[row+"/"+p.Title] = true
			require.Contains(t, []string{"timeseries", "stat"}, p.Type, at)
			require.True(t, strings.HasSuffix(p.Description, "."), "%s: a description is a sentence", at)
			require.Contains(t, units, p.FieldConfig.Defaults.Unit, at)
			require.Equal(t, &grafana.Datasource{Type: "prometheus", UID: "${ds}"}, p.Datasource, at)
			require.NotEmpty(t, p.Targets, at)
			refs := map[string]bool{}
			for _, q := range p.Targets {
				require.Equal(t, p.Datasource, q.Datasource, at)
				require.False(t, refs[q.RefID], "%s: query %s twice", at, q.RefID)
				refs[q.RefID] = true
				require.NotEqual(t, q.Instant, q.Range, at)
				checkExpr(t, at, q)
			}
		}
	}
}

const rateInterval = 73 * time.Second

var legendLabel = regexp.MustCompile(`\{\{(\w+)\}\}`)

// checkExpr parses a query with its variables filled in: all selectors obey job and instance, all rates the interval
// that Grafana chooses, and the legend names labels that the result has.
func checkExpr(t *testing.T, at string, q grafana.Target) {
	text := strings.NewReplacer("$__rate_interval", rateInterval.String(), "$job", "JOB", "$instance", "INSTANCE").Replace(q.Expr)
	require.NotContains(t, text, "$", "%s: a variable that nobody fills in", at)
	expr, err := parser.NewParser(parser.Options{}).ParseExpr(text)
	require.NoError(t, err, "%s: %s", at, q.Expr)
	selectors := 0
	parser.Inspect(expr, func(node parser.Node, path []parser.Node) error {
		switch n := node.(type) {
		case *parser.VectorSelector:
			selectors++
			matchers := fmt.Sprint(n.LabelMatchers)
			require.Contains(t, matchers, `job=~"JOB"`, "%s: %s", at, n)
			require.Contains(t, matchers, `instance=~"INSTANCE"`, "%s: %s", at, n)
		case *parser.Call:
			if n.Func.Name == "rate" {
				require.Equal(t, rateInterval, n.Args[0].(*parser.MatrixSelector).Range, "%s: %s", at, n)
			}
		}
		return nil
	})
	require.Positive(t, selectors, at)
	for _, m := range legendLabel.FindAllStringSubmatch(q.LegendFormat, -1) {
		require.True(t, slices.Contains(groupings(expr), m[1]), "%s: the result of %s has no label %s", at, q.Expr, m[1])
	}
}

// groupings are the labels that aggregations of expr keep.
func groupings(expr parser.Expr) []string {
	var labels []string
	parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
		if a, ok := node.(*parser.AggregateExpr); ok {
			labels = append(labels, a.Grouping...)
		}
		return nil
	})
	return labels
}

// TestProvisioning: the compose file, the provisioning and the dashboards name the same places.
func TestProvisioning(t *testing.T) {
	read := func(path string) string {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		return string(text)
	}
	compose := read("compose.yaml")
	for path, name := range map[string]string{
		"provisioning/datasources/halite.yaml": "$HALITE_URL", "provisioning/dashboards/halite.yaml": "$HALITE_DASHBOARDS",
	} {
		require.Contains(t, read(path), name)
		require.Contains(t, compose, "\n      "+strings.TrimPrefix(name, "$")+": ")
	}
	for _, path := range []string{"./provisioning", "./dashboards", "./prometheus.yml"} {
		require.Contains(t, compose, path+":")
		_, err := os.Stat(path)
		require.NoError(t, err)
	}
	require.Contains(t, read("prometheus.yml"), "http://halite:9480/api/v1/write")
	require.Contains(t, read("provisioning/datasources/halite.yaml"), "type: prometheus")
}
