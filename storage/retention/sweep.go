package retention

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"halite/keyschema"
	"halite/storage"
	"halite/storage/periodic"
)

// Freed counts what a sweep has dropped.
type Freed struct {
	// Rows is the number of rows with dropped cells. Ranges is the number of pairs of a metric and a day.
	Rows, Ranges int64
	// Bytes estimates the freed space in the files; 0 if the engine has no estimate.
	Bytes int64
}

// Sweep drops all data that is older than its retention.
func (s *Sweeper) Sweep(ctx context.Context) (Freed, error) {
	s.sweeping.Lock()
	defer s.sweeping.Unlock()
	var sum Freed
	err := errChanged
	for errors.Is(err, errChanged) {
		err = s.sweepAll(ctx, &sum)
	}
	if err != nil {
		s.metrics.failures.Inc()
		return sum, fmt.Errorf("drop data older than its retention: %w", err)
	}
	s.metrics.lastSweep.Set(float64(s.opts.Now().UnixMilli()) / 1e3)
	return sum, nil
}

func (s *Sweeper) sweepAll(ctx context.Context, sum *Freed) error {
	ages, err := s.setPolicies(ctx)
	if err != nil {
		return err
	}
	meta, err := s.openMeta(ctx)
	if err != nil {
		return err
	}
	swept, err := s.progressOf(ctx, meta, ages)
	if err != nil {
		return err
	}
	policies, rules := ages.Longest(), ages.Rules()
	// The family of histograms has the policy of raw samples, because the pass for histograms may also drop exemplars
	// and start times.
	policies[keyschema.NativeHistograms] = policies[keyschema.Raw]
	for tier := keyschema.Raw; tier < keyschema.TierCount; tier++ {
		for i := range rules {
			if !policies[tier].Outlives(rules[i].Retention[tier]) {
				continue // the policy of the families drops the data
			}
			to := s.cutoffDay(tier, rules[i].Retention[tier])
			p := pass{Sweeper: s, ages: ages, tier: tier, rule: i, from: swept.sweptDay(tier, rules[i].Pattern), to: to}
			if p.from >= p.to {
				continue
			}
			freed, err := p.run(ctx)
			sum.add(freed)
			if err != nil {
				return fmt.Errorf("%s of rule %q: %w", tier, rules[i].Pattern, err)
			}
			// The progress must not be durable before the drops are.
			if err := s.opts.Store.Sync(ctx); err != nil {
				return err
			}
			if s.inGrace() {
				continue // later sweeps drop the rows that are still in memory
			}
			swept.set(tier, rules[i].Pattern, to)
			if err := s.saveProgress(ctx, meta, ages, &swept); err != nil {
				return err
			}
		}
	}
	return nil
}

// progressOf returns the progress of sweeps by some ages. If there is none, it durably stores that nothing is swept by them.
// Ingestion may accept older samples by these ages, and a restart may bring back the ages before them.
func (s *Sweeper) progressOf(
	ctx context.Context, meta storage.Table, ages *keyschema.RetentionByMetric,
) (progress, error) {
	swept, found, damage, err := loadProgress(ctx, meta, ages, s.opts.Now().UnixMilli()/storage.DayMs)
	if err != nil || found {
		return swept, err
	}
	if damage != nil {
		s.opts.Logger.Warn("progress of retention is damaged; all days are swept again", "err", damage)
	}
	swept = newProgress(ages)
	if err := s.saveProgress(ctx, meta, ages, &swept); err != nil {
		return swept, err
	}
	return swept, s.opts.Store.Sync(ctx)
}

// saveProgress stores the progress of some ages, unless the retention has changed.
func (s *Sweeper) saveProgress(
	ctx context.Context, meta storage.Table, ages *keyschema.RetentionByMetric, swept *progress,
) error {
	s.changing.RLock()
	defer s.changing.RUnlock()
	if s.opts.Retention.Load() != ages {
		return errChanged
	}
	return swept.save(ctx, meta)
}

// inGrace reports whether rows in memory may be older than the ages in force allow.
func (s *Sweeper) inGrace() bool {
	s.changing.RLock()
	defer s.changing.RUnlock()
	return s.opts.Now().Sub(s.inForce) < s.opts.Grace
}

func (f *Freed) add(o Freed) {
	f.Rows, f.Ranges, f.Bytes = f.Rows+o.Rows, f.Ranges+o.Ranges, f.Bytes+o.Bytes
}

