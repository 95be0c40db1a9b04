package bigtable

import (
	"bytes"
	"slices"
	"strings"
	"time"

	gcp "cloud.google.com/go/bigtable"

	"halite/storage"
)

const (
	// filterBytesMax is the service's limit for a filter, minus a reserve for the encoding.
	filterBytesMax = 20<<10 - 1<<10
	// filterPushBytesMax bounds the qualifier bounds that a read sends. The engine applies longer bounds itself.
	filterPushBytesMax = 4 << 10
)

// scanPlan divides a filter into the part that the service applies and the part that the engine applies.
type scanPlan struct {
	filter gcp.Filter // nil passes all cells
	// empty means that no cell can pass.
	empty bool
	// exact means that the service returns exactly the rows with a passing cell, so it may count them.
	exact bool
	// raw means that the engine applies no rules, and the caller gets the cells as the service returns them.
	raw bool
	// rules by family name. Cells of a family without a rule do not pass.
	rules map[string]familyRule
	want  storage.Filter
}

// familyRule specifies which cells of one family are hidden.
type familyRule struct {
	gc       storage.GCPolicy
	cutoffMs int64
}

// planScan splits a filter and the GC policies at the time now into a filter for the service and rules for the engine.
// Qualifier bounds go to the service while the filter stays below bytesMax.
func planScan(schema *storage.TableSchema, f storage.Filter, now time.Time, bytesMax int) scanPlan {
	p := scanPlan{want: f, exact: true, rules: map[string]familyRule{}}
	if len(f.QualifierEnd) > 0 && bytes.Compare(f.QualifierStart, f.QualifierEnd) >= 0 ||
		f.ToMs != 0 && f.FromMs >= f.ToMs || f.FromMs > storage.TsMsMax {
		p.empty = true
		return p
	}
	var names []string
	for _, family := range schema.Families {
		if len(f.Families) > 0 && !slices.Contains(f.Families, family.Name) {
			continue
		}
		p.rules[family.Name] = familyRule{gc: family.GC, cutoffMs: family.GC.CutoffMs(now)}
		names = append(names, family.Name)
	}
	if len(names) == 0 {
		p.empty = true
		return p
	}
	slices.Sort(names)
	bounded := len(f.QualifierStart) > 0 || len(f.QualifierEnd) > 0
	if bounded && len(names)*(len(f.QualifierStart)+len(f.QualifierEnd)+64) > bytesMax {
		bounded, p.exact = false, false
	}
	p.filter = p.serverFilter(names, len(names) == len(schema.Families), bounded)
	return p
}

// serverFilter builds one chain for each group of families with the same rule. With qualifier bounds it builds one for each
// family, because the service bounds qualifiers by family.
func (p *scanPlan) serverFilter(names []string, all, bounded bool) gcp.Filter {
	var chains []gcp.Filter
	for len(names) > 0 {
		rule := p.rules[names[0]]
		var group, rest []string
		for _, name := range names {
			if p.rules[name] == rule && (!bounded || len(group) == 0) {
				group = append(group, name)
			} else {
				rest = append(rest, name)
			}
		}
		var chain []gcp.Filter
		switch {
		case bounded:
			chain = append(chain, gcp.ColumnRangeFilter(group[0], string(p.want.QualifierStart), string(p.want.QualifierEnd)))
		case !all || len(rest) > 0 || len(chains) > 0:
			// Names consist of [a-z0-9_], so nothing needs escaping.
			chain = append(chain, gcp.FamilyFilter(strings.Join(group, "|")))
		}
		chains = append(chains, chainOf(append(chain, p.cellFilters(rule)...)))
		names = rest
	}
	var whole gcp.Filter
	if len(chains) > 1 {
		whole = gcp.InterleaveFilters(chains...)
	} else {
		whole = chains[0]
	}
	if !p.want.KeysOnly {
		return whole
	}
	if whole == nil {
		return gcp.StripValueFilter()
	}
	return gcp.ChainFilters(whole, gcp.StripValueFilter())
}

