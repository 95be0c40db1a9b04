package ingest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/prometheus/prometheus/model/labels"

	"halite/ingest/wal"
	"halite/ingest/wal/record"
	"halite/keyschema"
	"halite/storage/index"
	"halite/storage/tombstone"
)

// Errors of a deletion besides *tombstone.LimitError and ErrClosed.
var (
	// ErrBadDeletion: nobody can carry out what was asked for.
	ErrBadDeletion = errors.New("bad deletion")
	// ErrDeletesEverything: a selector may match all series, and Deletion.Everything is not set.
	ErrDeletesEverything = errors.New("a selector matches everything")
	// ErrNoDeletions: the ingester was opened without Options.Tombstones.
	ErrNoDeletions = errors.New("deletions are not supported here")
)

// Deletion says which samples are to be deleted.
type Deletion struct {
	// Selectors name the series: those that match all matchers of any selector.
	Selectors [][]*labels.Matcher
	// FromMs and ToMs are the first and last millisecond; what lies before 1970 or behind the last hour of row keys is
	// left out.
	FromMs, ToMs int64
	// Everything permits selectors that may match all series.
	Everything bool
}

// clip checks a deletion and narrows it to times that can have samples.
func (d Deletion) clip() (Deletion, error) {
	t := tombstone.Tombstone{Selectors: d.Selectors}
	switch err := t.Validate(); {
	case err != nil:
		return d, fmt.Errorf("%w: %w", ErrBadDeletion, err)
	case d.ToMs < d.FromMs:
		return d, fmt.Errorf("%w: it ends at %d ms, before it begins at %d ms", ErrBadDeletion, d.ToMs, d.FromMs)
	case !d.Everything && tombstone.Everything(d.Selectors):
		return d, fmt.Errorf("%w: %s", ErrDeletesEverything, tombstone.SelectorsText(d.Selectors))
	case len(tombstone.Append(nil, &tombstone.Tombstone{Selectors: d.Selectors})) > tombstone.BytesMax/2:
		return d, fmt.Errorf("%w: selectors of more than %d bytes", ErrBadDeletion, tombstone.BytesMax/2)
	}
	d.FromMs, d.ToMs = max(d.FromMs, 0), min(d.ToMs, timestampMaxMs)
	return d, nil
}

// recordRefsMax is the number of series in one log record of a deletion.
const recordRefsMax = 1 << 20

// DeleteSeries deletes samples. When it returns, nobody sees them any more, and that survives power loss; samples written
// later are not concerned. It returns the number of series that match and may have had samples there. Flushes wait
// meanwhile. An error other than those above may come after samples were deleted: sending it again does no harm. An error
// with storage.ErrUnavailable is worth a repetition.
func (i *Ingester) DeleteSeries(ctx context.Context, d Deletion) (series int, err error) {
	defer func() { err = retryable(err) }()
	if i.opts.Tombstones == nil {
		return 0, ErrNoDeletions
	}
	if d, err = d.clip(); err != nil || d.ToMs < d.FromMs {
		return 0, err
	}
	if err := i.Enter(); err != nil {
		return 0, err
	}
	defer i.Exit()
	i.flusher.Lock()
	defer i.flusher.Unlock()
	if err := i.opts.Tombstones.Room(); err != nil {
		return 0, err
	}
	if err := i.log.Refusing(); err != nil {
		return 0, err // before anything is deleted that the log cannot keep
	}
	if err := i.forgetFormers(ctx); err != nil {
		return 0, err
	}
	found, err := i.find().selected(ctx, d)
	if err != nil || len(found) == 0 {
		return 0, err
	}
	seq, err := i.sequence.Take(ctx, 1)
	if err != nil {
		return 0, err
	}
	t := &tombstone.Tombstone{
		ID: i.opts.Tombstones.NextID(), Seq: seq, FromMs: d.FromMs, ToMs: d.ToMs, MadeMs: i.opts.Now().UnixMilli(),
		Pending: true, Selectors: d.Selectors,
	}
	if err := i.carryOut(ctx, t, found); err != nil {
		return len(found), fmt.Errorf("delete %s: %w", t, err)
	}
	i.metrics.deletions.Inc()
	i.opts.Logger.Info("samples deleted", "deletion", t.String(), "series", len(found))
	return len(found), nil
}

// forgetFormers makes sure that the log has no samples of series that are forgotten: their numbers could not be named in a
// deletion, and replay would bring the samples back. The caller holds the flusher's lock.
func (i *Ingester) forgetFormers(ctx context.Context) error {
	if !i.flusher.LogHasForgotten() {
		return nil
	}
	return i.flusher.All(ctx)
}

