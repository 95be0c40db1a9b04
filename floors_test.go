package halite_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// floors is the architecture in one table: a package may import packages of the module on strictly lower floors only.
// The numbers leave room for packages in between.
// External test packages (package x_test) may use any floor below the API's, whatever their own.
var floors = map[string]int{
	"keyschema":           0,
	"keyschema/column":    5,
	"keyschema/chunktest": -5,
	"keyschema/chunk":     10,
	"keyschema/daychunk":  15,
	"keyschema/histchunk": 15,
	"keyschema/exemplar":  15,
	"keyschema/tsuid":     0,
	"storage":             20,
	"storage/changes":     0,
	"storage/refresh":     0,
	"storage/periodic":    0,
	"storage/principal":   5,
	// The packages of the embedded engine. Only the engine itself imports them.
	"storage/pebble/cellkey":   21,
	"storage/pebble/health":    21,
	"storage/pebble/daycells":  22,
	"storage/pebble/partition": 22,
	"storage/pebble/fault":     22,
	"storage/pebble/treefs":    23,
	"storage/pebble/cursor":    23,
	"storage/pebble/tablet":    23,
	"storage/pebble/catalog":   24,
	"storage/pebble/recovery":  25,
	"storage/pebble":           30,
	"storage/bigtable":         30,
	// A Bigtable for tests and laptops. It does not import the contract.
	"storage/bigtable/emulator": 20,
	"storage/storagetest":       30,
	// The seeds of random tests. It lies below every other package, so that the tests of each may import it.
	"storage/storagetest/seeds":   -10,
	"storage/storagetest/crashfs": 0,
	"storage/jsoncell":            30,
	"storage/tombstone":           30,
	"storage/histmetrics":         30,
	"storage/notes":               40,
	"storage/index/sorted":        0,
	"storage/index/envelope":      30,
	"storage/index/valueid":       31,
	"storage/index/presence":      31,
	"storage/index/memory":        32,
	"storage/index/segment":       32,
	"storage/index/lookup":        33,
	"storage/index/journal":       33,
	"storage/index/rowscan":       34,
	"storage/index/compaction":    35,
	"storage/index/recovery":      36,
	"storage/index":               40,
	"storage/index/restricted":    41,
	"storage/retention":           40,
	"storage/lease":               40,
	"storage/tenants":             40,
	"storage/widerows":            40,
	"storage/tabletevents":        40,
	"storage/keyviz/heat":         5,
	"storage/keyviz/ranges":       10,
	"storage/keyviz":              40,
	"storage/keyviz/diagnosis":    41,
	"storage/aliases":             40,
	"storage/keyviz/replay":       41,
	"rollup":                      0,
	"rollup/histograms":           16,
	"rollup/cell":                 20,
	"rollup/rolluptest":           10,
	"rollup/store":                40,
	"rollup/job":                  50,
	"ingest/ingesttest":           60,
	"ingest/ratelimit":            0,
	"ingest/tenantlimits":         10,
	"ingest/wal/record":           0,
	"ingest/wal":                  50,
	"ingest/head":                 60,
	"ingest/remotewrite":          60,
	"ingest/identity":             60,
	"ingest/batch":                65,
	"ingest/batch/batchtest":      66,
	"ingest/hatracker":            50,
	"ingest/relabel":              65,
	"ingest/replay":               65,
	"ingest/flush":                70,
	"ingest/deletion":             75,
	"ingest/direct/compactor":     70,
	"ingest/direct":               85,
	"ingest":                      80,
	"query/budget":                50,
	"query/column":                50,
	"query/hours":                 50,
	"query/rowcache":              60,
	"query/read":                  62,
	"query/read/rollups":          64,
	"query/read/readtest":         64,
	"query/promadapter":           65,
	"query/columnar/grid":         63,
	"query/columnar/window":       66,
	"query/columnar/accumulate":   67,
	"query/columnar/operator":     68,
	"query/columnar":              70,
	"query/expression":            70,
	"query/resultcache":           75,
	"query/limits":                10,
	"query/querylog":              0,
	"query/topqueries":            0,
	"query/lastread":              0,
	"query":                       80,
	"query/opentsdb/aggregation":  0,
	"query/opentsdb/expression":   5,
	"query/opentsdb/request":      10,
	"query/opentsdb/translation":  12,
	"query/opentsdb":              82,
	"api/promjson":                0,
	"api/ui":                      0,
	"api/remote":                  0,
	"api/netlimit":                10,
	"api/senders":                 85,
	"api/auth":                    85,
	"api/tenancy":                 84,
	"api/tenantadmin":             86,
	"api/rules":                   85,
	"api/receiver":                86,
	"api/receiver/exposition":     87,
	"api/receiver/influx":         87,
	"api/receiver/jsonl":          87,
	"api/receiver/csv":            87,
	"api/receiver/otlp":           87,
	"api/receiver/opentsdb":       87,
	"api/keyviz":                  86,
	"api/tablets":                 86,
	"api/doctor":                  85,
	"api/doctor/facts":            88,
	"api/status":                  87,
	"api/opentsdb":                88,
	"api/opentsdb/stats":          0,
	"api/opentsdb/querystats":     0,
	"api/opentsdb/telnet":         88,
	"api/opentsdb/queries":        89,
	"api":                         90,
	// A client of a server in another process. Of the packages outside loadtest, it imports only the keys.
	"loadtest/acked":        0,
	"loadtest/measure":      0,
	"loadtest/fleet":        10,
	"loadtest/client":       10,
	"loadtest/load":         20,
	"loadtest/verify":       30,
	"loadtest/distribution": 30,
	"loadtest/probe":        30,
	"loadtest/report":       40,
	"loadtest":              90,
	// Arithmetic and simulation of loads in Bigtable. It imports no other package.
	"loadtest/plan": 0,
	// What the API's tests send to Prometheus and to us; nothing else imports it.
	"api/internal/comparison": 80,
	// Dashboards as data; the test of cmd/tsdb asks a server for them.
	"grafana":          0,
	"grafana/generate": 10,
	// The data directory and the tables in it, for the server and for the commands that work without it.
	"cmd/tsdb/internal/config":         91,
	"cmd/tsdb/internal/datadir":        91,
	"cmd/tsdb/internal/program":        91,
	"cmd/tsdb/internal/requestlimits":  92,
	"cmd/tsdb/internal/tables":         92,
	"cmd/tsdb/internal/client":         93,
	"cmd/tsdb/internal/backup":         92,
	"cmd/tsdb/internal/rules":          92,
	"cmd/tsdb/internal/tools":          94,
	"cmd/tsdb/internal/opentsdb":       91,
	"cmd/tsdb/internal/transfer":       94,
	"cmd/tsdb/internal/opentsdb/tools": 95,
	"cmd/tsdb/internal/backfill":       95,
	"cmd/tsdb/internal/keyaudit":       95,
	"cmd/tsdb":                         100,
}

