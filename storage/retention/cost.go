package retention

import (
	"context"
	"errors"
	"fmt"
	"time"

	"halite/keyschema"
	"halite/storage"
)

// Cost is the size of one tier of the metrics of a rule. Sizes are the engine's estimates for its files, without samples that
// are only in memory. They are -1 if the engine has no estimate.
type Cost struct {
	Pattern string        `json:"pattern"`
	Tier    string        `json:"tier"`
	Age     keyschema.Age `json:"age"`
	// OldestMs is the start of the first day with data, even if retention hides it; 0 without data.
	OldestMs int64 `json:"oldestMs"`
	Bytes    int64 `json:"bytes"`
	// BytesPerDay is the mean size of the newest closed days with data, at most seven.
	BytesPerDay int64 `json:"bytesADay"`
	// HiddenBytes is the size of the days that are older than their retention. A sweep will free them.
	HiddenBytes int64 `json:"hiddenBytes"`
	// NewAge is the age to try. FreedBytes is the size of the days that it would hide, including HiddenBytes.
	NewAge     keyschema.Age `json:"newAge"`
	FreedBytes int64         `json:"freedBytes"`
}

// AgesOfAll returns the ages of the pattern "*", which all metrics without a rule have.
func AgesOfAll(costs []Cost) (ages keyschema.RetentionByTier) {
	for _, cost := range costs {
		for tier := range ages {
			if cost.Pattern == "*" && cost.Tier == keyschema.Tier(tier).String() {
				ages[tier] = cost.Age
			}
		}
	}
	return ages
}

// Change is a retention to try: other ages for some tiers.
type Change struct {
	// Pattern names the rule to change; empty changes all rules.
	Pattern string
	// Retention has the ages to try. A tier with nil keeps its age, or gets the age of [keyschema.RetentionByTier.With].
	Retention [keyschema.TierCount]*keyschema.Age
}

// ErrBadChange means that a Change has an age that is not allowed, or names a rule that does not exist.
var ErrBadChange = errors.New("bad proposed retention")

// check returns the first fault.
func (w *Change) check(rules []keyschema.PatternRetention) error {
	for t, age := range w.Retention {
		if age == nil {
			continue
		}
		if err := keyschema.Tier(t).Check(*age); err != nil {
			return fmt.Errorf("%w: %w", ErrBadChange, err)
		}
	}
	found := false
	for _, r := range rules {
		if !w.appliesTo(r) {
			continue
		}
		found = true
		if faults := w.retentionOf(r).Check(); len(faults) > 0 {
			return fmt.Errorf("%w: %q: %w", ErrBadChange, r.Pattern, faults[0])
		}
	}
	if !found {
		return fmt.Errorf("%w: no rule with a retention has the pattern %q", ErrBadChange, w.Pattern)
	}
	return nil
}

func (w *Change) appliesTo(r keyschema.PatternRetention) bool {
	return w.Pattern == "" || w.Pattern == r.Pattern
}

// retentionOf returns the ages that a rule would have.
func (w *Change) retentionOf(r keyschema.PatternRetention) keyschema.RetentionByTier {
	if !w.appliesTo(r) {
		return r.Retention
	}
	return r.Retention.With(&keyschema.RuleRetention{
		Raw: w.Retention[keyschema.Raw], Hours: w.Retention[keyschema.Hours], Days: w.Retention[keyschema.Days],
		Histograms: w.Retention[keyschema.NativeHistograms],
	})
}

// costBytesDays is the largest number of days in the mean Cost.BytesPerDay.
const costBytesDays = 7

// Costs returns the size of each tier of each rule, and the size that other ages would free.
func Costs(
	ctx context.Context, store storage.Store, ages *keyschema.RetentionByMetric, now time.Time, try Change,
) ([]Cost, error) {
	rules := ages.Rules()
	if err := try.check(rules); err != nil {
		return nil, err
	}
	var out []Cost
	for tier := keyschema.Raw; tier < keyschema.TierCount; tier++ {
		at := placeOf(tier)
		table, err := store.Table(ctx, at.table)
		if errors.Is(err, storage.ErrNoTable) {
			continue
		}
		if err != nil {
			return nil, err
		}
		spans, ok := table.(storage.SpanTable)
		if !ok {
			return nil, fmt.Errorf("estimate sizes in table %s: the engine does not estimate the size of a span: %w", at.table,
				errors.ErrUnsupported)
		}
		ranges, err := rangesByRule(ctx, table, ages)
		if err != nil {
			return nil, fmt.Errorf("table %s: %w", at.table, err)
		}
		estimators := make([]costEstimator, len(rules))
		for i, rule := range rules {
			c := &estimators[i]
			*c = costEstimator{table: spans, families: at.families, rows: ranges[i], nowMs: now.UnixMilli(), byDay: map[int64]int64{}}
			c.cost = Cost{Pattern: rule.Pattern, Tier: tier.String(), Age: rule.Retention[tier], NewAge: try.retentionOf(rule)[tier]}
			if err := c.estimate(ctx); err != nil {
				return nil, fmt.Errorf("%s of rule %q: %w", tier, rule.Pattern, err)
			}
		}
		if err := scale(ctx, spans, at.families, estimators); err != nil {
			return nil, err
		}
		for i := range estimators {
			estimators[i].sum()
			out = append(out, estimators[i].cost)
		}
	}
	return out, nil
}

