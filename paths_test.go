package halite_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestPathsName checks docs/design/paths.md: each function that it lists exists in its file, and the headings have the sums.
func TestPathsName(t *testing.T) {
	text, err := os.ReadFile("docs/design/paths.md")
	if err != nil {
		t.Fatal(err)
	}
	quoted := regexp.MustCompile("`([^`]+)`")
	heading, functions, files := "", 0, 0
	check := func() {
		if sum := fmt.Sprintf("%d functions in %d files", functions, files); heading != "" && !strings.HasSuffix(heading, sum) {
			t.Errorf("docs/design/paths.md: the heading %q must end with %q", heading, sum)
		}
		functions, files = 0, 0
	}
	sections := 0
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "## ") {
			check()
			heading = line
			sections++
		}
		cells := strings.Split(line, "|")
		if len(cells) < 4 || !strings.Contains(cells[1], ".go`") {
			continue
		}
		files++
		path := strings.Trim(cells[1], " `")
		declared := declaredFunctions(t, path)
		for _, name := range quoted.FindAllStringSubmatch(cells[2], -1) {
			functions++
			if !declared[name[1]] {
				t.Errorf("docs/design/paths.md: %s has no function %s", path, name[1])
			}
		}
	}
	check()
	if sections != 2 {
		t.Errorf("docs/design/paths.md has %d sections, a write and a query are 2", sections)
	}
}

// declaredFunctions returns the names of the functions and methods of a file.
func declaredFunctions(t *testing.T, path string) map[string]bool {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, d := range file.Decls {
		if f, ok := d.(*ast.FuncDecl); ok {
			names[f.Name.Name] = true
		}
	}
	return names
}

// TestArchitecturePaths checks the table of ARCHITECTURE.md that says where changes go: each path in it exists.
func TestArchitecturePaths(t *testing.T) {
	text, err := os.ReadFile("ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, found := strings.Cut(string(text), "## Where changes go")
	table, _, ended := strings.Cut(table, "\n## ")
	if !found || !ended {
		t.Fatal("ARCHITECTURE.md has no section \"Where changes go\" before another section")
	}
	paths := regexp.MustCompile("`([a-zA-Z0-9_.]+/[a-zA-Z0-9_./]+)`").FindAllStringSubmatch(table, -1)
	if len(paths) < 50 {
		t.Errorf("only %d paths found: the search is broken", len(paths))
	}
	for _, p := range paths {
		if _, err := os.Stat(p[1]); err != nil {
			t.Errorf("ARCHITECTURE.md: %v", err)
		}
	}
}
