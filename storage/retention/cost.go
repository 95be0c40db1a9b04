package retention

import (
	"context"
	"errors"
	"fmt"
	"time"

	"halite/keyschema"
	"halite/storage"
)

// Cost is what a tier of a rule's metrics takes. Sizes are estimates of the engine for what is in its files: samples that
// are in memory only are not counted. They are -1 where the engine cannot tell.
type Cost struct {
	Pattern string        `json:"pattern"`
	Tier    string        `json:"tier"`
	Age     keyschema.Age `json:"age"`
	// OldestMs is the beginning of the first day that has something, hidden or not; 0 if none has.
	OldestMs int64 `json:"oldestMs"`
	Bytes    int64 `json:"bytes"`
	// BytesADay is the mean of the newest closed days that have something, seven at most.
	BytesADay int64 `json:"bytesADay"`
	// HiddenBytes are of days that are too old already: they are about to be freed.
	HiddenBytes int64 `json:"hiddenBytes"`
	// NewAge is the age by WhatIf; FreedBytes are of days that it would hide, those hidden already included.
	NewAge     keyschema.Age `json:"newAge"`
	FreedBytes int64         `json:"freedBytes"`
}

// WhatIf is another age for some tiers.
type WhatIf struct {
	// Pattern is that of the rule to change; empty changes all.
	Pattern string
	// Ages has those to try, nil for tiers that stay, or are kept as long as the one before if that is longer.
	Ages [keyschema.TierCount]*keyschema.Age
}

// ErrBadWhatIf is wrapped by errors about ages or rules that nobody can try.
var ErrBadWhatIf = errors.New("bad retention to try")

// check says what is wrong.
func (w *WhatIf) check(rules []keyschema.PatternAges) error {
	for t, age := range w.Ages {
		if age == nil {
			continue
		}
		if err := keyschema.Tier(t).Check(*age); err != nil {
			return fmt.Errorf("%w: %w", ErrBadWhatIf, err)
		}
	}
	found := false
	for _, r := range rules {
		if !w.concerns(r) {
			continue
		}
		found = true
		if faults := w.of(r).Check(); len(faults) > 0 {
			return fmt.Errorf("%w: %q: %w", ErrBadWhatIf, r.Pattern, faults[0])
		}
	}
	if !found {
		return fmt.Errorf("%w: no rule with a retention has the pattern %q", ErrBadWhatIf, w.Pattern)
	}
	return nil
}

func (w *WhatIf) concerns(r keyschema.PatternAges) bool {
	return w.Pattern == "" || w.Pattern == r.Pattern
}

// of are the ages that a rule would have, those that follow from others included, as if the rule named them.
func (w *WhatIf) of(r keyschema.PatternAges) keyschema.Ages {
	if !w.concerns(r) {
		return r.Ages
	}
	return r.Ages.With(&keyschema.RuleAges{
		Raw: w.Ages[keyschema.Raw], Hours: w.Ages[keyschema.Hours], Days: w.Ages[keyschema.Days],
	})
}

// costBytesDays is the number of days that Cost.BytesADay is the mean of.
const costBytesDays = 7

// Costs says what each tier of each rule takes at a time, and what other ages would free.
func Costs(
	ctx context.Context, store storage.Store, ages *keyschema.Retention, now time.Time, try WhatIf,
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
			return nil, fmt.Errorf("table %s of this store: sizes of spans: %w", at.table, errors.ErrUnsupported)
		}
		of, err := pieces(ctx, table, ages)
		if err != nil {
			return nil, fmt.Errorf("table %s: %w", at.table, err)
		}
		costers := make([]coster, len(rules))
		for i, rule := range rules {
			c := &costers[i]
			*c = coster{table: spans, families: at.families, rows: of[i], nowMs: now.UnixMilli(), byDay: map[int64]int64{}}
			c.cost = Cost{Pattern: rule.Pattern, Tier: tier.String(), Age: rule.Ages[tier], NewAge: try.of(rule)[tier]}
			if err := c.weigh(ctx); err != nil {
				return nil, fmt.Errorf("%s of rule %q: %w", tier, rule.Pattern, err)
			}
		}
		if err := scale(ctx, spans, at.families, costers); err != nil {
			return nil, err
		}
		for i := range costers {
			costers[i].sum()
			out = append(out, costers[i].cost)
		}
	}
	return out, nil
}

// scale makes the parts of a day as large as the day: an engine may count blocks that several parts share for each.
func scale(ctx context.Context, table storage.SpanTable, families []string, parts []coster) error {
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

// coster weighs one tier of one rule.
type coster struct {
	table    storage.SpanTable
	families []string
	rows     []storage.RowRange
	nowMs    int64
	byDay    map[int64]int64
	cost     Cost
}

// weigh finds the size of each day.
func (c *coster) weigh(ctx context.Context) error {
	for _, family := range c.families {
		days, err := c.table.Days(ctx, family)
		if errors.Is(err, errors.ErrUnsupported) {
			c.cost.Bytes, c.cost.BytesADay, c.cost.HiddenBytes, c.cost.FreedBytes = -1, -1, -1, -1
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
			// An estimate may be of a block that others share.
			if size > 0 && !c.has(ctx, family, day) {
				continue
			}
			c.byDay[day] += size
		}
	}
	return nil
}

// has tells whether there is a cell of a day; what cannot be read counts as one.
func (c *coster) has(ctx context.Context, family string, day int64) bool {
	if len(c.rows) == 0 {
		return false
	}
	has, err := storage.HasRow(ctx, c.table, storage.RowSet{Ranges: c.rows}, storage.Filter{
		Families: []string{family}, FromMs: day * storage.DayMs, ToMs: (day + 1) * storage.DayMs, KeysOnly: true,
	})
	return err != nil || has
}

// sum makes the cost of the days.
func (c *coster) sum() {
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
		c.cost.BytesADay = sum / n
	}
}
