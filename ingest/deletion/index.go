package deletion

import (
	"context"
	"slices"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"halite/storage"
	"halite/storage/index"
	"halite/storage/index/presence"
	"halite/storage/tombstone"
)

const (
	// IndexDelay is the age of a deletion at which its hours without samples leave the index. Deletions within this time
	// share one rewrite of a day.
	IndexDelay = 30 * time.Minute
	// MaintainInterval is the time between two checks for deletions older than IndexDelay.
	MaintainInterval = 5 * time.Minute
	// batchSeries is the number of series whose rows are read in one batch.
	batchSeries = 1024
)

// Pending lists the tombstones whose hours without samples the index may still list. due is set if one of them is older than
// IndexDelay.
func Pending(set *tombstone.Set, now time.Time) (pending []*tombstone.Tombstone, due bool) {
	view := set.View()
	defer view.Release()
	for _, t := range view.List() {
		if t.Pending {
			pending = append(pending, t)
			due = due || now.UnixMilli()-t.MadeMs >= IndexDelay.Milliseconds()
		}
	}
	return pending, due
}

// IDs lists the ids of tombstones.
func IDs(list []*tombstone.Tombstone) []uint64 {
	ids := make([]uint64, len(list))
	for n, t := range list {
		ids[n] = t.ID
	}
	return ids
}

// Removal removes the hours without samples from the index, for all series that a tombstone matches and all days that it
// overlaps. list must not be empty. Removal checks whole days, because a deletion removes the rollup state of a day with all
// its hours.
func (sc Scanner) Removal(list []*tombstone.Tombstone) index.HourRemoval {
	fromMs, toMs := Bounds(list)
	return index.HourRemoval{
		First: presence.FirstHour(fromMs / storage.DayMs), Last: presence.LastHour(toMs / storage.DayMs),
		Matchers: func(day int64) (selectors [][]*labels.Matcher) {
			for _, t := range list {
				if t.Overlaps(day*storage.DayMs, (day+1)*storage.DayMs-1) {
					selectors = append(selectors, t.Selectors...)
				}
			}
			return selectors
		},
		Emptied: func(ctx context.Context, series []index.Series) (out [][]presence.Span, err error) {
			for batch := range slices.Chunk(series, batchSeries) {
				empty, err := sc.emptyHours(ctx, batch)
				if err != nil {
					return nil, err
				}
				out = append(out, empty...)
			}
			return out, nil
		},
	}
}

// emptyHours lists the hours of each series that have neither a row nor a rollup state.
func (sc Scanner) emptyHours(ctx context.Context, series []index.Series) ([][]presence.Span, error) {
	rows, err := sc.RowHours(ctx, series)
	if err != nil {
		return nil, err
	}
	out := make([][]presence.Span, len(series))
	for n := range series {
		forEachHour(series[n].Hours, func(hour int64) {
			if !rows[n][hour] {
				out[n] = append(out[n], presence.Span{First: hour, Last: hour})
			}
		})
	}
	// Retention drops rows before states.
	return out, sc.omitHoursWithStates(ctx, series, out)
}

func forEachHour(spans []presence.Span, visit func(hour int64)) {
	for _, span := range spans {
		for hour := span.First; hour <= span.Last; hour++ {
			visit(hour)
		}
	}
}

// Maintain removes hours without samples from the index once a deletion is older than IndexDelay. The caller runs it every
// MaintainInterval.
func (d *Deleter) Maintain(ctx context.Context) error {
	if _, due := Pending(d.opts.Tombstones, d.opts.Now()); !due || !d.cleanMu.TryLock() {
		return nil // the running cleaning does the same
	}
	defer d.cleanMu.Unlock()
	return d.cleanIndex(ctx, indexPause)
}

// indexPause is the pause of Maintain after the rewrite of a day, as a multiple of its duration.
const indexPause = 3

// CleanIndex removes hours without samples from the index, for all deletions so far.
func (d *Deleter) CleanIndex(ctx context.Context) error {
	d.cleanMu.Lock()
	defer d.cleanMu.Unlock()
	return d.cleanIndex(ctx, 0)
}

// cleanIndex is CleanIndex with pauses. The caller holds cleanMu.
func (d *Deleter) cleanIndex(ctx context.Context, pause int) error {
	pending, _ := Pending(d.opts.Tombstones, d.opts.Now())
	if len(pending) == 0 {
		return nil
	}
	r := d.scanner().Removal(pending)
	r.Flushes, r.Pause = d.opts.Flusher, pause
	r.Unflushed = func(ref index.Ref, visit func(has func(hour int64) bool)) { d.opts.Head.Hours(uint32(ref), visit) }
	if err := d.opts.Index.RemoveHours(ctx, r); err != nil {
		return err
	}
	return d.opts.Tombstones.MarkIndexed(ctx, IDs(pending)...)
}
