package index

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"halite/storage"
	"halite/storage/index/envelope"
	"halite/storage/index/presence"
	"halite/storage/index/segment"
)

// OpenReadOnly restores the index from tables that are open for reading only. It rebuilds unreadable days in memory from the
// data rows, and returns the days with damaged journals. It returns nil if there are no tables.
func OpenReadOnly(ctx context.Context, opts Options) (x *Index, damaged []int64, err error) {
	if err := opts.Validate(); err != nil {
		return nil, nil, err
	}
	opts.setDefaults()
	var t tables
	for name, to := range map[string]*storage.Table{
		storage.TableSeries: &t.series, storage.TableLabels: &t.labels, storage.TableMeta: &t.meta,
	} {
		if *to, err = opts.Store.Table(ctx, name); errors.Is(err, storage.ErrNoTable) {
			return nil, nil, nil
		} else if err != nil {
			return nil, nil, fmt.Errorf("index: table %s: %w", name, err)
		}
	}
	x = newIndex(opts, t, nil, false)
	if damaged, err = x.recovery.RestoreReadOnly(ctx); err != nil {
		return nil, nil, fmt.Errorf("index: restore the index: %w", err)
	}
	return x, damaged, nil
}

// Days returns the unix days in the index, ascending.
func (x *Index) Days() []int64 {
	days := map[int64]struct{}{}
	for _, d := range x.open.All() {
		days[d.Day] = struct{}{}
	}
	for _, c := range x.store.Closed.DaysBetween(0, presence.DayMax) {
		days[int64(c.Partition)] = struct{}{}
	}
	return slices.Sorted(maps.Keys(days))
}

// CheckCell verifies the checksum of a cell of the index. It accepts cells of other tables.
func CheckCell(table string, row, qualifier, value []byte) error {
	if table != storage.TableSeries && table != storage.TableLabels &&
		(table != storage.TableMeta || !bytes.HasPrefix(row, []byte(segment.LabelSetPrefix))) {
		return nil
	}
	ofManifest := bytes.HasPrefix(row, []byte(segment.ManifestPrefix)) || bytes.HasPrefix(row, []byte(segment.MonthManifestPrefix))
	if table == storage.TableSeries && ofManifest && string(qualifier) != string(rune(segment.QualManifest)) {
		return nil // intents and reservations may be empty
	}
	if _, _, err := envelope.OpenUpTo(envelope.FormatV3, value, row, qualifier); err != nil {
		return envelope.Corrupt(table, row, qualifier, err)
	}
	return nil
}
