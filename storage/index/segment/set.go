package segment

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"halite/storage"
	"halite/storage/index/envelope"
	"halite/storage/index/presence"
	"halite/storage/index/valueid"
)

// Set holds the days and months that have segments.
type Set struct {
	mu     sync.RWMutex
	days   map[int64]*Handle
	months map[presence.Partition]*Handle
}

func NewSet() *Set {
	return &Set{days: map[int64]*Handle{}, months: map[presence.Partition]*Handle{}}
}

// Handle is a partition that has a segment.
type Handle struct {
	Partition presence.Partition
	Gen       atomic.Uint32            // from the manifest; 0 if the manifest is damaged
	Manifest  atomic.Pointer[Manifest] // nil until the first use
	// Dropped is set if the manifest has dropped metrics that the day's month still contains.
	Dropped atomic.Bool
	// failed is the reason why the manifest cannot be read; nil if a read may succeed.
	failed atomic.Pointer[error]
	// Broken is set for a damaged month. Look-ups read its days instead, until the next compaction.
	Broken atomic.Bool
}

var (
	// ErrStale is returned if a compaction replaced the generation during the read. The caller reads the partition again.
	ErrStale = errors.New("a compaction has replaced the segment during the read")
)

func (c *Set) Day(day int64) *Handle {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.days[day]
}

func (c *Set) Month(p presence.Partition) *Handle {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.months[p]
}

// Get returns the handle of a day or month, or nil if it has no segment.
func (c *Set) Get(p presence.Partition) *Handle {
	if p.IsMonth() {
		return c.Month(p)
	}
	return c.Day(int64(p))
}

// DaysBetween returns the closed days in [from, to], ascending.
func (c *Set) DaysBetween(from, to int64) []*Handle {
	c.mu.RLock()
	defer c.mu.RUnlock()
	var out []*Handle
	for day, d := range c.days {
		if day >= from && day <= to {
			out = append(out, d)
		}
	}
	slices.SortFunc(out, func(a, b *Handle) int { return cmp.Compare(a.Partition, b.Partition) })
	return out
}

// MonthDays are the closed days of a month that a query needs, and the segment of the month if it has one.
type MonthDays struct {
	Month     *Handle
	Partition presence.Partition
	Days      []*Handle
}

// ByMonth returns the closed days in [from, to] by month, ascending.
func (c *Set) ByMonth(from, to int64) []MonthDays {
	var out []MonthDays
	var next int64 // first day after the last month in out
	for _, d := range c.DaysBetween(from, to) {
		if day := d.Partition.FirstDay(); len(out) == 0 || day >= next {
			m := presence.MonthOf(day)
			next = m.LastDay() + 1
			out = append(out, MonthDays{Month: c.Month(m), Partition: m})
		}
		k := len(out) - 1
		out[k].Days = append(out[k].Days, d)
	}
	return out
}

// AllMonths returns the months that have segments.
func (c *Set) AllMonths() []*Handle {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return slices.Collect(maps.Values(c.months))
}

// Install makes a partition's new manifest visible to readers.
func (c *Set) Install(p presence.Partition, r *Manifest) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f := c.Ensure(p)
	f.Manifest.Store(r)
	f.Gen.Store(r.Gen)
	f.Dropped.Store(len(r.Dropped) > 0)
	f.Broken.Store(false)
	f.failed.Store(nil)
}

// Fail makes each use of the partition fail until it has a new segment.
func (f *Handle) Fail(err error) { f.failed.Store(&err) }

// Ensure returns the handle of a partition, and creates the handle if needed. The caller holds mu.
func (c *Set) Ensure(p presence.Partition) *Handle {
	f := &Handle{Partition: p}
	if p.IsMonth() {
		if old := c.months[p]; old != nil {
			return old
		}
		c.months[p] = f
		return f
	}
	if old := c.days[int64(p)]; old != nil {
		return old
	}
	c.days[int64(p)] = f
	return f
}

