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

const metaRow = "retention"

// sweptCell holds the progress of sweeps, agesCell the retention of metrics without a rule.
func sweptCell() jsoncell.Cell { return jsoncell.Cell{Row: metaRow, Qualifier: "swept"} }
func agesCell() jsoncell.Cell {
	return jsoncell.Cell{Row: metaRow, Qualifier: "ages", Remedy: "start the server once, which writes the cell again"}
}

// progress holds the first day that was not swept, for each tier and pattern of the listed rules.
type progress struct {
	Rules []ruleRetention             `json:"rules"`
	Days  map[string]map[string]int64 `json:"days"`
}

// newProgress is the progress of rules by which nothing is swept.
func newProgress(r *keyschema.RetentionByMetric) progress {
	return progress{Rules: storedRules(r), Days: map[string]map[string]int64{}}
}

// ruleRetention is the stored form of a pattern's retention.
type ruleRetention struct {
	Pattern string        `json:"pattern"`
	Raw     keyschema.Age `json:"raw"`
	Hours   keyschema.Age `json:"hours"`
	Days    keyschema.Age `json:"days"`
	// Histograms is the age of native histograms; 0 is Raw.
	Histograms keyschema.Age `json:"histograms"`
}

// newRuleRetention truncates ages to milliseconds, like their text, so that a stored retention does not change when it is
// read.
func newRuleRetention(pattern string, ages keyschema.RetentionByTier) ruleRetention {
	whole := func(t keyschema.Tier) keyschema.Age {
		return keyschema.Age(time.Duration(ages[t]).Truncate(time.Millisecond))
	}
	return ruleRetention{pattern, whole(keyschema.Raw), whole(keyschema.Hours), whole(keyschema.Days),
		whole(keyschema.NativeHistograms)}
}

func storedRules(r *keyschema.RetentionByMetric) []ruleRetention {
	var out []ruleRetention
	for _, p := range r.Rules() {
		out = append(out, newRuleRetention(p.Pattern, p.Retention))
	}
	return out
}

// loadProgress reads the progress of sweeps by the rules of r. found is false if there is no such progress. damage describes a
// stored progress that is damaged or has a future day.
func loadProgress(
	ctx context.Context, meta storage.Table, r *keyschema.RetentionByMetric, today int64,
) (p progress, found bool, damage, err error) {
	found, err = sweptCell().Read(ctx, meta, &p)
	switch {
	case errors.Is(err, storage.ErrCorrupt), errors.Is(err, storage.ErrSchemaMismatch):
		return p, false, err, nil
	case err != nil:
		return p, false, nil, fmt.Errorf("progress of retention: %w", err)
	case !found, p.Days == nil, !slices.Equal(p.Rules, storedRules(r)):
		return p, false, nil, nil
	}
	for tier, patterns := range p.Days {
		for pattern, day := range patterns {
			if day > today {
				return p, false, sweptCell().Corrupt(fmt.Errorf("%s of rule %q were swept up to day %d, today is %d",
					tier, pattern, day, today)), nil
			}
		}
	}
	return p, true, nil, nil
}

// sweptDay returns the day up to which a tier of a rule was swept; 0 if none was.
func (p *progress) sweptDay(t keyschema.Tier, pattern string) int64 {
	return max(0, p.Days[t.String()][pattern])
}

func (p *progress) set(t keyschema.Tier, pattern string, day int64) {
	if p.Days[t.String()] == nil {
		p.Days[t.String()] = map[string]int64{}
	}
	p.Days[t.String()][pattern] = day
}

func (p *progress) save(ctx context.Context, meta storage.Table) error {
	if err := sweptCell().Write(ctx, meta, p); err != nil {
		return fmt.Errorf("progress of retention: %w", err)
	}
	return nil
}

// StoreServerRetention stores the retention of metrics without a rule, for commands that do not have the server's flags.
func StoreServerRetention(ctx context.Context, store storage.Store, ages keyschema.RetentionByTier) error {
	meta, err := store.EnsureTable(ctx, storage.MetaSchema())
	if err != nil {
		return fmt.Errorf("open table %s: %w", storage.TableMeta, err)
	}
	return agesCell().Write(ctx, meta, newRuleRetention("*", ages))
}

// ServerRetention returns the last retention of StoreServerRetention. found is false if there is none.
func ServerRetention(ctx context.Context, store storage.Store) (ages keyschema.RetentionByTier, found bool, err error) {
	meta, err := store.Table(ctx, storage.TableMeta)
	if errors.Is(err, storage.ErrNoTable) {
		return ages, false, nil
	}
	if err != nil {
		return ages, false, fmt.Errorf("open table %s: %w", storage.TableMeta, err)
	}
	var stored ruleRetention
	if found, err = agesCell().Read(ctx, meta, &stored); err != nil || !found {
		return ages, false, err
	}
	return keyschema.RetentionByTier{stored.Raw, stored.Hours, stored.Days, stored.Histograms}, true, nil
}
