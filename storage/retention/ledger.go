package retention

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"halite/keyschema"
	"halite/storage"
	"halite/storage/jsoncell"
)

const ledgerRow = "retention"

// sweptCell is where the ledger is, agesCell where the ages of metrics without a rule.
func sweptCell() jsoncell.Cell { return jsoncell.Cell{Row: ledgerRow, Qualifier: "swept"} }
func agesCell() jsoncell.Cell {
	return jsoncell.Cell{Row: ledgerRow, Qualifier: "ages", Remedy: "start the server once, which notes them anew"}
}

// sweptDays is the cell that says how far each rule was swept: of the rules that are listed, by tier and pattern, the first
// day that has not been looked at.
type sweptDays struct {
	Rules []ruleAges                  `json:"rules"`
	Days  map[string]map[string]int64 `json:"days"`
}

// ruleAges are the ages of a pattern as they are stored.
type ruleAges struct {
	Pattern string        `json:"pattern"`
	Raw     keyschema.Age `json:"raw"`
	Hours   keyschema.Age `json:"hours"`
	Days    keyschema.Age `json:"days"`
}

// newRuleAges leaves out what the text of an age leaves out, so that it is read as it was written.
func newRuleAges(pattern string, ages keyschema.Ages) ruleAges {
	whole := func(t keyschema.Tier) keyschema.Age {
		return keyschema.Age(time.Duration(ages[t]).Truncate(time.Millisecond))
	}
	return ruleAges{pattern, whole(keyschema.Raw), whole(keyschema.Hours), whole(keyschema.Days)}
}

func storedRules(r *keyschema.Retention) []ruleAges {
	var out []ruleAges
	for _, p := range r.Rules() {
		out = append(out, newRuleAges(p.Pattern, p.Ages))
	}
	return out
}

// loadSwept reads the ledger. One about other rules, or that says that days to come were swept, is as good as none; so is a
// damaged one, and why says what is wrong with it.
func loadSwept(ctx context.Context, meta storage.Table, r *keyschema.Retention, today int64) (d sweptDays, why, err error) {
	empty := sweptDays{Rules: storedRules(r), Days: map[string]map[string]int64{}}
	var stored sweptDays
	found, err := sweptCell().Read(ctx, meta, &stored)
	switch {
	case errors.Is(err, storage.ErrCorrupt), errors.Is(err, storage.ErrSchemaMismatch):
		return empty, err, nil
	case err != nil:
		return empty, nil, fmt.Errorf("retention ledger: %w", err)
	case !found, stored.Days == nil, !slices.Equal(stored.Rules, empty.Rules):
		return empty, nil, nil
	}
	for tier, patterns := range stored.Days {
		for pattern, day := range patterns {
			if day > today {
				return empty, sweptCell().Corrupt(fmt.Errorf("%s of rule %q were swept up to day %d, today is %d",
					tier, pattern, day, today)), nil
			}
		}
	}
	return stored, nil, nil
}

func (d *sweptDays) of(t keyschema.Tier, pattern string) int64 {
	return max(0, d.Days[t.String()][pattern])
}

func (d *sweptDays) set(t keyschema.Tier, pattern string, day int64) {
	if d.Days[t.String()] == nil {
		d.Days[t.String()] = map[string]int64{}
	}
	d.Days[t.String()][pattern] = day
}

func (d *sweptDays) save(ctx context.Context, meta storage.Table) error {
	if err := sweptCell().Write(ctx, meta, d); err != nil {
		return fmt.Errorf("retention ledger: %w", err)
	}
	return nil
}

// StoreServerAges notes the ages of metrics without a rule, for commands that do not know the server's flags.
func StoreServerAges(ctx context.Context, store storage.Store, ages keyschema.Ages) error {
	meta, err := store.EnsureTable(ctx, storage.MetaSchema())
	if err != nil {
		return fmt.Errorf("open table %s: %w", storage.TableMeta, err)
	}
	return agesCell().Write(ctx, meta, newRuleAges("*", ages))
}

// ServerAges returns what StoreServerAges has noted last; found is false if it never has.
func ServerAges(ctx context.Context, store storage.Store) (ages keyschema.Ages, found bool, err error) {
	meta, err := store.Table(ctx, storage.TableMeta)
	if errors.Is(err, storage.ErrNoTable) {
		return ages, false, nil
	}
	if err != nil {
		return ages, false, fmt.Errorf("open table %s: %w", storage.TableMeta, err)
	}
	var stored ruleAges
	if found, err = agesCell().Read(ctx, meta, &stored); err != nil || !found {
		return ages, false, err
	}
	return keyschema.Ages{stored.Raw, stored.Hours, stored.Days}, true, nil
}
