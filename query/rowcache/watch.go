package rowcache

import (
	"context"
	"math"

	"halite/keyschema"
	"halite/storage"
	"halite/storage/changes"
)

// Watch holds a version for each hour, which grows with every write to a row of the hour. All writes to the data table have to
// go through [Watch.Store].
type Watch struct{ hours changes.Clock }

// NewWatch makes a watch.
func NewWatch() *Watch { return &Watch{} }

// Store wraps s so that the watch sees the writes to its data table.
func (w *Watch) Store(s storage.Store) storage.Store { return &watchedStore{Store: s, watch: w} }

// A change of more than changingHoursMax hours counts as a write to all rows.
const changingHoursMax = 1 << 17

// During runs a change, other than a write, to what reads return for times from fromMs to toMs.
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

type watchedStore struct {
	storage.Store
	watch *Watch
}

// EnsureTable implements storage.Store.
func (s *watchedStore) EnsureTable(ctx context.Context, schema storage.TableSchema) (storage.Table, error) {
	return s.watched(s.Store.EnsureTable(ctx, schema))
}

// Table implements storage.Store.
func (s *watchedStore) Table(ctx context.Context, name string) (storage.Table, error) {
	return s.watched(s.Store.Table(ctx, name))
}

func (s *watchedStore) watched(t storage.Table, err error) (storage.Table, error) {
	if err != nil || t.Schema().Name != storage.TableData {
		return t, err
	}
	return &watchedTable{Table: t, watch: s.watch}, nil
}

type watchedTable struct {
	storage.Table
	watch *Watch
}

// Apply implements storage.Table.
func (t *watchedTable) Apply(ctx context.Context, muts []storage.RowMutation) error {
	return t.watch.hours.During(hoursOfRows(muts), func() error { return t.Table.Apply(ctx, muts) })
}

// Load implements storage.Table.
func (t *watchedTable) Load(ctx context.Context, muts []storage.RowMutation) error {
	return t.watch.hours.During(hoursOfRows(muts), func() error { return t.Table.Load(ctx, muts) })
}

// CheckAndApply implements storage.Table.
func (t *watchedTable) CheckAndApply(
	ctx context.Context, key []byte, cond storage.Filter, then, otherwise storage.RowMutation,
) (matched bool, err error) {
	err = t.watch.hours.During(nil, func() (err error) {
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
	_ storage.Store = (*watchedStore)(nil)
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

func (e hourVersions) of(hour int64) uint64 { return e.versions[hour-e.first] }
