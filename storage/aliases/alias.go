package aliases

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/prometheus/common/model"

	"halite/keyschema"
)

// Kind is the kind of name that an alias renames.
type Kind string

// The kinds of names.
const (
	Metric     Kind = "metric"
	LabelName  Kind = "label_name"
	LabelValue Kind = "label_value"
)

// NameBytesMax bounds a name, because it is a part of a row key.
const NameBytesMax = 1024

var (
	// ErrBad means that an alias is not valid.
	ErrBad = errors.New("bad alias")
	// ErrLoop means that a name would become an alias of itself.
	ErrLoop = errors.New("the aliases form a loop")
	// ErrExists means that a name already has another alias.
	ErrExists = errors.New("the name already has an alias")
	// ErrTooMany means that the number of aliases has reached the limit.
	ErrTooMany = errors.New("the number of aliases has reached its limit")
	// ErrConfigured means that an alias belongs to the configuration file.
	ErrConfigured = errors.New("the alias is in the configuration file; change it there")
)

// Refused reports whether the alias, not the store, caused an error.
func Refused(err error) bool {
	for _, refusal := range []error{ErrBad, ErrLoop, ErrExists, ErrTooMany, ErrConfigured} {
		if errors.Is(err, refusal) {
			return true
		}
	}
	return false
}

// Alias gives a name a new name.
type Alias struct {
	// Tenant is the owner of the series; "" means keyschema.DefaultTenant.
	Tenant string `json:"tenant,omitempty"`
	Kind   Kind   `json:"kind"`
	// Label is the label whose value is renamed; "" means every label except the metric's name. Only a LabelValue has it.
	Label string `json:"label,omitempty"`
	Old   string `json:"old"`
	New   string `json:"new"`
	// FromMs is the start of the first hour in which the alias holds, in milliseconds since 1970.
	FromMs int64 `json:"fromMs"`
	// CreatedMs is the time of creation, in milliseconds since 1970; 0 for an alias of the configuration file.
	CreatedMs int64 `json:"createdMs,omitempty"`
}

// String describes the alias in words.
func (a Alias) String() string {
	what := strings.ReplaceAll(string(a.Kind), "_", " ")
	if a.Label != "" {
		what += " of " + a.Label
	}
	from := ""
	if a.FromMs > 0 {
		from = " from " + model.Time(a.FromMs).Time().UTC().Format("2006-01-02T15:04Z") + " on"
	}
	return fmt.Sprintf("%s %q answers as %q%s", what, a.Old, a.New, from)
}

// key identifies the renamed name. No two aliases of a tenant have the same key.
type key struct {
	kind       Kind
	label, old string
}

func (a Alias) key() key { return key{a.Kind, a.Label, a.Old} }

func (a Alias) tenant() string { return cmp.Or(a.Tenant, keyschema.DefaultTenant) }

// Check returns all faults of an alias. The error wraps ErrBad.
func (a Alias) Check() error {
	var faults []error
	fault := func(format string, args ...any) {
		faults = append(faults, fmt.Errorf("%w: "+format, append([]any{ErrBad}, args...)...))
	}
	switch a.Kind {
	case Metric:
		for _, name := range []string{a.Old, a.New} {
			if strings.HasPrefix(name, string(keyschema.TenantMark)) {
				fault("a metric's name cannot begin with %q: %q", keyschema.TenantMark, name)
			}
		}
	case LabelName:
		for _, name := range []string{a.Old, a.New} {
			if name == model.MetricNameLabel || name == keyschema.TenantLabel {
				fault("the label %s cannot be renamed", name)
			}
		}
	case LabelValue:
		if a.Label == model.MetricNameLabel || a.Label == keyschema.TenantLabel {
			fault("values of the label %s cannot be renamed; an alias of kind %s renames a metric", a.Label, Metric)
		}
	default:
		fault("kind %q is unknown; known are %s, %s and %s", a.Kind, Metric, LabelName, LabelValue)
	}
	if err := keyschema.CheckTenant(a.tenant()); err != nil {
		fault("%w", err)
	}
	for _, part := range []struct{ field, text string }{{"old", a.Old}, {"new", a.New}} {
		switch {
		case part.text == "":
			fault("%s is empty", part.field)
		case len(part.text) > NameBytesMax:
			fault("%s has %d bytes, at most %d are allowed", part.field, len(part.text), NameBytesMax)
		case !utf8.ValidString(part.text):
			fault("%s is not UTF-8: %q", part.field, part.text)
		}
	}
	switch {
	case a.Old == a.New:
		fault("old and new are both %q", a.Old)
	case a.Label != "" && a.Kind != LabelValue:
		fault("label is for the kind %s only", LabelValue)
	case len(a.Label) > NameBytesMax || !utf8.ValidString(a.Label):
		fault("label is longer than %d bytes or not UTF-8", NameBytesMax)
	}
	if a.FromMs < 0 || a.FromMs > keyschema.TimeMaxMs || a.FromMs%keyschema.HourMs != 0 {
		fault("from is %d ms; it must be the start of an hour since 1970", a.FromMs)
	}
	return errors.Join(faults...)
}

// compare orders aliases by the names that they rename.
func compare(a, b Alias) int {
	return cmp.Or(cmp.Compare(a.tenant(), b.tenant()), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Label, b.Label),
		cmp.Compare(a.Old, b.Old))
}

// checkLoops refuses aliases of a tenant that lead a name back to itself, even in different hours.
func checkLoops(list []Alias) error {
	next := func(a Alias) (out []Alias) {
		for _, b := range list {
			if b.Kind == a.Kind && b.Old == a.New && (a.Label == "" || b.Label == "" || a.Label == b.Label || oneClass(list, a, b)) {
				out = append(out, b)
			}
		}
		return out
	}
	done := map[key]bool{}
	var walk func(a Alias, path []Alias) error
	walk = func(a Alias, path []Alias) error {
		if slices.ContainsFunc(path, func(b Alias) bool { return a.key() == b.key() }) {
			return fmt.Errorf("%w: %s", ErrLoop, a)
		}
		if done[a.key()] {
			return nil
		}
		for _, b := range next(a) {
			if err := walk(b, append(path, a)); err != nil {
				return err
			}
		}
		done[a.key()] = true
		return nil
	}
	for _, a := range list {
		if err := walk(a, nil); err != nil {
			return err
		}
	}
	return nil
}

// CheckTogether returns an error if valid aliases conflict with each other. The error wraps ErrExists or ErrLoop.
func CheckTogether(list []Alias) error {
	byTenant, seen := map[string][]Alias{}, map[string]bool{}
	for _, a := range list {
		id := fmt.Sprintf("%s %q", a.tenant(), a.key())
		if seen[id] {
			return fmt.Errorf("%w: %s", ErrExists, a)
		}
		seen[id] = true
		byTenant[a.tenant()] = append(byTenant[a.tenant()], a)
	}
	for _, list := range byTenant {
		if err := checkLoops(list); err != nil {
			return err
		}
	}
	return nil
}

// oneClass reports whether aliases of label names may turn the labels of two aliases of values into one label.
func oneClass(list []Alias, a, b Alias) bool {
	reached := map[string]bool{a.Label: true}
	for grown := true; grown; {
		grown = false
		for _, c := range list {
			if c.Kind == LabelName && reached[c.Old] != reached[c.New] {
				reached[c.Old], reached[c.New], grown = true, true, true
			}
		}
	}
	return reached[b.Label]
}