// carryOut deletes: first in memory and for all reads of rows, at one moment; then in the log; then what is derived from
// samples. The caller holds the flusher's lock.
func (i *Ingester) carryOut(ctx context.Context, t *tombstone.Tombstone, found []index.Series) error {
	removal, err := i.opts.Index.StartRemoval()
	if err != nil {
		return err
	}
	defer removal.Close()
	var pos wal.Position
	change := func() (err error) {
		pos, err = i.cut(t, found, removal)
		return err
	}
	if err := i.announce(t, change); err != nil {
		return err
	}
	// There is no way back: whoever asked may have gone away, but it has to be finished.
	ctx = context.WithoutCancel(ctx)
	i.ChangedTimes(t.FromMs, t.ToMs)
	if err := i.log.Wait(ctx, pos); err != nil {
		return err
	}
	i.opts.Tombstones.Confirm(t.ID)
	if err := i.opts.Tombstones.Save(ctx); err != nil {
		return err
	}
	return i.settle(ctx, removal, t, found, false)
}

// announce lets whoever has to know of a deletion in advance carry out the change.
func (i *Ingester) announce(t *tombstone.Tombstone, change func() error) error {
	if i.opts.Deleting == nil {
		return change()
	}
	return i.opts.Deleting(t.FromMs, t.ToMs, change)
}

// cut deletes samples in memory and puts the tombstone in force.
func (i *Ingester) cut(t *tombstone.Tombstone, found []index.Series, removal *index.Removal) (pos wal.Position, err error) {
	type number struct {
		ref index.Ref
		log uint32
	}
	var numbers []number
	for _, s := range found {
		if log := i.head.LogRef(uint32(s.Ref)); s.Ref != 0 && log != 0 {
			numbers = append(numbers, number{s.Ref, log})
		}
	}
	slices.SortFunc(numbers, func(a, b number) int { return cmp.Compare(a.log, b.log) })
	logs, refs := make([]uint32, len(numbers)), make([]index.Ref, len(numbers))
	for n, x := range numbers {
		logs[n], refs[n] = x.log, x.ref
	}
	log := func() (err error) {
		pos, err = i.logDeletion(t, logs)
		return err
	}
	err = i.opts.Tombstones.Add(t, func() error { return i.deleteInHead(t, refs, removal, log) })
	return pos, err
}

// deleteInHead deletes samples of active series, and the hours in which they have none any more for sure.
func (i *Ingester) deleteInHead(t *tombstone.Tombstone, refs []index.Ref, removal *index.Removal, log func() error) error {
	numbers := make([]uint32, len(refs))
	for n, ref := range refs {
		numbers[n] = uint32(ref)
	}
	_, err := i.head.Delete(numbers, t.FromMs, t.ToMs, log, func() {
		if first, last := wholeHours(t); first <= last {
			removal.Clear(refs, first, last)
		}
	})
	return err
}

// logDeletion writes a deletion to the log; the stripes of the head are locked.
func (i *Ingester) logDeletion(t *tombstone.Tombstone, logs []uint32) (pos wal.Position, err error) {
	for {
		d := record.Deletion{Refs: logs[:min(len(logs), recordRefsMax)]}
		logs = logs[len(d.Refs):]
		if d.Last = len(logs) == 0; d.Last {
			d.Tombstone = tombstone.Append(nil, t)
		}
		if pos, err = i.log.Append(record.KindDeletion, record.AppendDeletion(nil, d)); err != nil || d.Last {
			return pos, err
		}
	}
}

// wholeHours are the first and last hour that are deleted as a whole; there is none if first is after last.
func wholeHours(t *tombstone.Tombstone) (first, last int64) {
	return (t.FromMs + keyschema.HourMs - 1) / keyschema.HourMs, (t.ToMs+1)/keyschema.HourMs - 1
}

// edgeHours are the hours of which a part is deleted.
func edgeHours(t *tombstone.Tombstone) []index.HourSpan {
	first, last := wholeHours(t)
	from, to := keyschema.HourOf(t.FromMs), keyschema.HourOf(t.ToMs)
	var out []index.HourSpan
	if from < first {
		out = append(out, index.HourSpan{First: from, Last: from})
	}
	if to > last && (to > from || len(out) == 0) {
		out = append(out, index.HourSpan{First: to, Last: to})
	}
	return out
}
