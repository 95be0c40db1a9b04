package bigtable

import (
	"fmt"
	"sort"
	"strings"
	"time"

	gcp "cloud.google.com/go/bigtable"

	"halite/storage"
)

const (
	// layoutVersion is the version of a TableSchema's layout in Bigtable. It is stored, see markPrefix.
	layoutVersion = "1"
	// markPrefix is the prefix of the empty family that marks a table as Halite's: halite.v1 or halite.v1.hours. No family of
	// the contract has a dot in its name.
	markPrefix    = "halite.v"
	markHourKeys  = ".hours"
	neverCollects = "never"
)

// markName returns the name of the marking family.
func markName(schema *storage.TableSchema) string {
	if schema.HourKeys {
		return markPrefix + layoutVersion + markHourKeys
	}
	return markPrefix + layoutVersion
}

// tableConf is the service's configuration for a new table.
func tableConf(id string, schema *storage.TableSchema) *gcp.TableConf {
	families := map[string]gcp.Family{markName(schema): {GCPolicy: gcp.NoGcPolicy()}}
	for _, f := range schema.Families {
		families[f.Name] = gcp.Family{GCPolicy: encodePolicy(f.GC), ValueType: encodeKind(f.Kind)}
	}
	return &gcp.TableConf{TableID: id, ColumnFamilies: families}
}

// encodeKind returns the type of an aggregate, and nil for a plain family.
func encodeKind(kind storage.FamilyKind) gcp.Type {
	var merge gcp.Aggregator
	switch kind {
	case storage.SumInt64:
		merge = gcp.SumAggregator{}
	case storage.MinInt64:
		merge = gcp.MinAggregator{}
	case storage.MaxInt64:
		merge = gcp.MaxAggregator{}
	default:
		return nil
	}
	return gcp.AggregateType{Input: gcp.Int64Type{Encoding: gcp.BigEndianBytesEncoding{}}, Aggregator: merge}
}

// decodeKind is the inverse of encodeKind. It fails for an aggregate that the contract does not have.
func decodeKind(t gcp.Type) (storage.FamilyKind, error) {
	aggregate, ok := t.(gcp.AggregateType)
	if !ok {
		return storage.Plain, nil
	}
	switch aggregate.Aggregator.(type) {
	case gcp.SumAggregator:
		return storage.SumInt64, nil
	case gcp.MinAggregator:
		return storage.MinInt64, nil
	case gcp.MaxAggregator:
		return storage.MaxInt64, nil
	}
	return 0, fmt.Errorf("%w: unknown aggregate %T", storage.ErrSchemaMismatch, aggregate.Aggregator)
}

// encodePolicy converts a policy for the service. The service counts in whole seconds, so ages are rounded up. Reads hide the
// garbage that the service keeps.
func encodePolicy(gc storage.GCPolicy) gcp.GCPolicy {
	var rules []gcp.GCPolicy
	if gc.MaxAge > 0 {
		seconds := (gc.MaxAge + time.Second - 1) / time.Second
		rules = append(rules, gcp.MaxAgePolicy(seconds*time.Second))
	}
	if gc.MaxVersions > 0 {
		rules = append(rules, gcp.MaxVersionsPolicy(gc.MaxVersions))
	}
	switch {
	case len(rules) == 0:
		return gcp.NoGcPolicy()
	case len(rules) == 1:
		return rules[0]
	case gc.Intersection:
		return gcp.IntersectionPolicy(rules...)
	}
	return gcp.UnionPolicy(rules...)
}

// decodePolicy is the inverse of encodePolicy. It fails for a policy of another shape, which another program has set.
func decodePolicy(p gcp.GCPolicy) (storage.GCPolicy, error) {
	var gc storage.GCPolicy
	rules := []gcp.GCPolicy{p}
	switch p := p.(type) {
	case gcp.UnionGCPolicy:
		rules = p.Children
	case gcp.IntersectionGCPolicy:
		rules, gc.Intersection = p.Children, true
	}
	for _, rule := range rules {
		switch rule := rule.(type) {
		case gcp.MaxAgeGCPolicy:
			gc.MaxAge = time.Duration(rule)
		case gcp.MaxVersionsGCPolicy:
			gc.MaxVersions = int(rule)
		default:
			if gcp.GetPolicyType(rule) != gcp.PolicyUnspecified {
				return gc, fmt.Errorf("%w: this server does not use the GC policy %q", storage.ErrSchemaMismatch, rule)
			}
		}
	}
	return gc, nil
}

