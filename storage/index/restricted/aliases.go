package restricted

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"

	"halite/keyschema"
	"halite/storage/aliases"
	"halite/storage/index"
	"halite/storage/index/presence"
	"halite/storage/principal"
)

// stretch is a part of a window in which the same aliases apply.
type stretch struct {
	mintMs, maxtMs int64
	// firstHour and lastHour bound the hours in which the same aliases apply. They may lie outside the window.
	firstHour, lastHour int64
	names               *aliases.Names // nil if no alias applies
	aliases.Selection
}

// stretches divides a window at each change of aliases. It returns one stretch if no alias applies to the selector.
func (x *Index) stretches(s *principal.Selector, mintMs, maxtMs int64) []stretch {
	whole := []stretch{{
		mintMs: mintMs, maxtMs: maxtMs, lastHour: keyschema.HourMax,
		Selection: aliases.Selection{Selectors: [][]*labels.Matcher{s.Matchers}, Unchanged: true},
	}}
	set := x.aliases.ForTenant(keyschema.TenantOf(s.Prefix))
	if set == nil || mintMs > maxtMs {
		return whole
	}
	requested, own := s.Split()
	var out []stretch
	changed := false
	first, last := keyschema.HourOf(max(0, mintMs)), keyschema.HourOf(min(max(0, maxtMs), keyschema.TimeMaxMs))
	for _, p := range set.Between(first, last) {
		one := whole[0]
		if p.FirstHour > first {
			one.mintMs, one.firstHour = keyschema.HourStartMs(p.FirstHour), p.FirstHour
		}
		if p.LastHour < last {
			one.maxtMs, one.lastHour = keyschema.HourStartMs(p.LastHour+1)-1, p.LastHour
		}
		if p.Names != nil {
			one.names, one.Selection = p.Names, p.Names.Select(requested, own)
		}
		changed = changed || !one.Unchanged
		out = append(out, one)
	}
	if !changed {
		return whole
	}
	return out
}

// unaliased reports whether the tenant of a selector has no aliases at all.
func (x *Index) unaliased(s *principal.Selector) bool {
	return x.aliases.ForTenant(keyschema.TenantOf(s.Prefix)) == nil
}

// renamedBytes is the memory of a renamed series besides its labels.
const renamedBytes = 64

// rename gives series their new names and an Alias. It omits series that the principal must not see.
func (t *stretch) rename(found []index.Series, budget index.Budget) ([]index.Series, error) {
	b := labels.NewScratchBuilder(16)
	kept, sizeBytes := found[:0], int64(0)
	for _, s := range found {
		s.Alias = &index.Alias{Stored: s.Labels, FirstHour: t.firstHour, LastHour: t.lastHour}
		if t.names != nil {
			var changed bool
			if s.Labels, changed = t.names.Renamed(s.Labels, &b); changed {
				s.Labels.Range(func(l labels.Label) { sizeBytes += int64(len(l.Name) + len(l.Value)) })
			}
		}
		sizeBytes += renamedBytes
		if slices.ContainsFunc(t.Own, func(m *labels.Matcher) bool { return !m.Matches(s.Labels.Get(m.Name)) }) {
			continue
		}
		kept = append(kept, s)
	}
	if budget != nil {
		return kept, budget(sizeBytes)
	}
	return kept, nil
}

// joined sorts series by labels and joins series with equal labels.
func joined(all []index.Series) []index.Series {
	slices.SortStableFunc(all, func(a, b index.Series) int {
		return cmp.Or(labels.Compare(a.Labels, b.Labels), compareStored(&a, &b))
	})
	out := all[:0]
	for from := 0; from < len(all); {
		to := from + 1
		for to < len(all) && labels.Equal(all[from].Labels, all[to].Labels) {
			to++
		}
		out = append(out, joinEqual(all[from:to]))
		from = to
	}
	return out
}

// compareStored orders series whose stored labels equal their shown labels after all others.
func compareStored(a, b *index.Series) int {
	newA, newB := labels.Equal(a.Alias.Stored, a.Labels), labels.Equal(b.Alias.Stored, b.Labels)
	if newA != newB {
		if newA {
			return 1
		}
		return -1
	}
	return labels.Compare(a.Alias.Stored, b.Alias.Stored)
}

// joinEqual joins series with equal labels. Series with equal stored labels are adjacent.
func joinEqual(equal []index.Series) index.Series {
	var parts []index.Series
	for _, s := range equal {
		if n := len(parts); n > 0 && labels.Equal(parts[n-1].Alias.Stored, s.Alias.Stored) {
			last := parts[n-1].Alias
			last.FirstHour, last.LastHour = min(last.FirstHour, s.Alias.FirstHour), max(last.LastHour, s.Alias.LastHour)
			parts[n-1].Hours = presence.Normalize(slices.Concat(parts[n-1].Hours, s.Hours))
			continue
		}
		parts = append(parts, s)
	}
	if len(parts) == 1 {
		return parts[0]
	}
	out := index.Series{Labels: parts[0].Labels, Alias: &index.Alias{Parts: parts}}
	for i := range parts {
		out.Hours = append(out.Hours, parts[i].Hours...)
	}
	out.Hours = presence.Normalize(out.Hours)
	return out
}

