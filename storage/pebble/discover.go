package pebble

import (
	"bytes"
	"errors"
	"log/slog"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"halite/storage"
	"halite/storage/pebble/cellkey"
	"halite/storage/pebble/fault"
	"halite/storage/pebble/partition"
	"halite/storage/pebble/recovery"
)

// daysProbedMax is the last unix day to probe if no file bound gives one. It is the day of the last row key, see
// cellkey.HourValueMax.
const daysProbedMax = cellkey.HourValueMax / 24

// discoverPartitions finds the days that have cells. If blocks are damaged, it uses probePartitions.
func (t *Table) discoverPartitions() error {
	err := t.seekPartitions()
	if errors.Is(err, storage.ErrCorrupt) {
		t.store.health.Report("a table is damaged; reads that need the damaged part fail", slog.LevelError, "table",
			t.record().Name, "err", err)
		err = t.probePartitions()
	}
	if err != nil {
		return err
	}
	for _, b := range t.record().DayChunkDays {
		i := slices.IndexFunc(t.families, func(f *partition.Family) bool { return f.ID == b.Family })
		if i < 0 {
			continue
		}
		if state := t.families[i].Days.Load().State(b.Day); state != nil {
			state.HasDayChunks.Store(true)
			state.Complete = b.Complete
		}
	}
	return nil
}

// seekPartitions finds the days that have keys, with one seek each.
func (t *Table) seekPartitions() (err error) {
	lower := cellkey.NewHeader(t.id, 0, cellkey.DayMax)
	it, err := t.store.db.NewIter(&pebble.IterOptions{LowerBound: cellkey.AppendPartitionStart(nil, lower),
		UpperBound: cellkey.AppendPartitionStart(nil, cellkey.NewHeader(t.id+1, 0, cellkey.DayMax))})
	if err != nil {
		return fault.Wrap("find partitions", err)
	}
	defer func() { err = fault.CloseIter(it, err) }()
	byID := make(map[uint8]*partition.Family, len(t.families))
	for _, f := range t.families {
		byID[f.ID] = f
	}
	var seek []byte
	for ok := it.First(); ok; ok = it.SeekGE(seek) {
		var h cellkey.Header
		copy(h[:], it.Key())
		f := byID[h[cellkey.TableIDBytes]]
		if f == nil {
			return cellkey.Damaged(it.Key())
		}
		f.Days.Add(h.Day())
		seek = cellkey.AppendPartitionStart(seek[:0], h.Next())
	}
	return nil
}

// probePartitions finds the days of a table despite damaged blocks. It looks up the first key of each day within the bounds
// of the files. A day whose look-up fails counts as live, so reads of it fail too.
func (t *Table) probePartitions() (err error) {
	it, err := t.store.db.NewIter(nil)
	if err != nil {
		return fault.Wrap("find partitions", err)
	}
	defer func() { err = fault.CloseIter(it, err) }()
	for _, f := range t.families {
		for day := range t.boundedDays(f) {
			h := cellkey.NewHeader(t.id, f.ID, day)
			it.SetBounds(cellkey.AppendPartitionStart(nil, h), cellkey.AppendPartitionStart(nil, h.Next()))
			if it.First() {
				f.Days.Add(day)
			} else if err := it.Error(); fault.IsDamage(err) {
				f.Days.Add(day)
			} else if err != nil {
				return err
			}
		}
	}
	// The next seek clears the last error, because the error affects only one day.
	it.SetBounds([]byte{0}, []byte{cellkey.Sentinel})
	it.First()
	return nil
}

// boundedDays returns the days of a family within the bounds of the files.
func (t *Table) boundedDays(f *partition.Family) map[int32]struct{} {
	days := map[int32]struct{}{}
	for _, file := range recovery.TreeFiles(t.store.db) {
		for _, p := range file.Parts {
			if len(p.First) < cellkey.HeaderBytes || len(p.Last) < cellkey.HeaderBytes {
				continue
			}
			var from, to cellkey.Header
			copy(from[:], p.First)
			copy(to[:], p.Last)
			own := cellkey.NewHeader(t.id, f.ID, 0)
			if bytes.Compare(from[:cellkey.TableIDBytes+1], own[:cellkey.TableIDBytes+1]) > 0 ||
				bytes.Compare(to[:cellkey.TableIDBytes+1], own[:cellkey.TableIDBytes+1]) < 0 {
				continue
			}
			newest, oldest := from.Day(), to.Day()
			if !bytes.Equal(from[:cellkey.TableIDBytes+1], own[:cellkey.TableIDBytes+1]) {
				newest = daysProbedMax
			}
			if !bytes.Equal(to[:cellkey.TableIDBytes+1], own[:cellkey.TableIDBytes+1]) {
				oldest = 0
			}
			for day := oldest; day <= newest; day++ {
				days[day] = struct{}{}
			}
		}
	}
	return days
}