// decodeSchema reads the schema of a table from the service's description. It fails with storage.ErrSchemaMismatch for a
// table of another program or version.
func decodeSchema(name string, info *gcp.TableInfo) (storage.TableSchema, error) {
	schema := storage.TableSchema{Name: name}
	mark := ""
	for _, f := range info.FamilyInfos {
		if strings.HasPrefix(f.Name, markPrefix) {
			mark = f.Name
			continue
		}
		kind, err := decodeKind(f.ValueType)
		if err != nil {
			return schema, fmt.Errorf("family %s: %w", f.Name, err)
		}
		gc, err := decodePolicy(f.FullGCPolicy)
		if err != nil {
			return schema, fmt.Errorf("family %s: %w", f.Name, err)
		}
		schema.Families = append(schema.Families, storage.Family{Name: f.Name, Kind: kind, GC: gc})
	}
	sort.Slice(schema.Families, func(i, j int) bool { return schema.Families[i].Name < schema.Families[j].Name })
	version, hours := strings.CutSuffix(strings.TrimPrefix(mark, markPrefix), markHourKeys)
	schema.HourKeys = hours
	switch {
	case mark == "":
		return schema, fmt.Errorf("%w: table %s was not made by this server (it has no family %s…): choose another instance "+
			"or table prefix", storage.ErrSchemaMismatch, name, markPrefix)
	case version != layoutVersion:
		return schema, fmt.Errorf("%w: table %s has layout version %q, this server reads only version %s: "+
			"use the server that wrote it, or migrate", storage.ErrSchemaMismatch, name, version, layoutVersion)
	}
	return schema, nil
}

// checkSchema compares an existing table with the wanted schema. GC policies may differ.
func checkSchema(have, want *storage.TableSchema) error {
	var faults []string
	if have.HourKeys != want.HourKeys {
		faults = append(faults, fmt.Sprintf("hour keys are %v, want %v", have.HourKeys, want.HourKeys))
	}
	for _, f := range want.Families {
		old, ok := have.Family(f.Name)
		switch {
		case !ok:
			faults = append(faults, fmt.Sprintf("family %s is missing", f.Name))
		case old.Kind != f.Kind:
			faults = append(faults, fmt.Sprintf("family %s has kind %d, want %d", f.Name, old.Kind, f.Kind))
		}
	}
	for _, f := range have.Families {
		if _, ok := want.Family(f.Name); !ok {
			faults = append(faults, fmt.Sprintf("family %s is unexpected", f.Name))
		}
	}
	if len(faults) > 0 {
		return fmt.Errorf("%w: table %s: %s", storage.ErrSchemaMismatch, want.Name, strings.Join(faults, "; "))
	}
	return nil
}

// createCommand returns the command for an administrator to create the table.
func (s *Store) createCommand(schema *storage.TableSchema) string {
	families := []string{markName(schema) + ":" + neverCollects}
	for _, f := range schema.Families {
		text := f.Name + ":" + policyText(f.GC)
		if kind := []string{"", ":intsum", ":intmin", ":intmax"}[f.Kind]; kind != "" {
			text += kind
		}
		families = append(families, text)
	}
	return fmt.Sprintf("cbt -project %s -instance %s createtable %s %q", s.opts.Project, s.opts.Instance, s.tableID(schema.Name),
		"families="+strings.Join(families, ","))
}

// policyCommand returns the command for an administrator to change a family's policy.
func (s *Store) policyCommand(table string, f storage.Family) string {
	return fmt.Sprintf("cbt -project %s -instance %s setgcpolicy %s %s %q", s.opts.Project, s.opts.Instance, s.tableID(table),
		f.Name, policyText(f.GC))
}

// policyText returns a policy in the syntax of the tool cbt.
func policyText(gc storage.GCPolicy) string {
	var rules []string
	if gc.MaxAge > 0 {
		rules = append(rules, fmt.Sprintf("maxage=%ds", (gc.MaxAge+time.Second-1)/time.Second))
	}
	if gc.MaxVersions > 0 {
		rules = append(rules, fmt.Sprintf("maxversions=%d", gc.MaxVersions))
	}
	if len(rules) == 0 {
		return neverCollects
	}
	join := "||"
	if gc.Intersection {
		join = "&&"
	}
	return strings.Join(rules, join)
}
