package tiers

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"time"

	"halite/storage"
	"halite/storage/tombstone"
)

// Of several processes the one that computes may be cut off, and go on when another one has taken its place. The token in the
// ledger's row keeps them apart: who takes over replaces it, and nobody writes states unless the token is its own, which it
// looks at within Shared.limit of the write. So twice that time after a process has taken over, all states that others wrote
// are in the table, and there will be no more as long as the token stays.
//
// That is what deletions wait for. All states are as of a deletion once a process that took over that long ago has computed
// what it concerns, and its change of the ledger, which says so, has found its token still there. From then on whoever computes
// does so as of this deletion or a later one, or of rows from which it was cleaned: it reads the ledger first, then what is
// deleted.

// take makes this process the one that computes, unless it is already. tick is a clock.
func (s *sharedLedger) take(ctx context.Context, tick func() time.Time) error {
	s.l.mu.Lock()
	defer s.l.mu.Unlock()
	if s.mine != nil && bytes.Equal(s.token, s.mine) {
		return nil
	}
	if err := s.l.save(ctx); err != nil {
		return err
	}
	s.since = tick()
	return nil
}

// ours fails if another process has changed the ledger since this one did. The caller holds ledger.mu.
func (s *sharedLedger) ours(ctx context.Context) error {
	it := s.l.meta.ReadRows(ctx, storage.RowSet{Keys: [][]byte{[]byte(ledgerRow)}}, storage.ReadOptions{Filter: storage.Filter{
		Families: []string{storage.FamilyMeta}, VersionsMax: 1, QualifierStart: []byte{tokenMark},
		QualifierEnd: []byte{tokenMark + 1},
	}})
	defer it.Close()
	for it.Next() {
		for _, c := range it.Row().Cells {
			if bytes.Equal(c.Qualifier, s.token) {
				return nil
			}
		}
	}
	if err := it.Err(); err != nil {
		return fmt.Errorf("read rollup ledger: %w", err)
	}
	return errOvertaken
}

// settled takes the deletions that one of several processes computes states as of: those that others have computed states as of
// before, and those older than Margin, of which no query is left that has to see samples as of before.
func (t *Tiers) settled() *tombstone.View {
	l := t.ledger
	l.mu.Lock()
	applied, cutoffMs := l.record.Deleted, l.shared.cutoffMs
	l.mu.Unlock()
	return t.opts.Deletions.While(func(d *tombstone.Tombstone) bool { return d.ID <= applied || d.MadeMs <= cutoffMs })
}

// settledDue tells whether there are such deletions to compute states as of, and no other process writes states any more.
func (t *Tiers) settledDue() bool {
	if t.opts.Deletions == nil || t.tick().Sub(t.ledger.shared.since) < 2*t.opts.Shared.limit() {
		return false
	}
	view := t.settled()
	defer view.Release()
	return len(after(view.List(), t.ledger.applied())) > 0
}

// applied is the last deletion that all states are as of.
func (l *ledger) applied() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.record.Deleted
}

// Applied returns the last deletion that all states are as of, by whatever process, now and in future. What is left of the
// samples of a deletion whose rows are clean, and which is not later, may be forgotten.
func (t *Tiers) Applied(ctx context.Context) (id uint64, err error) {
	if err := t.Refresh(ctx); err != nil {
		return 0, err
	}
	view := t.ledger.view()
	if view.Closed < 0 {
		return math.MaxUint64, nil // who begins to compute finds clean rows
	}
	return view.Deleted, nil
}

// tell adds the cell that says which deletion states are as of, if it says something new. One of several processes always says
// it, for another one may have said something else of its own states meanwhile.
func (t *Tiers) tell(entries []storage.Entry, cell storage.Entry, asOf, former uint64) []storage.Entry {
	switch {
	case t.opts.Shared == nil && asOf <= former:
		return entries
	case asOf == 0:
		cell = storage.Entry{Kind: storage.DeleteCells, Family: cell.Family, Qualifier: cell.Qualifier}
	}
	return append(entries, cell)
}