// cutoffDay is the first day to keep.
func (s *Sweeper) cutoffDay(t keyschema.Tier, age keyschema.Age) int64 {
	day := age.CutoffMs(s.opts.Now().Add(-s.opts.Grace).UnixMilli()) / storage.DayMs
	if needed, some := s.opts.Needed(t); some {
		day = min(day, needed)
	}
	return day
}

// pass drops the days from ≤ day < to of one tier for the metrics of one rule.
type pass struct {
	*Sweeper
	ages     *keyschema.RetentionByMetric
	tier     keyschema.Tier
	rule     int
	from, to int64

	table  storage.SpanTable
	span   storage.CellSpan // gathered ranges, one per metric
	rows   int64
	freed  Freed
	begun  time.Time
	calls  int
	bounds storage.RowRange // from the first to the last dropped range of the window
	before int64            // size of the window before the first drop; estimates of ranges count shared blocks twice
}

func (p *pass) run(ctx context.Context) (Freed, error) {
	at := placeOf(p.tier)
	table, err := p.opts.Store.Table(ctx, at.table)
	if errors.Is(err, storage.ErrNoTable) {
		return Freed{}, nil
	}
	if err != nil {
		return Freed{}, err
	}
	var ok bool
	if p.table, ok = table.(storage.SpanTable); !ok {
		return Freed{}, fmt.Errorf("sweep table %s: the engine cannot drop spans: %w", at.table, errors.ErrUnsupported)
	}
	p.begun = time.Now()
	for _, family := range at.families {
		windows, err := p.windows(ctx, family)
		if err != nil {
			return p.freed, err
		}
		for _, w := range windows {
			if err := p.window(ctx, w); err != nil {
				return p.freed, fmt.Errorf("table %s family %s days %d to %d: %w", at.table, family, w.FromDay, w.ToDay-1, err)
			}
		}
	}
	return p.freed, nil
}

// windows returns the days to sweep: one by one if the engine can list its days, otherwise as one window.
func (p *pass) windows(ctx context.Context, family string) ([]storage.CellSpan, error) {
	days, err := p.table.Days(ctx, family)
	if errors.Is(err, errors.ErrUnsupported) {
		return []storage.CellSpan{{Family: family, FromDay: p.from, ToDay: p.to}}, nil
	}
	var out []storage.CellSpan
	for _, day := range days {
		if day >= p.from && day < p.to {
			out = append(out, storage.CellSpan{Family: family, FromDay: day, ToDay: day + 1})
		}
	}
	return out, err
}

// window drops the metrics of the rule in the days of w, then frees their space.
func (p *pass) window(ctx context.Context, w storage.CellSpan) error {
	p.span, p.bounds = w, storage.RowRange{}
	rules := p.ages.Rules()
	for _, r := range rules[p.rule].KeyRanges() {
		for more := true; more; {
			var err error
			if r.Start, more, err = p.scan(ctx, storage.RowRange{Start: r.Start, End: r.End}); err != nil {
				return err
			}
		}
	}
	if err := p.drop(ctx); err != nil {
		return err
	}
	if p.bounds.Start == nil {
		return nil
	}
	reclaim := w
	reclaim.Rows = []storage.RowRange{p.bounds}
	for _, family := range append([]string{w.Family}, p.companionFamilies()...) {
		reclaim.Family = family
		if err := p.table.Reclaim(ctx, reclaim); err != nil {
			return err
		}
	}
	after, err := p.size(ctx, w)
	if err != nil {
		return err
	}
	freed := Freed{Bytes: max(0, p.before-after)}
	p.freed.add(freed)
	p.metrics.note(p.tier, freed)
	return nil
}

// size returns the size of all rows of a window, 0 if the engine has no estimate.
func (p *pass) size(ctx context.Context, w storage.CellSpan) (int64, error) {
	w.Rows = []storage.RowRange{{}}
	size, err := p.table.SpanBytes(ctx, w)
	if errors.Is(err, errors.ErrUnsupported) {
		return 0, nil
	}
	return size, err
}

