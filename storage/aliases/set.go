package aliases

import (
	"math"
	"slices"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"

	"halite/keyschema"
)

// Set is the immutable set of a tenant's aliases. Nil has none.
type Set struct {
	list    []Alias
	periods []Period
}

// Period is a span of hours in which the same aliases hold.
type Period struct {
	FirstHour, LastHour int64
	// Names holds the names; nil if no alias holds in these hours.
	Names *Names
}

// Names are the aliases that hold in a Period.
type Names struct {
	prefix  string // prefix of the tenant's stored metrics
	metrics renames
	keys    renames
	// values are the renames of each label's values. every holds the renames for all other labels.
	values map[string]renames
	every  renames
}

// renames are the new names of names.
type renames struct {
	// last is the name at the end of the chain.
	last map[string]string
	// all maps the name at the end of a chain to all of its names, itself included.
	all map[string][]string
}

func (r renames) name(old string) string {
	if last, ok := r.last[old]; ok {
		return last
	}
	return old
}

// namesOf returns all names of a name, or nil if it has no alias.
func (r renames) namesOf(name string) []string { return r.all[r.name(name)] }

func newRenames(next map[string]string) renames {
	r := renames{last: map[string]string{}, all: map[string][]string{}}
	for old := range next {
		last := old
		for next[last] != "" {
			last = next[last]
		}
		r.last[old] = last
		r.all[last] = append(r.all[last], old)
	}
	for last := range r.all {
		r.all[last] = append(r.all[last], last)
		slices.Sort(r.all[last])
	}
	return r
}

// newSet compiles the valid aliases of a tenant, which form no loop.
func newSet(tenant string, list []Alias) *Set {
	froms := []int64{0}
	for _, a := range list {
		froms = append(froms, keyschema.HourOf(a.FromMs))
	}
	slices.Sort(froms)
	froms = slices.Compact(froms)
	s := &Set{list: list}
	for i, from := range froms {
		p := Period{FirstHour: from, LastHour: math.MaxInt64}
		if i+1 < len(froms) {
			p.LastHour = froms[i+1] - 1
		}
		holding := slices.DeleteFunc(slices.Clone(list), func(a Alias) bool { return keyschema.HourOf(a.FromMs) > from })
		if len(holding) > 0 {
			p.Names = newNames(keyschema.TenantPrefix(tenant), holding)
		}
		s.periods = append(s.periods, p)
	}
	return s
}

func newNames(prefix string, list []Alias) *Names {
	metrics, keys, every := map[string]string{}, map[string]string{}, map[string]string{}
	single := map[string]map[string]string{} // renames by label
	for _, a := range list {
		switch {
		case a.Kind == Metric:
			metrics[prefix+a.Old] = prefix + a.New
		case a.Kind == LabelName:
			keys[a.Old] = a.New
		case a.Label == "":
			every[a.Old] = a.New
		default:
			if single[a.Label] == nil {
				single[a.Label] = map[string]string{}
			}
			single[a.Label][a.Old] = a.New
		}
	}
	n := &Names{
		prefix: prefix, metrics: newRenames(metrics), keys: newRenames(keys), every: newRenames(every),
		values: map[string]renames{},
	}
	for label := range single {
		next, names := map[string]string{}, n.keys.namesOf(label)
		if names == nil {
			names = []string{label}
		}
		for old, last := range every {
			next[old] = last
		}
		for _, name := range names {
			for old, last := range single[name] {
				next[old] = last
			}
		}
		for _, name := range names {
			n.values[name] = newRenames(next)
		}
	}
	return n
}

// Between returns the periods that overlap a span of hours, clipped to it, ascending.
func (s *Set) Between(firstHour, lastHour int64) []Period {
	if s == nil {
		return []Period{{FirstHour: firstHour, LastHour: lastHour}}
	}
	var out []Period
	for _, p := range s.periods {
		p.FirstHour, p.LastHour = max(p.FirstHour, firstHour), min(p.LastHour, lastHour)
		if p.FirstHour <= p.LastHour {
			out = append(out, p)
		}
	}
	return out
}

// Metrics returns all stored names that a stored metric has had or will have, itself included.
func (s *Set) Metrics(stored string) []string {
	out := []string{stored}
	if s != nil {
		for _, p := range s.periods {
			if p.Names != nil {
				out = append(out, p.Names.metrics.namesOf(stored)...)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// valuesOf returns the renames of the values of a label.
func (n *Names) valuesOf(label string) renames {
	if label == model.MetricNameLabel {
		return n.metrics
	}
	if r, ok := n.values[label]; ok {
		return r
	}
	return n.every
}

// Value returns the new name of a stored value of a label.
func (n *Names) Value(label, stored string) string { return n.valuesOf(label).name(stored) }

// RenamesValues reports whether values of a label may have new names.
func (n *Names) RenamesValues(label string) bool { return len(n.valuesOf(label).last) > 0 }

// LabelNames returns all names of a label and the newest name. The list is nil if the label has only one name.
func (n *Names) LabelNames(label string) (all []string, newest string) {
	return n.keys.namesOf(label), n.keys.name(label)
}

// RenamesLabels reports whether labels, or values other than metrics, have new names.
func (n *Names) RenamesLabels() bool { return len(n.keys.last)+len(n.values)+len(n.every.last) > 0 }

// Renamed returns stored labels with their new names. changed is false if no name changes. b is overwritten.
func (n *Names) Renamed(stored labels.Labels, b *labels.ScratchBuilder) (renamed labels.Labels, changed bool) {
	if metric := stored.Get(model.MetricNameLabel); n.RenamesLabels() {
		// The server itself may see the series of every tenant.
		if prefix, _ := keyschema.SplitTenant(metric); prefix != n.prefix {
			return stored, false
		}
	} else if _, ok := n.metrics.last[metric]; !ok {
		return stored, false
	}
	b.Reset()
	stored.Range(func(l labels.Label) {
		to := labels.Label{Name: l.Name, Value: n.Value(l.Name, l.Value)}
		if newest := n.keys.name(l.Name); newest != l.Name && n.alone(l.Name, stored) {
			to.Name = newest
		}
		changed = changed || to != l
		b.Add(to.Name, to.Value)
	})
	if !changed {
		return stored, false
	}
	b.Sort()
	return b.Labels(), true
}

// alone reports whether labels contain no other name of a label.
func (n *Names) alone(label string, stored labels.Labels) bool {
	return !slices.ContainsFunc(n.keys.namesOf(label), func(other string) bool { return other != label && stored.Has(other) })
}