// engines fulfil storage's contract; only packages below engineAllowed pick one. An engine's own packages lie in its folder.
var engines = []string{"storage/pebble", "storage/bigtable"}

// walls are pairs of folders that never import each other, whatever their floors.
var walls = [][2]string{{"ingest", "query"}}

// topFolders are the only folders at the root; a new one needs its reason in ARCHITECTURE.md.
var topFolders = []string{
	"api", "cmd", "docs", "grafana", "ingest", "keyschema", "loadtest", "packaging", "query", "rollup", "storage",
}

const (
	apiFloor      = 90
	funcLinesMax  = 70
	fileLinesMax  = 800
	lineRunesMax  = 130
	modulePrefix  = "halite/"
	engineAllowed = "cmd/tsdb"
)

func TestTopFolders(t *testing.T) {
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		name := e.Name()
		made := []string{"data", "bin", "dist"} // by running and building
		if e.IsDir() && !strings.HasPrefix(name, ".") && !slices.Contains(topFolders, name) && !slices.Contains(made, name) {
			t.Errorf("top-level folder %q has no place in the architecture", name)
		}
	}
}

func TestImportsPointDown(t *testing.T) {
	seen := 0
	for _, f := range goFiles(t) {
		pkg := filepath.ToSlash(filepath.Dir(f.path))
		if pkg == "." {
			continue
		}
		floor, ok := floors[pkg]
		if !ok {
			t.Errorf("%s: package %q has no floor", f.path, pkg)
			continue
		}
		external := strings.HasSuffix(f.ast.Name.Name, "_test")
		for _, imp := range f.ast.Imports {
			target, ours := strings.CutPrefix(strings.Trim(imp.Path.Value, `"`), modulePrefix)
			if !ours || target == pkg {
				continue
			}
			seen++
			checkImport(t, f.path, pkg, target, floor, external)
		}
	}
	if seen < 10 {
		t.Errorf("only %d imports within the module seen: the walk is broken", seen)
	}
}

