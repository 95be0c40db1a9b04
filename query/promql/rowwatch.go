package promql

import (
	"context"
	"math"
	"sync"

	"halite/keyschema"
	"halite/storage"
)

// RowWatch knows when rows of an hour were last written, so that decoded rows can be kept. All that writes to the data
// table has to do so through [RowWatch.Store].
type RowWatch struct {
	mu    sync.Mutex
	hours map[int64]uint64 // epochs of hours that were written
	epoch uint64           // the last that was given out
	floor uint64           // the epoch of all other hours
}

// watchedHoursMax bounds the hours that are told apart; beyond that all rows count as written.
const watchedHoursMax = 1 << 17

// NewRowWatch makes a watch that has seen nothing.
func NewRowWatch() *RowWatch { return &RowWatch{hours: map[int64]uint64{}} }

// Store is s with the watch set on its data table.
func (w *RowWatch) Store(s storage.Store) storage.Store { return &watchedStore{Store: s, watch: w} }

// appendEpochs appends the epochs of the hours from first to last: each grows with every write to a row of its hour.
// What a read of rows gives that begins later is as of that epoch or newer.
func (w *RowWatch) appendEpochs(dst []uint64, first, last int64) []uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	for hour := first; hour <= last; hour++ {
		dst = append(dst, max(w.floor, w.hours[hour]))
	}
	return dst
}

// latest is the largest epoch of any hour.
func (w *RowWatch) latest() uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.epoch
}

// changing tells of a write to rows of some hours, nil meaning any. It is called before a reader can see the write and
// again before the writer learns that it is done: what is read in between is not kept for longer.
func (w *RowWatch) changing(hours []int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.epoch++
	if hours == nil || len(w.hours)+len(hours) > watchedHoursMax {
		clear(w.hours)
		w.floor = w.epoch
		return
	}
	for _, hour := range hours {
		w.hours[hour] = w.epoch
	}
}

// during makes a write known on both sides of it.
func (w *RowWatch) during(hours []int64, write func() error) error {
	w.changing(hours)
	defer w.changing(hours)
	return write()
}

// Changing tells of a change to what reads of rows from fromMs to toMs give, which is not a write.
func (w *RowWatch) Changing(fromMs, toMs int64, change func() error) error {
	first, last := keyschema.HourOf(fromMs), keyschema.HourOf(toMs)
	if last-first >= watchedHoursMax {
		return w.during(nil, change)
	}
	hours := make([]int64, 0, last-first+1)
	for hour := first; hour <= last; hour++ {
		hours = append(hours, hour)
	}
	return w.during(hours, change)
}

// hoursOfRows lists the hours of the rows of mutations; nil if one has no hour.
func hoursOfRows(muts []storage.RowMutation) []int64 {
	hours := make([]int64, 0, 1)
	last := int64(math.MinInt64)
	for i := range muts {
		hour, ok := rowHour(muts[i].Key)
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

// rowHour reads the hour at the end of a row key.
func rowHour(key []byte) (int64, bool) {
	if len(key) < rowHourDigits {
		return 0, false
	}
	hour, err := hourOf(key, key[:len(key)-rowHourDigits])
	return hour, err == nil
}

const rowHourDigits = 7

type watchedStore struct {
	storage.Store
	watch *RowWatch
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
	watch *RowWatch
}

// Apply implements storage.Table.
func (t *watchedTable) Apply(ctx context.Context, muts []storage.RowMutation) error {
	return t.watch.during(hoursOfRows(muts), func() error { return t.Table.Apply(ctx, muts) })
}

// Load implements storage.Table.
func (t *watchedTable) Load(ctx context.Context, muts []storage.RowMutation) error {
	return t.watch.during(hoursOfRows(muts), func() error { return t.Table.Load(ctx, muts) })
}

// CheckAndApply implements storage.Table.
func (t *watchedTable) CheckAndApply(
	ctx context.Context, key []byte, cond storage.Filter, then, otherwise storage.RowMutation,
) (matched bool, err error) {
	err = t.watch.during(nil, func() (err error) {
		matched, err = t.Table.CheckAndApply(ctx, key, cond, then, otherwise)
		return err
	})
	return matched, err
}

// DropRows implements storage.Table.
func (t *watchedTable) DropRows(ctx context.Context, r storage.RowRange) error {
	return t.watch.during(nil, func() error { return t.Table.DropRows(ctx, r) })
}

var (
	_ storage.Store = (*watchedStore)(nil)
	_ storage.Table = (*watchedTable)(nil)
)

// hourEpochs are the epochs of neighbouring hours.
type hourEpochs struct {
	first  int64
	epochs []uint64
}

func (w *RowWatch) epochsOf(first, last int64) hourEpochs {
	return hourEpochs{first, w.appendEpochs(nil, first, last)}
}

func (e hourEpochs) of(hour int64) uint64 { return e.epochs[hour-e.first] }