// scan collects the metrics of the rule up to the first metric of another rule. If it finds such a metric, it returns the key
// after it, and more is true.
func (p *pass) scan(ctx context.Context, r storage.RowRange) (next []byte, more bool, err error) {
	it := p.table.ReadRows(ctx, storage.RowSet{Ranges: []storage.RowRange{r}}, storage.ReadOptions{Filter: storage.Filter{
		Families: []string{p.span.Family}, FromMs: p.span.FromDay * storage.DayMs, ToMs: p.span.ToDay * storage.DayMs,
		KeysOnly: true,
	}})
	defer func() { err = errors.Join(err, it.Close()) }()
	var current storage.RowRange // rows of the metric
	for it.Next() {
		key := it.Row().Key
		if current.Start == nil || !bytes.HasPrefix(key, current.Start) {
			metric, err := keyschema.MetricOf(key)
			if err != nil {
				return nil, false, fmt.Errorf("%w: %w", storage.ErrCorrupt, err)
			}
			current.Start, current.End = keyschema.MetricRows(metric)
			if p.ages.RuleOf(metric) != p.rule {
				return current.End, true, nil
			}
			if len(p.span.Rows) >= p.opts.RangesMax {
				if err := p.drop(ctx); err != nil {
					return nil, false, err
				}
			}
			p.span.Rows = append(p.span.Rows, current)
		}
		p.rows++
		if err := p.pace(ctx); err != nil {
			return nil, false, err
		}
	}
	return nil, false, it.Err()
}

// drop drops the gathered ranges, unless the retention has changed. Ingestion may accept samples in them since then.
func (p *pass) drop(ctx context.Context) error {
	ranges := p.span.Rows
	if len(ranges) == 0 {
		return nil
	}
	p.changing.RLock()
	defer p.changing.RUnlock()
	if p.opts.Retention.Load() != p.ages {
		return errChanged
	}
	if p.bounds.Start == nil {
		var err error
		if p.before, err = p.size(ctx, p.span); err != nil {
			return err
		}
		p.bounds.Start = ranges[0].Start
	}
	if err := p.dropCompanions(ctx); err != nil {
		return err
	}
	if err := p.table.DropCells(ctx, p.span); err != nil {
		return err
	}
	freed := Freed{Rows: p.rows, Ranges: int64(len(ranges))}
	p.freed.add(freed)
	p.metrics.note(p.tier, freed)
	p.bounds.End = ranges[len(ranges)-1].End
	p.span.Rows, p.rows = nil, 0
	return nil
}

// companionFamilies lists the families that are dropped with histograms, if the pass drops histograms.
func (p *pass) companionFamilies() []string {
	if p.tier != keyschema.NativeHistograms {
		return nil
	}
	return []string{storage.FamilyExemplars, storage.FamilyStartTimes}
}

// dropCompanions drops the exemplars and start times of the histograms in the gathered ranges. If a metric has floats in the
// window, its exemplars and start times stay until the floats expire. It runs before the histograms are dropped: after a crash,
// the next sweep finds the metric again by its histograms.
func (p *pass) dropCompanions(ctx context.Context) error {
	families := p.companionFamilies()
	if len(families) == 0 {
		return nil
	}
	span := p.span
	span.Rows = nil
	for _, r := range p.span.Rows {
		floats, err := storage.HasRow(ctx, p.table, storage.RowSet{Ranges: []storage.RowRange{r}}, storage.Filter{
			Families: []string{storage.FamilySamples}, FromMs: p.span.FromDay * storage.DayMs, ToMs: p.span.ToDay * storage.DayMs,
			KeysOnly: true,
		})
		if err != nil {
			return err
		}
		if !floats {
			span.Rows = append(span.Rows, r)
		}
	}
	if len(span.Rows) == 0 {
		return nil
	}
	for _, family := range families {
		span.Family = family
		if err := p.table.DropCells(ctx, span); err != nil {
			return err
		}
	}
	return nil
}

const (
	paceRows  = 1024
	paceBurst = 5 * time.Millisecond
)

// pace keeps the pass within its share of a CPU.
func (p *pass) pace(ctx context.Context) error {
	if p.calls++; p.calls%paceRows != 0 {
		return nil
	}
	busy := time.Since(p.begun)
	if busy >= paceBurst {
		if p.opts.Share < 1 {
			rest := time.Duration(math.Min(float64(busy)*(1/p.opts.Share-1), float64(time.Minute)))
			if err := periodic.Sleep(ctx, rest); err != nil {
				return err
			}
		}
		p.begun = time.Now()
	}
	return ctx.Err()
}