func (c *Set) Remove(p presence.Partition) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p.IsMonth() {
		delete(c.months, p)
	} else {
		delete(c.days, int64(p))
	}
}

// Manifest returns the manifest of a partition, and reads it if needed.
func (x *Store) Manifest(ctx context.Context, f *Handle) (*Manifest, error) {
	if r := f.Manifest.Load(); r != nil {
		return r, nil
	}
	if err := f.failed.Load(); err != nil {
		return nil, *err
	}
	r, err := x.ReadManifest(ctx, f.Partition)
	if err != nil {
		return nil, err
	}
	f.Manifest.CompareAndSwap(nil, r) // a compaction may have installed a newer one
	return f.Manifest.Load(), nil
}

// ReadManifest reads the manifest of a partition from the table.
func (x *Store) ReadManifest(ctx context.Context, p presence.Partition) (*Manifest, error) {
	m, err := x.FindManifest(ctx, p)
	if err != nil {
		return nil, err
	}
	if m == nil {
		return nil, envelope.Corrupt(storage.TableSeries, ManifestKey(p), []byte{QualManifest}, envelope.ErrMissing)
	}
	return m, nil
}

// FindManifest is ReadManifest, but it returns nil if there is no manifest.
func (x *Store) FindManifest(ctx context.Context, p presence.Partition) (*Manifest, error) {
	key, qualifier := ManifestKey(p), []byte{QualManifest}
	value, err := ReadCell(ctx, x.SeriesTable, p.CellMs(), key, qualifier)
	if err != nil || value == nil {
		return nil, err
	}
	m, err := openManifest(value, key, qualifier, p)
	if err != nil {
		return nil, envelope.Corrupt(storage.TableSeries, key, qualifier, err)
	}
	return m, nil
}

// openManifest reads the stored value of a manifest.
func openManifest(value, key, qualifier []byte, p presence.Partition) (*Manifest, error) {
	payload, format, err := envelope.OpenUpTo(envelope.FormatV3, value, key, qualifier)
	if err != nil {
		return nil, err
	}
	return ParseManifest(payload, format, p)
}

// RawCell is a copied cell.
type RawCell struct{ Key, Qualifier, Value []byte }

// clonePadded copies a value with spare capacity after it, so that columns of bits need no second copy.
func clonePadded(value []byte) []byte {
	return append(make([]byte, 0, len(value)+valueid.PadBytes), value...)
}

// ReadCells reads and copies the cells of rows whose qualifiers lie in [start, end) and whose timestamp is atMs. The
// timestamp limits an engine that places cells by time to one place.
func ReadCells(ctx context.Context, t storage.Table, atMs int64, keys [][]byte, start, end []byte) ([]RawCell, error) {
	it := t.ReadRows(ctx, storage.RowSet{Keys: keys}, storage.ReadOptions{Filter: storage.Filter{
		QualifierStart: start, QualifierEnd: end, FromMs: atMs, ToMs: atMs + 1, VersionsMax: 1,
	}})
	defer func() { _ = it.Close() }() // the caller has checked Err
	var out []RawCell
	for it.Next() {
		row := it.Row()
		key := slices.Clone(row.Key)
		for _, c := range row.Cells {
			out = append(out, RawCell{Key: key, Qualifier: slices.Clone(c.Qualifier), Value: clonePadded(c.Value)})
		}
	}
	if err := it.Err(); err != nil {
		return nil, fmt.Errorf("index: read index: %w", err)
	}
	return out, nil
}

// ReadCell reads one cell. It returns nil if the cell does not exist.
func ReadCell(ctx context.Context, t storage.Table, atMs int64, key, qualifier []byte) ([]byte, error) {
	end := append(slices.Clone(qualifier), 0)
	cells, err := ReadCells(ctx, t, atMs, [][]byte{key}, qualifier, end)
	if err != nil || len(cells) == 0 {
		return nil, err
	}
	return cells[0].Value, nil
}

// Reset removes all partitions. The caller calls it before the first read.
func (c *Set) Reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.days)
	clear(c.months)
}
