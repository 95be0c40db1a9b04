package config

import (
	"fmt"
	"time"

	"halite/storage/aliases"
)

// Alias gives a metric, a label or a value of labels a new name. See docs/configuration.md.
type Alias struct {
	Tenant string `yaml:"tenant,omitempty"`
	Kind   string `yaml:"kind"`
	Label  string `yaml:"label,omitempty"`
	Old    string `yaml:"old"`
	New    string `yaml:"new"`
	// From is the first hour in which it holds, such as 2026-01-31T15:00:00Z; empty means all times.
	From string `yaml:"from,omitempty"`
}

// alias returns the alias in the form of package aliases.
func (a *Alias) alias() (aliases.Alias, error) {
	out := aliases.Alias{Tenant: a.Tenant, Kind: aliases.Kind(a.Kind), Label: a.Label, Old: a.Old, New: a.New}
	if a.From == "" {
		return out, nil
	}
	from, err := time.Parse(time.RFC3339, a.From)
	if err != nil {
		return out, fmt.Errorf("%q is not a time such as 2026-01-31T15:00:00Z", a.From)
	}
	out.FromMs = from.UnixMilli()
	return out, nil
}

// Aliases are all aliases of a file.
type Aliases []Alias

// validate reports the faults of all aliases.
func (list Aliases) validate(fault func(field, format string, args ...any)) {
	good := true
	for i := range list {
		field := fmt.Sprintf("aliases[%d]", i)
		a, err := list[i].alias()
		if err != nil {
			good = false
			fault(field+".from", "%w", err)
			continue
		}
		for _, err := range split(a.Check()) {
			good = false
			fault(field, "%w", err)
		}
	}
	if good {
		if err := aliases.CheckTogether(list.valid()); err != nil {
			fault("aliases", "%w", err)
		}
	}
}

// valid returns the valid aliases in the form of package aliases.
func (list Aliases) valid() (out []aliases.Alias) {
	for i := range list {
		if a, err := list[i].alias(); err == nil {
			out = append(out, a)
		}
	}
	return out
}
