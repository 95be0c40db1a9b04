package rules

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"go.yaml.in/yaml/v3"

	"halite/keyschema"
)

// ErrNoTenants means that a configuration or a group names a tenant, and the server has none.
var ErrNoTenants = errors.New("the server has no --tenants")

// group is a group of a rule file as Prometheus defines it, with a tenant.
type group struct {
	rulefmt.RuleGroup `yaml:",inline"`

	Tenant yaml.Node `yaml:"tenant"`
}

type file struct {
	Groups []group `yaml:"groups"`
}

// groupTenants returns the tenants of the groups of a file that name one. The error lists unknown fields, or invalid names of
// tenants with line and column.
func groupTenants(content []byte) (map[string]string, error) {
	var f file
	decoder := yaml.NewDecoder(bytes.NewReader(content))
	decoder.KnownFields(true)
	if err := decoder.Decode(&f); err != nil && !errors.Is(err, io.EOF) {
		return nil, cmp.Or(durationFaults(content), err)
	}
	if err := requireOneDocument(decoder); err != nil {
		return nil, err
	}
	out := map[string]string{}
	var faults []error
	for _, g := range f.Groups {
		node := &g.Tenant
		if node.IsZero() {
			continue
		}
		err := keyschema.CheckTenant(node.Value)
		if node.Kind != yaml.ScalarNode || node.Tag == "!!null" {
			err = errors.New("want the name of a tenant")
		}
		if err != nil {
			faults = append(faults, fmt.Errorf("%d:%d: group %q, tenant: %w", node.Line, node.Column, g.Name, err))
		}
		out[g.Name] = node.Value
	}
	return out, errors.Join(faults...)
}

// durationFaults returns the invalid durations of a file with line and column, which the error of the YAML package lacks.
func durationFaults(content []byte) error {
	var doc yaml.Node
	if yaml.Unmarshal(content, &doc) != nil {
		return nil // the error of the YAML package has the line
	}
	var faults []error
	var visit func(n *yaml.Node)
	visit = func(n *yaml.Node) {
		if n.Kind != yaml.MappingNode {
			for _, child := range n.Content {
				visit(child)
			}
			return
		}
		for i := 0; i+1 < len(n.Content); i += 2 {
			switch key, value := n.Content[i].Value, n.Content[i+1]; key {
			case "interval", "query_offset", "for", "keep_firing_for":
				if _, err := model.ParseDuration(value.Value); err != nil && value.Kind == yaml.ScalarNode && value.Tag != "!!null" {
					faults = append(faults, fmt.Errorf("%d:%d: %s: %w", value.Line, value.Column, key, err))
				}
			case "labels", "annotations": // their keys are names of labels
			default:
				visit(value)
			}
		}
	}
	visit(&doc)
	return errors.Join(faults...)
}

// requireOneDocument refuses a second document, whose rules Prometheus's parser would leave out. The second one may be empty.
func requireOneDocument(decoder *yaml.Decoder) error {
	var more yaml.Node
	err := decoder.Decode(&more)
	switch {
	case errors.Is(err, io.EOF), err == nil && more.Content[0].Tag == "!!null":
		return nil
	case err != nil:
		return err
	}
	return fmt.Errorf("%d:%d: a second document begins; a rule file has one", more.Line, more.Column)
}

// Tenant returns the tenant of a group.
func (f *Files) Tenant(path, group string) string {
	return cmp.Or(f.tenants[groupKey{path, group}], keyschema.DefaultTenant)
}

// Tenants lists the tenants that groups name, sorted.
func (f *Files) Tenants() []string {
	return slices.Compact(slices.Sorted(maps.Values(f.tenants)))
}

// RequireNoTenants returns an error that wraps ErrNoTenants if a group names a tenant.
func (f *Files) RequireNoTenants() error {
	var faults []error
	for _, path := range f.Paths {
		for _, g := range f.Groups(path) {
			if tenant, named := f.tenants[groupKey{path, g.Name}]; named {
				faults = append(faults, fmt.Errorf("%s: group %q has the tenant %q: %w", path, g.Name, tenant, ErrNoTenants))
			}
		}
	}
	return errors.Join(faults...)
}
