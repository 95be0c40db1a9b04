package recovery

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"halite/storage"
	"halite/storage/index/compaction"
	"halite/storage/index/envelope"
	"halite/storage/index/presence"
	"halite/storage/index/segment"
)

// If several processes share the tables, each record of a journal lists series and the hours in which they have samples. No
// record refers to another one. Records may repeat each other, in any order. A compaction deletes a record only after a segment
// contains it. The other processes notice the segment by the generation in the manifest's row.

// Refresh reads the records of other processes since the last call. Their series and hours become visible. Look-ups then read
// compacted days from their segments.
func (r *Recovery) Refresh(ctx context.Context) error {
	r.refreshMu.Lock()
	defer r.refreshMu.Unlock()
	if err := r.refresh(ctx); err != nil {
		return fmt.Errorf("read what other servers have written: %w", err)
	}
	return nil
}

func (r *Recovery) refresh(ctx context.Context) error {
	changed, err := r.readNew(ctx)
	if err != nil {
		return err
	}
	for _, p := range changed {
		if err := r.follow(ctx, p); err != nil {
			return err
		}
	}
	for _, day := range slices.Sorted(maps.Keys(r.damaged)) {
		if err := r.repairShared(ctx, day); err != nil {
			return err
		}
		delete(r.damaged, day)
	}
	return nil
}

// readNew reads the new records and lists the partitions with a new generation. Manifests come before records in the table. So
// if a compaction deletes a record first, readNew misses it at most once: the next call sees the generation that contains it.
// A failed scan may miss any record, so the next scan begins at the same place.
func (r *Recovery) readNew(ctx context.Context) (changed []presence.Partition, err error) {
	rows := segment.ManifestRows()
	r.opts.Lock.Lock()
	rows.Ranges = append(rows.Ranges, r.journal.Unread()...)
	r.opts.Lock.Unlock()
	it := r.store.SeriesTable.ReadRows(ctx, rows, storage.ReadOptions{Filter: storage.Filter{
		QualifierStart: []byte{segment.QualGen}, QualifierEnd: []byte{segment.QualRecord + 1}, VersionsMax: 1,
	}})
	defer func() { _ = it.Close() }()
	reader := r.journal.NewReader()
	defer reader.Close()
	for it.Next() {
		row := it.Row()
		kind, p, seq, err := segment.ParseKey(row.Key)
		switch {
		case err != nil:
			return nil, envelope.Corrupt(storage.TableSeries, row.Key, nil, err)
		case kind == segment.QualManifest && r.isNew(p, row):
			changed = append(changed, p)
		case kind == segment.KindWriterRecord:
			r.opts.Lock.Lock()
			ok := reader.Read(row, p.FirstDay(), seq)
			r.opts.Lock.Unlock()
			if !ok {
				r.damaged[p.FirstDay()] = struct{}{}
			}
		}
	}
	if err := it.Err(); err != nil {
		return nil, err
	}
	r.opts.Lock.Lock()
	r.journal.EndScan()
	r.opts.Lock.Unlock()
	return changed, nil
}

// isNew reports whether a manifest's row names a generation other than the current one, or a generation that follow failed to
// read.
func (r *Recovery) isNew(p presence.Partition, row storage.Row) bool {
	if _, behind := r.behind[p]; behind {
		return true
	}
	for _, c := range row.Cells {
		if string(c.Qualifier) != string(rune(segment.QualGen)) {
			continue
		}
		payload, err := envelope.Open(c.Value, row.Key, c.Qualifier)
		if err != nil {
			return true
		}
		gen, err := compaction.ParseGeneration(payload)
		known := r.store.Closed.Get(p)
		return err != nil || known == nil || known.Gen.Load() != gen
	}
	return false
}

// followTriesMax bounds the retries of follow after a compaction of the day. Compactions are minutes apart.
const followTriesMax = 3

// follow makes a partition's new segment visible and removes its hours from memory.
func (r *Recovery) follow(ctx context.Context, p presence.Partition) (err error) {
	r.opts.Lock.Lock()
	defer r.opts.Lock.Unlock()
	r.behind[p] = struct{}{}
	defer func() {
		if err == nil {
			delete(r.behind, p)
		}
	}()
	for range followTriesMax {
		m, err := r.store.ReadManifest(ctx, p)
		if err != nil {
			return err
		}
		r.store.Closed.Install(p, m)
		r.store.Cache.Drop(p)
		if p.IsMonth() {
			return nil
		}
		// The day consists of its segment and the remaining records. If the segment is the same before and after this read, it
		// contains every record that was deleted before the read.
		day := p.FirstDay()
		remaining, damaged, err := r.journal.ReadRemaining(ctx, day)
		if err != nil {
			return err
		}
		if damaged {
			if err := r.repairJournal(ctx, day); err != nil {
				return err
			}
		}
		again, err := r.store.ReadManifest(ctx, p)
		if err != nil {
			return err
		}
		if again.Gen == m.Gen {
			if d := r.open.Get(day); d != nil {
				r.open.KeepJournal(d, remaining)
			}
			return nil
		}
	}
	return nil // additional hours in memory are correct; the next Refresh removes them
}

// repairShared rebuilds a day with a damaged record from the data rows. Other processes may do the same.
func (r *Recovery) repairShared(ctx context.Context, day int64) error {
	r.opts.Lock.Lock()
	defer r.opts.Lock.Unlock()
	return r.repairJournal(ctx, day)
}

// replacedTimeout bounds the read of a manifest in Replaced.
const replacedTimeout = 10 * time.Second

// Replaced reports whether another process has replaced generation gen of a partition. A reader calls it if a cell is missing
// or broken.
func Replaced(store *segment.Store, h *segment.Handle, gen uint32) bool {
	ctx, cancel := context.WithTimeout(context.Background(), replacedTimeout)
	defer cancel()
	m, err := store.ReadManifest(ctx, h.Partition)
	if err != nil || m.Gen == gen {
		return false
	}
	h.Manifest.Store(m) // h.Gen stays, so that Refresh removes the hours of the segment from memory
	return true
}