// labelNames is LabelNames of the Source for a selector, with the new names.
func (x *Index) labelNames(
	ctx context.Context, s *principal.Selector, mintMs, maxtMs int64, limit int,
) (out []string, err error) {
	list := x.stretches(s, mintMs, maxtMs)
	if len(list) == 1 && list[0].Unchanged {
		return x.source.LabelNames(ctx, mintMs, maxtMs, limit, s.Matchers...)
	}
	for i := range list {
		t := &list[i]
		if len(t.Own) > 0 {
			if err := x.forEachRenamed(ctx, t, func(ls labels.Labels) {
				ls.Range(func(l labels.Label) { out = append(out, l.Name) })
				out = distinct(out, 0)
			}); err != nil {
				return nil, err
			}
			continue
		}
		for _, matchers := range t.Selectors {
			names, err := x.source.LabelNames(ctx, t.mintMs, t.maxtMs, 0, matchers...)
			if err != nil {
				return nil, err
			}
			for _, name := range names {
				shown, err := x.shownNames(ctx, t, name, matchers)
				if err != nil {
					return nil, err
				}
				out = append(out, shown...)
			}
		}
	}
	return distinct(out, limit), nil
}

// shownNames returns the names under which matching stored series show a label.
func (x *Index) shownNames(ctx context.Context, t *stretch, name string, matchers []*labels.Matcher) (out []string, err error) {
	if t.names == nil {
		return []string{name}, nil
	}
	all, newest := t.names.LabelNames(name)
	out = []string{newest}
	if all == nil || name == newest {
		return out, nil
	}
	out = out[:0]
	alone, both := t.names.Divide(matchers, name)
	for _, part := range []struct {
		show      string
		selectors [][]*labels.Matcher
	}{{newest, alone[slices.Index(all, name):][:1]}, {name, both}} {
		for _, selector := range part.selectors {
			found, err := x.source.LabelNames(ctx, t.mintMs, t.maxtMs, 1, selector...)
			if err != nil {
				return nil, err
			}
			if len(found) > 0 {
				out = append(out, part.show)
				break
			}
		}
	}
	return out, nil
}

// labelValues is LabelValues of the Source for a selector, with the new names.
func (x *Index) labelValues(
	ctx context.Context, s *principal.Selector, name string, mintMs, maxtMs int64, limit int,
) (out []string, err error) {
	list := x.stretches(s, mintMs, maxtMs)
	if len(list) == 1 && list[0].Unchanged {
		return x.source.LabelValues(ctx, name, mintMs, maxtMs, limit, s.Matchers...)
	}
	for i := range list {
		t := &list[i]
		if len(t.Own) > 0 {
			if err := x.forEachRenamed(ctx, t, func(ls labels.Labels) {
				if value := ls.Get(newestName(t, name)); value != "" {
					out = distinct(append(out, value), 0)
				}
			}); err != nil {
				return nil, err
			}
			continue
		}
		for _, matchers := range t.Selectors {
			found, err := x.valuesOf(ctx, t, name, limit, matchers)
			if err != nil {
				return nil, err
			}
			out = append(out, found...)
		}
	}
	return distinct(out, limit), nil
}

func newestName(t *stretch, name string) string {
	if t.names == nil {
		return name
	}
	_, newest := t.names.LabelNames(name)
	return newest
}

