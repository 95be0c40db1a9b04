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

// Freed is what a sweep has dropped.
type Freed struct {
	// Rows had cells that were dropped; Ranges are metrics and days.
	Rows, Ranges int64
	// Bytes is by how much files became smaller, about; 0 if the engine cannot tell.
	Bytes int64
}

// Sweep drops what is too old, all of it that is not yet dropped, and reports how much it was.
func (s *Sweeper) Sweep(ctx context.Context) (Freed, error) {
	s.sweeping.Lock()
	defer s.sweeping.Unlock()
	var sum Freed
	err := s.sweepAll(ctx, &sum)
	if err != nil {
		s.metrics.failures.Inc()
		return sum, fmt.Errorf("sweep what is too old: %w", err)
	}
	s.metrics.lastSweep.Set(float64(s.opts.Now().UnixMilli()) / 1e3)
	return sum, nil
}

func (s *Sweeper) sweepAll(ctx context.Context, sum *Freed) error {
	meta, err := s.opts.Store.EnsureTable(ctx, storage.MetaSchema())
	if err != nil {
		return fmt.Errorf("open table %s: %w", storage.TableMeta, err)
	}
	swept, why, err := loadSwept(ctx, meta, s.opts.Ages, s.opts.Now().UnixMilli()/storage.DayMs)
	if err != nil {
		return err
	}
	if why != nil {
		s.opts.Logger.Warn("what was swept is not known; all days are looked at once more", "err", why)
	}
	longest, rules := s.opts.Ages.Longest(), s.opts.Ages.Rules()
	for tier := keyschema.Raw; tier < keyschema.TierCount; tier++ {
		for i := range rules {
			if !longest[tier].Outlives(rules[i].Ages[tier]) {
				continue // the families' policy
			}
			to := s.cutoffDay(tier, rules[i].Ages[tier])
			p := pass{Sweeper: s, tier: tier, rule: i, from: swept.of(tier, rules[i].Pattern), to: to}
			if p.from >= p.to {
				continue
			}
			freed, err := p.run(ctx)
			sum.add(freed)
			if err != nil {
				return fmt.Errorf("%s of rule %q: %w", tier, rules[i].Pattern, err)
			}
			// What is noted must not outlive what it stands for.
			if err := s.opts.Store.Sync(ctx); err != nil {
				return err
			}
			swept.set(tier, rules[i].Pattern, to)
			if err := swept.save(ctx, meta); err != nil {
				return err
			}
		}
	}
	return nil
}

func (f *Freed) add(o Freed) {
	f.Rows, f.Ranges, f.Bytes = f.Rows+o.Rows, f.Ranges+o.Ranges, f.Bytes+o.Bytes
}

// cutoffDay is the first day that is not to be dropped.
func (s *Sweeper) cutoffDay(t keyschema.Tier, age keyschema.Age) int64 {
	day := age.CutoffMs(s.opts.Now().Add(-s.opts.Grace).UnixMilli()) / storage.DayMs
	if needed, some := s.opts.Needed(t); some {
		day = min(day, needed)
	}
	return day
}

// pass drops what one rule does not keep of a tier: days from ≤ day < to.
type pass struct {
	*Sweeper
	tier     keyschema.Tier
	rule     int
	from, to int64

	table  storage.SpanTable
	span   storage.CellSpan // what is gathered: a range a metric
	rows   int64
	freed  Freed
	begun  time.Time
	calls  int
	bounds storage.RowRange // from the first range dropped of the window to the last
	before int64            // size of the window before the first drop; estimates of ranges count blocks they share twice
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
		return Freed{}, fmt.Errorf("table %s of this store: dropping spans: %w", at.table, errors.ErrUnsupported)
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

// windows are the days to look at, one by one where the engine knows which there are.
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

// window drops the metrics of the rule in some days, then frees their space.
func (p *pass) window(ctx context.Context, w storage.CellSpan) error {
	p.span, p.bounds = w, storage.RowRange{}
	rules := p.opts.Ages.Rules()
	start, end := rules[p.rule].KeyRange()
	for more := true; more; {
		var err error
		if start, more, err = p.scan(ctx, storage.RowRange{Start: start, End: end}); err != nil {
			return err
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
	if err := p.table.Reclaim(ctx, reclaim); err != nil {
		return err
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

// size is that of all rows of a window, 0 if the engine cannot tell.
func (p *pass) size(ctx context.Context, w storage.CellSpan) (int64, error) {
	w.Rows = []storage.RowRange{{}}
	size, err := p.table.SpanBytes(ctx, w)
	if errors.Is(err, errors.ErrUnsupported) {
		return 0, nil
	}
	return size, err
}

// scan gathers the metrics of the rule up to the first one of another, and returns where to go on behind that, if there
// is one.
func (p *pass) scan(ctx context.Context, r storage.RowRange) (next []byte, more bool, err error) {
	it := p.table.ReadRows(ctx, storage.RowSet{Ranges: []storage.RowRange{r}}, storage.ReadOptions{Filter: storage.Filter{
		Families: []string{p.span.Family}, FromMs: p.span.FromDay * storage.DayMs, ToMs: p.span.ToDay * storage.DayMs,
		KeysOnly: true,
	}})
	defer func() { err = errors.Join(err, it.Close()) }()
	var current storage.RowRange // the metric's
	for it.Next() {
		key := it.Row().Key
		if current.Start == nil || !bytes.HasPrefix(key, current.Start) {
			metric, err := keyschema.MetricOf(key)
			if err != nil {
				return nil, false, fmt.Errorf("%w: %w", storage.ErrCorrupt, err)
			}
			current.Start, current.End = keyschema.MetricRows(metric)
			if p.opts.Ages.RuleOf(metric) != p.rule {
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

// drop drops what is gathered.
func (p *pass) drop(ctx context.Context) error {
	ranges := p.span.Rows
	if len(ranges) == 0 {
		return nil
	}
	if p.bounds.Start == nil {
		var err error
		if p.before, err = p.size(ctx, p.span); err != nil {
			return err
		}
		p.bounds.Start = ranges[0].Start
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

const (
	paceRows  = 1024
	paceBurst = 5 * time.Millisecond
)

// pace keeps the pass within its share of a core.
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