// chainOf joins filters into a chain. Without filters it returns nil.
func chainOf(filters []gcp.Filter) gcp.Filter {
	switch len(filters) {
	case 0:
		return nil
	case 1:
		return filters[0]
	}
	return gcp.ChainFilters(filters...)
}

// cellFilters returns filters of times and versions for the part of the rule that the service can apply.
func (p *scanPlan) cellFilters(rule familyRule) []gcp.Filter {
	var out []gcp.Filter
	fromMs, toMs, versions := p.want.FromMs, p.want.ToMs, p.want.VersionsMax
	if toMs > storage.TsMsMax {
		toMs = 0
	}
	// The service cannot apply a policy that needs both an old cell and enough newer versions.
	if gc := rule.gc; !gc.Intersection || gc.MaxAge <= 0 || gc.MaxVersions <= 0 {
		fromMs = max(fromMs, rule.cutoffMs)
		if gc.MaxVersions > 0 && (versions == 0 || gc.MaxVersions < versions) {
			versions = gc.MaxVersions
		}
	}
	switch {
	case fromMs > storage.TsMsMax || toMs != 0 && fromMs >= toMs:
		return append(out, gcp.BlockAllFilter())
	case fromMs > 0 || toMs > 0:
		out = append(out, gcp.TimestampRangeFilterMicros(micros(fromMs), micros(toMs)))
	}
	if versions > 0 {
		out = append(out, gcp.LatestNFilter(versions))
	}
	return out
}

// decodeRow converts a row of the client: families in order, visible cells only. The row has no cells if none is visible.
func (p *scanPlan) decodeRow(row gcp.Row) storage.Row {
	out := storage.Row{Key: []byte(row.Key())}
	names := make([]string, 0, len(row))
	cells, qualifierBytes := 0, 0
	for name, items := range row {
		names = append(names, name)
		cells += len(items)
		for i := range items {
			qualifierBytes += len(items[i].Column) - len(name) - 1
		}
	}
	slices.Sort(names)
	out.Cells = make([]storage.Cell, 0, cells)
	arena := make([]byte, 0, qualifierBytes)
	for _, name := range names {
		first := len(out.Cells)
		for i := range row[name] {
			item := &row[name][i]
			start := len(arena)
			arena = append(arena, item.Column[len(name)+1:]...)
			out.Cells = append(out.Cells, storage.Cell{Family: name, Qualifier: arena[start:len(arena):len(arena)],
				TsMs: int64(item.Timestamp) / 1000, Value: item.Value[:len(item.Value):len(item.Value)]})
		}
		if !p.raw {
			out.Cells = append(out.Cells[:first], p.visible(name, out.Cells[first:])...)
		}
	}
	return out
}

// visible filters the cells of one family in place, exactly as the contract requires. The service has filtered most of them.
func (p *scanPlan) visible(family string, cells []storage.Cell) []storage.Cell {
	rule, ok := p.rules[family]
	if !ok {
		return nil
	}
	f := &p.want
	kept := cells[:0]
	var column []byte
	newer, passed, lastMs := 0, 0, int64(-1)
	for i, c := range cells {
		if c.TsMs < f.FromMs || f.ToMs != 0 && c.TsMs >= f.ToMs {
			continue
		}
		switch {
		case i == 0 || lastMs < 0 || !bytes.Equal(c.Qualifier, column):
			column, newer, passed = c.Qualifier, 0, 0
		case c.TsMs == lastMs:
			continue // the cell passed two branches of the filter, or an emulator returned it twice
		default:
			newer++
		}
		lastMs = c.TsMs
		if rule.gc.Garbage(c.TsMs, rule.cutoffMs, newer) || bytes.Compare(c.Qualifier, f.QualifierStart) < 0 ||
			len(f.QualifierEnd) > 0 && bytes.Compare(c.Qualifier, f.QualifierEnd) >= 0 {
			continue
		}
		passed++
		if f.VersionsMax > 0 && passed > f.VersionsMax {
			continue
		}
		if f.KeysOnly {
			c.Value = nil
		}
		kept = append(kept, c)
	}
	return kept
}