// valuesOf returns the values of a label by their new names. A label with several stored names has the values of all these
// names.
func (x *Index) valuesOf(
	ctx context.Context, t *stretch, name string, limit int, matchers []*labels.Matcher,
) (out []string, err error) {
	read := func(stored string, limit int, matchers []*labels.Matcher) error {
		values, err := x.source.LabelValues(ctx, stored, t.mintMs, t.maxtMs, limit, matchers...)
		for _, value := range values {
			if t.names != nil {
				value = t.names.Value(stored, value)
			}
			out = append(out, value)
		}
		return err
	}
	if t.names == nil {
		return out, read(name, limit, matchers)
	}
	if t.names.RenamesValues(name) {
		limit = 0 // any old name may have a new name that sorts first
	}
	all, _ := t.names.LabelNames(name)
	if all == nil {
		return out, read(name, limit, matchers)
	}
	alone, both := t.names.Divide(matchers, name)
	for i, stored := range all {
		if err := read(stored, limit, alone[i]); err != nil {
			return nil, err
		}
	}
	for _, selector := range both {
		if err := read(name, limit, selector); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// forEachRenamed calls visit with the labels of each series that the principal sees.
func (x *Index) forEachRenamed(ctx context.Context, t *stretch, visit func(labels.Labels)) error {
	for _, matchers := range t.Selectors {
		found, err := x.source.Select(ctx, nil, t.mintMs, t.maxtMs, matchers...)
		if err != nil {
			return err
		}
		if found, err = t.rename(found, nil); err != nil {
			return err
		}
		for i := range found {
			visit(found[i].Labels)
		}
	}
	return nil
}

// distinct sorts names, removes duplicates, and returns at most limit of them; 0 means no limit.
func distinct(names []string, limit int) []string {
	slices.Sort(names)
	if names = slices.Compact(names); limit > 0 && len(names) > limit {
		names = names[:limit]
	}
	return names
}

// Stored returns all stored names that a metric has at any time, for the tenants and aliases of the principal.
func (x *Index) Stored(ctx context.Context, metric string) (out []string) {
	for _, stored := range principal.From(ctx).Stored(metric) {
		prefix, _ := keyschema.SplitTenant(stored)
		out = append(out, x.aliases.ForTenant(keyschema.TenantOf(prefix)).Metrics(stored)...)
	}
	return out
}

// Generation changes with each change of aliases.
func (x *Index) Generation() uint64 { return x.aliases.Generation() }

// Names returns all names of a stored metric at any time, with the prefix of its tenant.
func (x *Index) Names(stored string) []string {
	prefix, _ := keyschema.SplitTenant(stored)
	return x.aliases.ForTenant(keyschema.TenantOf(prefix)).Metrics(stored)
}

// Aliased reports whether aliases apply to a selector in a window.
func (x *Index) Aliased(ctx context.Context, mintMs, maxtMs int64, matchers ...*labels.Matcher) bool {
	for _, s := range principal.From(ctx).Selectors(matchers) {
		if x.unaliased(&s) {
			continue
		}
		if list := x.stretches(&s, mintMs, maxtMs); len(list) > 1 || !list[0].Unchanged {
			return true
		}
	}
	return false
}

// Stored selects stored series in a window.
type Stored struct {
	FromMs, ToMs int64
	// Selectors select a series if it matches all matchers of one of them.
	Selectors [][]*labels.Matcher
}

// ErrOwnNames means that selectors of stored names cannot express the selection of a restricted principal.
var ErrOwnNames = errors.New("the token restricts labels that aliases rename")

// StoredSelectors translates selectors into selectors of stored names for a window. Each part of the window has its own
// selectors. The error is ErrOwnNames.
func (x *Index) StoredSelectors(
	ctx context.Context, mintMs, maxtMs int64, selectors ...[]*labels.Matcher,
) (out []Stored, err error) {
	for _, matchers := range selectors {
		for _, s := range principal.From(ctx).Selectors(matchers) {
			for _, t := range x.stretches(&s, mintMs, maxtMs) {
				if len(t.Own) > 0 {
					return nil, ErrOwnNames
				}
				at := slices.IndexFunc(out, func(o Stored) bool { return o.FromMs == t.mintMs && o.ToMs == t.maxtMs })
				if at < 0 {
					at, out = len(out), append(out, Stored{FromMs: t.mintMs, ToMs: t.maxtMs})
				}
				out[at].Selectors = append(out[at].Selectors, t.Selectors...)
			}
		}
	}
	return out, nil
}

// ExplainAliases returns the selectors of stored series that replace a selector in a window. It returns nil if no alias
// applies to the selector. It does not show the matchers of the principal.
func (x *Index) ExplainAliases(ctx context.Context, mintMs, maxtMs int64, matchers ...*labels.Matcher) (out []string) {
	for _, s := range principal.From(ctx).Selectors(matchers) {
		list := x.stretches(&s, mintMs, maxtMs)
		if len(list) == 1 && list[0].Unchanged {
			continue
		}
		requested, _ := s.Split()
		for _, t := range list {
			shown := aliases.Selection{Selectors: [][]*labels.Matcher{requested}}
			if t.names != nil {
				shown = t.names.Select(requested, nil)
			}
			for _, selector := range shown.Selectors {
				out = append(out, t.describe(s.Prefix, selector))
			}
		}
	}
	return out
}

// describe returns the window and the selector as the tenant writes it.
func (t *stretch) describe(prefix string, matchers []*labels.Matcher) string {
	var parts []string
	for _, m := range matchers {
		if m.Name == model.MetricNameLabel && (m.Value == prefix+".+" || m.Value == string(keyschema.TenantMark)+".*") {
			continue // the matcher excludes other tenants
		}
		shown := m.String()
		if prefix != "" {
			shown = strings.ReplaceAll(shown, prefix, "")
		}
		parts = append(parts, shown)
	}
	at := func(ms int64) string { return model.Time(ms).Time().UTC().Format("2006-01-02T15:04:05.000Z") }
	return "{" + strings.Join(parts, ",") + "} from " + at(t.mintMs) + " to " + at(t.maxtMs)
}
