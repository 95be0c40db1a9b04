package halite_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// packageSize holds the two figures of a package that the ratchets bound.
type packageSize struct {
	files int // without tests
	knot  int // files of the largest knot
}

// filesMax and knotMax hold for every package that has no ratchet.
const (
	filesMax = 20
	knotMax  = 8
)

// stiltedPhrasesMax only ever gets smaller.
const stiltedPhrasesMax = 0

// ratchets are the packages that are still too large. A figure here only ever gets smaller.
var ratchets = map[string]packageSize{}

// listedPackage is the part of `go list -json` that the ratchets read.
type listedPackage struct {
	ImportPath string
	Dir        string
	Export     string
	GoFiles    []string
	Module     *struct{ Main bool }
}

// listPackages returns all packages of the module and their dependencies, with export data from the build cache.
func listPackages(t *testing.T) []listedPackage {
	t.Helper()
	cmd := exec.Command("go", "list", "-export", "-deps", "-json=ImportPath,Dir,Export,GoFiles,Module", "./...")
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var packages []listedPackage
	for dec := json.NewDecoder(out); ; {
		var p listedPackage
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		packages = append(packages, p)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	return packages
}

// fileGraph maps each file of a package to the other files of it whose declarations it uses.
func fileGraph(p listedPackage, lookup importer.Lookup) (map[string][]string, error) {
	fset := token.NewFileSet()
	var files []*ast.File
	for _, name := range p.GoFiles {
		f, err := parser.ParseFile(fset, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	info := &types.Info{Uses: make(map[*ast.Ident]types.Object), Selections: make(map[*ast.SelectorExpr]*types.Selection)}
	conf := types.Config{Importer: importer.ForCompiler(fset, "gc", lookup)}
	pkg, err := conf.Check(p.ImportPath, fset, files, info)
	if err != nil {
		return nil, err
	}
	graph := make(map[string][]string, len(files))
	for _, name := range p.GoFiles {
		graph[name] = nil
	}
	for ident, obj := range info.Uses {
		if obj.Pkg() != pkg || !declaredInFile(obj, pkg) {
			continue
		}
		from, to := filepath.Base(fset.Position(ident.Pos()).Filename), filepath.Base(fset.Position(obj.Pos()).Filename)
		if from != to && !slices.Contains(graph[from], to) {
			graph[from] = append(graph[from], to)
		}
	}
	return graph, nil
}

// declaredInFile reports whether obj is a package-level declaration, a method or a field.
func declaredInFile(obj types.Object, pkg *types.Package) bool {
	if obj.Parent() == pkg.Scope() {
		return true
	}
	switch o := obj.(type) {
	case *types.Func:
		return true
	case *types.Var:
		return o.IsField()
	}
	return false
}

// largestKnot returns the largest strongly connected set of files: each uses each other, directly or through others.
func largestKnot(graph map[string][]string) []string {
	t := tarjan{graph: graph, index: make(map[string]int), low: make(map[string]int), onStack: make(map[string]bool)}
	names := make([]string, 0, len(graph))
	for name := range graph {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		if _, seen := t.index[name]; !seen {
			t.visit(name)
		}
	}
	return t.largest
}

// tarjan is the state of Tarjan's algorithm for strongly connected components.
type tarjan struct {
	graph      map[string][]string
	index, low map[string]int
	onStack    map[string]bool
	stack      []string
	largest    []string
}

func (t *tarjan) visit(v string) {
	t.index[v] = len(t.index)
	t.low[v] = t.index[v]
	t.stack = append(t.stack, v)
	t.onStack[v] = true
	for _, w := range t.graph[v] {
		if _, seen := t.index[w]; !seen {
			t.visit(w)
			t.low[v] = min(t.low[v], t.low[w])
		} else if t.onStack[w] {
			t.low[v] = min(t.low[v], t.index[w])
		}
	}
	if t.low[v] != t.index[v] {
		return
	}
	at := slices.Index(t.stack, v)
	component := slices.Clone(t.stack[at:])
	for _, w := range component {
		t.onStack[w] = false
	}
	t.stack = t.stack[:at]
	if len(component) > len(t.largest) {
		t.largest = component
	}
}

// TestKnots keeps packages small and layered inside. It fails if a package has more files than allowed, or a larger knot:
// files that all use each other, directly or through others.
func TestKnots(t *testing.T) {
	packages := listPackages(t)
	exports := make(map[string]string, len(packages))
	for _, p := range packages {
		exports[p.ImportPath] = p.Export
	}
	lookup := func(path string) (io.ReadCloser, error) {
		if exports[path] == "" {
			return nil, fmt.Errorf("no export data for %q", path)
		}
		return os.Open(exports[path])
	}
	seen := 0
	for _, p := range packages {
		if p.Module == nil || !p.Module.Main || len(p.GoFiles) == 0 {
			continue
		}
		seen++
		folder := strings.TrimPrefix(p.ImportPath, modulePrefix)
		graph, err := fileGraph(p, lookup)
		if err != nil {
			t.Errorf("%s: %v", folder, err)
			continue
		}
		knot := largestKnot(graph)
		slices.Sort(knot)
		allowed := packageSize{files: max(filesMax, ratchets[folder].files), knot: max(knotMax, ratchets[folder].knot)}
		if len(p.GoFiles) > allowed.files {
			t.Errorf("%s has %d files, at most %d: split it by idea", folder, len(p.GoFiles), allowed.files)
		}
		if len(knot) > allowed.knot {
			t.Errorf("%s: %d files use each other in a circle, at most %d: %s", folder, len(knot), allowed.knot,
				strings.Join(knot, " "))
		}
		if r, ok := ratchets[folder]; ok && (len(p.GoFiles) < r.files || len(knot) < r.knot) {
			t.Logf("%s now has %d files and a knot of %d: lower its ratchet", folder, len(p.GoFiles), len(knot))
		}
	}
	if seen < 10 {
		t.Errorf("only %d packages seen: the walk is broken", seen)
	}
}

// TestLargestKnot checks the algorithm on a graph whose response is plain.
func TestLargestKnot(t *testing.T) {
	graph := map[string][]string{"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": {"e"}, "e": {"d"}, "f": {"a"}}
	knot := largestKnot(graph)
	slices.Sort(knot)
	if got := strings.Join(knot, ""); got != "abc" {
		t.Errorf("largest knot is %q, want abc", got)
	}
}

// stiltedPhrases make a reader stop. Most hide who does what, or leave a relative clause without its noun.
var stiltedPhrases = regexp.MustCompile(`(?i)\b(anew|so many|in vain|by and by|(is|are|was|were) told|tells? of|of which|` +
	`what of|that of|those of|as of|none of them|at latest|lets? others|is said|is not (known|asked))\b`)

// TestStiltedPhrases keeps comments, messages and documents in plain English.
func TestStiltedPhrases(t *testing.T) {
	count := 0
	for _, path := range textFiles(t) {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, at := range stiltedPhrases.FindAllIndex(text, -1) {
			count++
			if testing.Verbose() {
				t.Logf("%s:%d: %q", path, 1+bytes.Count(text[:at[0]], []byte("\n")), text[at[0]:at[1]])
			}
		}
	}
	if count > stiltedPhrasesMax {
		t.Errorf("%d stilted phrases, at most %d; go test -v -run TestStiltedPhrases . lists them", count, stiltedPhrasesMax)
	}
}

// textFiles lists the Go files and documents of the tree, but for this file, which names the phrases.
func textFiles(t *testing.T) []string {
	t.Helper()
	var paths []string
	for _, f := range goFiles(t) {
		if f.path != "ratchet_test.go" {
			paths = append(paths, f.path)
		}
	}
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if d != nil && d.Name() == "node_modules" {
			return fs.SkipDir
		}
		if err == nil && !d.IsDir() && strings.HasSuffix(path, ".md") {
			paths = append(paths, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return paths
}