// scale reduces the parts of each day until their sum is the size of the day. An engine may count a shared block in each
// part.
func scale(ctx context.Context, table storage.SpanTable, families []string, parts []costEstimator) error {
	sums := map[int64]int64{}
	for i := range parts {
		for day, size := range parts[i].byDay {
			sums[day] += size
		}
	}
	for day, sum := range sums {
		whole := int64(0)
		for _, family := range families {
			size, err := table.SpanBytes(ctx, storage.CellSpan{Family: family, Rows: []storage.RowRange{{}}, FromDay: day, ToDay: day + 1})
			if err != nil {
				return err
			}
			whole += size
		}
		for i := range parts {
			if size := parts[i].byDay[day]; size > 0 && whole > 0 && whole < sum {
				parts[i].byDay[day] = max(1, int64(float64(size)*float64(whole)/float64(sum)))
			}
		}
	}
	return nil
}

// costEstimator estimates the size of one tier of one rule.
type costEstimator struct {
	table    storage.SpanTable
	families []string
	rows     []storage.RowRange
	nowMs    int64
	byDay    map[int64]int64
	cost     Cost
}

// estimate estimates the size of each day.
func (c *costEstimator) estimate(ctx context.Context) error {
	for _, family := range c.families {
		days, err := c.table.Days(ctx, family)
		if errors.Is(err, errors.ErrUnsupported) {
			c.cost.Bytes, c.cost.BytesPerDay, c.cost.HiddenBytes, c.cost.FreedBytes = -1, -1, -1, -1
			return nil
		}
		if err != nil {
			return err
		}
		for _, day := range days {
			size, err := c.table.SpanBytes(ctx, storage.CellSpan{Family: family, Rows: c.rows, FromDay: day, ToDay: day + 1})
			if err != nil {
				return err
			}
			// The estimate may be the size of a block that holds only rows of other rules.
			if size > 0 && !c.has(ctx, family, day) {
				continue
			}
			c.byDay[day] += size
		}
	}
	return nil
}

// has reports whether a day has a cell, or cannot be read.
func (c *costEstimator) has(ctx context.Context, family string, day int64) bool {
	if len(c.rows) == 0 {
		return false
	}
	has, err := storage.HasRow(ctx, c.table, storage.RowSet{Ranges: c.rows}, storage.Filter{
		Families: []string{family}, FromMs: day * storage.DayMs, ToMs: (day + 1) * storage.DayMs, KeysOnly: true,
	})
	return err != nil || has
}

// sum computes the cost from the days.
func (c *costEstimator) sum() {
	byDay := c.byDay
	today := c.nowMs / storage.DayMs
	hidden, freed := c.cost.Age.CutoffMs(c.nowMs)/storage.DayMs, c.cost.NewAge.CutoffMs(c.nowMs)/storage.DayMs
	oldest, newest := int64(-1), int64(-1)
	for day, size := range byDay {
		if size == 0 {
			continue
		}
		c.cost.Bytes += size
		if oldest < 0 || day < oldest {
			oldest = day
		}
		if day < today {
			newest = max(newest, day)
		}
		if day < hidden {
			c.cost.HiddenBytes += size
		}
		if day < freed {
			c.cost.FreedBytes += size
		}
	}
	if oldest >= 0 {
		c.cost.OldestMs = oldest * storage.DayMs
	}
	sum, n := int64(0), int64(0)
	for day := newest; day >= 0 && day > newest-costBytesDays; day-- {
		if byDay[day] > 0 {
			sum, n = sum+byDay[day], n+1
		}
	}
	if n > 0 {
		c.cost.BytesPerDay = sum / n
	}
}
