package tiers

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"halite/storage"
)

// Shared says how several processes keep the same states. Each of them writes through its own guard; one at a time computes.
//
// A writer marks states before it writes late rows, as in a single process, but decides by the clock which days are closed, and
// each of its marks is a cell of its own with the time. Beside them it leaves a note of the day in the ledger's row. Whoever
// computes takes away only marks and notes that are older than Margin when it begins: the rows that they announce are written
// by then, for a writer gives up a sixth of Margin after it has marked. It writes what it has computed within the same time of
// reading the rows, so that nothing old is written over something newer. The clocks may differ by two thirds of Margin.
//
// A reader asks for the ledger before it begins ([Tiers.Refresh]) and finds states and marks in one row. So it takes a state
// only if all samples that were acknowledged before it began are in it.
type Shared struct {
	// Turn reports whether this process is the one that computes.
	Turn func() bool
	// Margin is how old marks are before they are taken away.
	Margin time.Duration
	// Tick is a clock that measures durations; nil is time.Now.
	Tick func() time.Time
	// Fresh returns once reads of rows lack all that was deleted before the call.
	Fresh func(ctx context.Context) error
}

// limit is how long marks protect what is written behind them.
func (s *Shared) limit() time.Duration { return s.Margin / 6 }

// errSlow: what was read may be too old to be written.
var errSlow = errors.New("the pass was too slow or asleep; it begins anew")

// Refresh returns once Has and Read go by what the ledger said at some time after the call. A single process need not call it.
func (t *Tiers) Refresh(ctx context.Context) error {
	if t.opts.Shared == nil {
		return nil
	}
	return t.ledger.shared.refresher.Refresh(ctx)
}

// begin makes this process ready for a piece of work, if it is its turn.
func (t *Tiers) begin(ctx context.Context) (mine bool, err error) {
	s := t.ledger.shared
	if !t.opts.Shared.Turn() {
		return false, nil
	}
	cutoff := t.opts.Now().Add(-t.opts.Shared.Margin)
	if err := s.reload(ctx, cutoff.UnixMilli()); err != nil {
		return false, err
	}
	if err := s.take(ctx, t.tick); err != nil {
		return false, err
	}
	return true, t.opts.Shared.Fresh(ctx)
}

// lastLate is the last day whose rows are announced: some process may take it for closed soon.
func (t *Tiers) lastLate() int64 { return floorDay(t.opts.Now().Add(-t.opts.Delay/3).UnixMilli()) - 1 }

// announcedShared is announced among several processes.
func (t *Tiers) announcedShared(
	ctx context.Context, keys rowKeys, write func(ctx context.Context) error,
) error {
	stale := staleOf(keys, t.lastLate())
	if len(stale) == 0 {
		return write(ctx)
	}
	ctx, cancel := context.WithTimeout(ctx, t.opts.Shared.limit())
	defer cancel()
	if err := t.announce(ctx, stale); err != nil {
		return fmt.Errorf("mark states as stale: %w", err)
	}
	return write(ctx)
}

// announce leaves marks of states and notes of their days, or notes alone of days that have very many or no states.
func (t *Tiers) announce(ctx context.Context, stale []staleHours) error {
	counts := map[int64]int{}
	for i := range stale {
		counts[stale[i].day]++
	}
	s, view, now := t.ledger.shared, t.ledger.view(), t.opts.Now()
	whole := map[int64]bool{}
	for day, n := range counts {
		whole[day] = n > t.opts.MarksMax || day > view.Closed || view.Days[day] == workWhole
		what := workPart
		if whole[day] {
			what = workWhole
		}
		if err := s.note(ctx, day, what, now, t.opts.Shared.limit()); err != nil {
			return err
		}
	}
	var muts []storage.RowMutation
	for i := range stale {
		if !whole[stale[i].day] || stale[i].gone != 0 {
			muts = append(muts, timedMark(&stale[i], now))
		}
	}
	t.metrics.marks.Add(float64(len(muts)))
	return applyAll(ctx, t.table, muts)
}

// timedMark is markMutation with marks of this process and time alone.
func timedMark(s *staleHours, now time.Time) storage.RowMutation {
	m := markMutation(s)
	for i := range m.Entries {
		q := binary.BigEndian.AppendUint64(m.Entries[i].Qualifier, uint64(now.UnixMilli()))
		m.Entries[i].Qualifier = binary.BigEndian.AppendUint32(q, rand.Uint32())
	}
	return m
}

// unmark takes away marks of several processes that are old enough.
func (p *dayPass) unmark(entries []storage.Entry, marks [][]byte) []storage.Entry {
	for _, q := range marks {
		e := p.entry(q, []byte{markDone})
		if s := p.t.ledger.shared; s != nil {
			if int64(binary.BigEndian.Uint64(q[markBytes:])) > s.cutoffMs {
				continue
			}
			e = storage.Entry{Kind: storage.DeleteCells, Family: storage.FamilyHours, Qualifier: q}
		}
		entries = append(entries, e)
	}
	return entries
}

// awake notes that the pass is at work, and fails if it was not for long: what it has read may be old.
func (t *Tiers) awake(b *batch) error {
	if t.opts.Shared == nil || b.reads {
		return nil
	}
	now := t.tick()
	if !b.awake.IsZero() && now.Sub(b.awake) > t.opts.Shared.limit() {
		return errSlow
	}
	if b.awake = now; b.begun.IsZero() {
		b.begun = now
	}
	return nil
}

// ripe tells that a batch should be written because it is old.
func (t *Tiers) ripe(b *batch) bool {
	return t.opts.Shared != nil && t.tick().Sub(b.begun) > t.opts.Shared.limit()/4
}

// store writes states, and removes those that are gone. One of several processes does so within the limit of having seen that no
// other has taken over.
func (t *Tiers) store(ctx context.Context, b *batch, muts, gone []storage.RowMutation) error {
	if t.opts.Shared == nil {
		if err := applyAll(ctx, t.table, gone); err != nil {
			return err
		}
		return t.table.Load(ctx, muts)
	}
	left := t.opts.Shared.limit() - t.tick().Sub(b.begun)
	if left <= 0 {
		return errSlow
	}
	ctx, cancel := context.WithTimeout(ctx, left)
	defer cancel()
	if err := t.ledger.shared.ours(ctx); err != nil {
		return err
	}
	return errors.Join(applyAll(ctx, t.table, gone), applyAll(ctx, t.table, muts))
}
