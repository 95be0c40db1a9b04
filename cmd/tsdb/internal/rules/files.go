package rules

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
)

const (
	// FileBytesMax bounds a rule file.
	FileBytesMax = 16 << 20
	// FilesMax bounds the rule files that all patterns together match.
	FilesMax = 10_000
)

var (
	// ErrFileBytes means that a rule file is longer than FileBytesMax.
	ErrFileBytes = fmt.Errorf("the file has more than %d bytes", FileBytesMax)
	// ErrFiles means that patterns match more files than FilesMax.
	ErrFiles = fmt.Errorf("the patterns match more than %d rule files", FilesMax)
)

// Files are rule files as they were read once. The rule manager loads its groups from them.
type Files struct {
	// Paths are in the order of the patterns, and sorted within a pattern. They are absolute.
	Paths  []string
	groups map[string]*rulefmt.RuleGroups
	// tenants has the tenant of each group that names one, by path and name.
	tenants map[groupKey]string
	parser  parser.Parser
}

// groupKey names a group.
type groupKey struct{ path, name string }

// ReadFiles reads all files that the patterns match. A pattern without * ? [ must match. The error lists the faults of all files,
// each with file, line and column.
func ReadFiles(patterns []string, p parser.Parser) (*Files, error) {
	f := &Files{groups: make(map[string]*rulefmt.RuleGroups), tenants: make(map[groupKey]string), parser: p}
	if err := f.match(patterns); err != nil {
		return nil, err
	}
	var faults []error
	for _, path := range f.Paths {
		if err := f.read(path); err != nil {
			faults = append(faults, err)
		}
	}
	return f, errors.Join(faults...)
}

// match finds the files of patterns.
func (f *Files) match(patterns []string) error {
	for _, pattern := range patterns {
		pattern, err := filepath.Abs(pattern)
		if err != nil {
			return fmt.Errorf("rule files %q: %w", pattern, err)
		}
		paths, err := filepath.Glob(pattern)
		if err != nil {
			return fmt.Errorf("rule files %q: %w", pattern, err)
		}
		if len(paths) == 0 && !strings.ContainsAny(pattern, `*?[\`) {
			return fmt.Errorf("rule file %s: %w", pattern, os.ErrNotExist)
		}
		for _, path := range paths {
			if !slices.Contains(f.Paths, path) {
				f.Paths = append(f.Paths, path)
			}
		}
		if len(f.Paths) > FilesMax {
			return ErrFiles
		}
	}
	return nil
}

// read reads a file.
func (f *Files) read(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	content, err := io.ReadAll(io.LimitReader(file, FileBytesMax+1))
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	groups, tenants, err := parseFile(path, content, f.parser)
	if err != nil {
		return err
	}
	f.groups[path] = groups
	for name, tenant := range tenants {
		f.tenants[groupKey{path, name}] = tenant
	}
	return nil
}

// parseFile parses the content of a rule file. It also returns the tenants of the groups that name one. The error lists all
// faults with the path.
func parseFile(
	path string, content []byte, p parser.Parser,
) (groups *rulefmt.RuleGroups, tenants map[string]string, err error) {
	if len(content) > FileBytesMax {
		return nil, nil, fmt.Errorf("%s: %w", path, ErrFileBytes)
	}
	if tenants, err = groupTenants(content); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	// Prometheus does not know the field tenant. groupTenants has refused all other unknown fields.
	groups, errs := rulefmt.Parse(content, true, model.UTF8Validation, p, slog.New(slog.DiscardHandler))
	if len(errs) > 0 {
		for i, err := range errs {
			errs[i] = fmt.Errorf("%s: %w", path, err)
		}
		return nil, nil, errors.Join(errs...)
	}
	return groups, tenants, nil
}

// Groups returns the groups of a file.
func (f *Files) Groups(path string) []rulefmt.RuleGroup { return f.groups[path].Groups }

// Load returns the groups of a file that belong to a tenant.
func (f *Files) Load(path, tenant string) (*rulefmt.RuleGroups, []error) {
	groups, ok := f.groups[path]
	if !ok {
		return nil, []error{fmt.Errorf("rule file %s: %w", path, os.ErrNotExist)}
	}
	own := slices.DeleteFunc(slices.Clone(groups.Groups), func(g rulefmt.RuleGroup) bool { return f.Tenant(path, g.Name) != tenant })
	return &rulefmt.RuleGroups{Groups: own}, nil
}

// Parse parses an expression.
func (f *Files) Parse(query string) (parser.Expr, error) { return f.parser.ParseExpr(query) }

// Count returns the number of groups, recording rules and alerting rules.
func (f *Files) Count() (groups, recording, alerting int) {
	for _, file := range f.groups {
		for _, g := range file.Groups {
			groups++
			for i := range g.Rules {
				if g.Rules[i].Alert != "" {
					alerting++
				} else {
					recording++
				}
			}
		}
	}
	return groups, recording, alerting
}

// Summary says what the files hold.
func (f *Files) Summary() string {
	groups, recording, alerting := f.Count()
	return fmt.Sprintf("%d rule files with %d groups, %d recording rules, %d alerting rules",
		len(f.Paths), groups, recording, alerting)
}
