package rules

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/prometheus/prometheus/model/rulefmt"
	"go.yaml.in/yaml/v3"

	"halite/keyschema"
)

// ErrNoTenants means that a group names a tenant, and the server has none.
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