func checkImport(t *testing.T, path, pkg, target string, floor int, external bool) {
	t.Helper()
	targetFloor, ok := floors[target]
	switch {
	case !ok:
		t.Errorf("%s imports %q, which has no floor", path, target)
	case external && (targetFloor < apiFloor || target == pkg):
		return
	case targetFloor >= floor:
		t.Errorf("%s (floor %d) imports %s (floor %d): imports point strictly down", path, floor, target, targetFloor)
	case !within(pkg, engineAllowed) && !strings.HasSuffix(path, "_test.go") && importsEngine(pkg, target):
		t.Errorf("%s imports an engine: only packages below %s may", path, engineAllowed)
	}
	for _, w := range walls {
		a, b := within(pkg, w[0]), within(pkg, w[1])
		if a && within(target, w[1]) || b && within(target, w[0]) {
			t.Errorf("%s imports %s: %s and %s never import each other", path, target, w[0], w[1])
		}
	}
}

// importsEngine reports whether target belongs to an engine without pkg.
func importsEngine(pkg, target string) bool {
	return slices.ContainsFunc(engines, func(engine string) bool { return within(target, engine) && !within(pkg, engine) })
}

func within(pkg, folder string) bool {
	return pkg == folder || strings.HasPrefix(pkg, folder+"/")
}

func TestEveryPackageHasDoc(t *testing.T) {
	for pkg := range floors {
		if _, err := os.Stat(filepath.Join(pkg, "doc.go")); err != nil {
			t.Errorf("%s: %v", pkg, err)
		}
	}
}

// TestLengths keeps code readable: a function fits on a screen, a file in one sitting.
func TestLengths(t *testing.T) {
	for _, f := range goFiles(t) {
		lines := strings.Split(string(f.src), "\n")
		if len(lines) > fileLinesMax {
			t.Errorf("%s: %d lines, at most %d", f.path, len(lines), fileLinesMax)
		}
		for i, line := range lines {
			if n := len([]rune(line)); n > lineRunesMax {
				t.Errorf("%s:%d: %d characters, at most %d", f.path, i+1, n, lineRunesMax)
			}
		}
		for _, d := range f.ast.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Body == nil {
				continue
			}
			if n := f.fset.Position(fn.End()).Line - f.fset.Position(fn.Pos()).Line + 1; n > funcLinesMax {
				t.Errorf("%s: function %s has %d lines, at most %d", f.path, fn.Name.Name, n, funcLinesMax)
			}
		}
	}
}

// TestNoUnfinishedWords keeps promises of later work out of the tree.
func TestNoUnfinishedWords(t *testing.T) {
	banned := []string{"TO" + "DO", "FIX" + "ME", "not impl" + "emented"}
	for _, f := range goFiles(t) {
		for _, word := range banned {
			if strings.Contains(string(f.src), word) {
				t.Errorf("%s contains %q", f.path, word)
			}
		}
	}
}

type goFile struct {
	path string
	src  []byte
	fset *token.FileSet
	ast  *ast.File
}

func goFiles(t *testing.T) []goFile {
	t.Helper()
	var files []goFile
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		module := path == "packaging" // a module of its own
		if d.IsDir() && (strings.HasPrefix(d.Name(), ".") && path != "." || path == "data" || d.Name() == "testdata" ||
			d.Name() == "node_modules" || module) {
			return filepath.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(path, ".go") {
			return nil
		}
		src, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, path, src, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		files = append(files, goFile{path: path, src: src, fset: fset, ast: file})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}
