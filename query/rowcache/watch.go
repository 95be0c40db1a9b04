package rowcache

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"halite/keyschema"
	"halite/storage"
	"halite/storage/changes"
)

// Watch has a version for each hour. The version grows with every write to a row of the hour. All writes to the data table
// must go through [Watch.Store].
type Watch struct {
	hours changes.Clock
	// newest is an hour after which the data table has no rows.
	newest atomic.Int64
}

// NewWatch returns a Watch that knows no write yet.
func NewWatch() *Watch {
	w := &Watch{}
	w.newest.Store(math.MaxInt64)
	return w
}

// NewestRow returns an hour after which the data table has no rows; math.MaxInt64 if there is no such hour.
func (w *Watch) NewestRow() int64 { return w.newest.Load() }

// FindNewestRow sets the result of NewestRow to the last hour of the newest day in the data table. The table must have no rows
// after today. Call FindNewestRow before any write. The engine must find the rows of a day without reading others.
func (w *Watch) FindNewestRow(ctx context.Context, data storage.Table, now time.Time) error {
	today := keyschema.HourOf(now.UnixMilli()) / keyschema.DayHours * keyschema.DayHours
	for _, first := range []int64{today + keyschema.DayHours, today} {
		some, err := anyRow(ctx, data, first)
		if err != nil {
			return fmt.Errorf("find the newest rows: %w", err)
		}
		if some {
			if first == today {
				w.newest.Store(today + keyschema.DayHours - 1)
			}
			return nil
		}
	}
	w.newest.Store(today - 1)
	return nil
}

// anyRow reports whether the table has rows of an hour or later.
func anyRow(ctx context.Context, data storage.Table, hour int64) (some bool, err error) {
	it := data.ReadRows(ctx, storage.RowSet{Ranges: []storage.RowRange{{}}}, storage.ReadOptions{
		Filter: storage.Filter{FromMs: keyschema.HourStartMs(hour), VersionsMax: 1, KeysOnly: true}, RowsMax: 1,
	})
	some = it.Next()
	return some, errors.Join(it.Err(), it.Close())
}

// raise raises the newest hour before a write to hours, which may have any order. nil means unknown hours.
func (w *Watch) raise(hours []int64) {
	newest := int64(math.MaxInt64)
	if hours != nil {
		newest = math.MinInt64
		for _, hour := range hours {
			newest = max(newest, hour)
		}
	}
	for {
		before := w.newest.Load()
		if newest <= before || w.newest.CompareAndSwap(before, newest) {
			return
		}
	}
}

// write runs a write to rows of hours. nil means unknown hours.
func (w *Watch) write(hours []int64, write func() error) error {
	w.raise(hours)
	return w.hours.During(hours, write)
}

// Store wraps s so that the watch sees the writes to its data table.
func (w *Watch) Store(s storage.Store) storage.Store {
	return storage.WrapData(s, func(t storage.Table) storage.Table { return &watchedTable{Table: t, watch: w} })
}

// A change of more than changingHoursMax hours counts as a write to all rows.
const changingHoursMax = 1 << 17

// During runs a change, other than a write, that affects reads from fromMs to toMs.
func (w *Watch) During(fromMs, toMs int64, change func() error) error {
	first, last := keyschema.HourOf(fromMs), keyschema.HourOf(toMs)
	if last-first >= changingHoursMax {
		return w.hours.During(nil, change)
	}
	hours := make([]int64, 0, last-first+1)
	for hour := first; hour <= last; hour++ {
		hours = append(hours, hour)
	}
	return w.hours.During(hours, change)
}

// hoursOfRows lists the hours of the rows of mutations. It returns nil if a key has no hour.
func hoursOfRows(muts []storage.RowMutation) []int64 {
	hours := make([]int64, 0, 1)
	last := int64(math.MinInt64)
	for i := range muts {
		_, hour, ok := keyschema.CutHour(muts[i].Key)
		if !ok {
			return nil
		}
		if hour == last {
			continue
		}
		last = hour
		hours = append(hours, hour)
	}
	return hours
}

type watchedTable struct {
	storage.Table
	watch *Watch
}

// Apply implements storage.Table.
func (t *watchedTable) Apply(ctx context.Context, muts []storage.RowMutation) error {
	return t.watch.write(hoursOfRows(muts), func() error { return t.Table.Apply(ctx, muts) })
}

// Load implements storage.Table.
func (t *watchedTable) Load(ctx context.Context, muts []storage.RowMutation) error {
	return t.watch.write(hoursOfRows(muts), func() error { return t.Table.Load(ctx, muts) })
}

// CheckAndApply implements storage.Table.
func (t *watchedTable) CheckAndApply(
	ctx context.Context, key []byte, cond storage.Filter, then, otherwise storage.RowMutation,
) (matched bool, err error) {
	err = t.watch.write(nil, func() (err error) {
		matched, err = t.Table.CheckAndApply(ctx, key, cond, then, otherwise)
		return err
	})
	return matched, err
}

// DropRows implements storage.Table.
func (t *watchedTable) DropRows(ctx context.Context, r storage.RowRange) error {
	return t.watch.hours.During(nil, func() error { return t.Table.DropRows(ctx, r) })
}

var (
	_ storage.Table = (*watchedTable)(nil)
)

// hourVersions are the versions of consecutive hours.
type hourVersions struct {
	first    int64
	versions []uint64
}

func (w *Watch) versionsOf(first, last int64) hourVersions {
	return hourVersions{first, w.hours.Append(nil, first, last)}
}

func (e hourVersions) at(hour int64) uint64 { return e.versions[hour-e.first] }
