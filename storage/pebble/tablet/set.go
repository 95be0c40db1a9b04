package tablet

import (
	"bytes"
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"

	"halite/storage"
	"halite/storage/pebble/cellkey"
	"halite/storage/pebble/fault"
	"halite/storage/pebble/partition"
)

const (
	// tabletsPerTableMax bounds the metadata of a table.
	tabletsPerTableMax = 1024
	// tableSamplesMax bounds the sampled row keys of a table. Each tablet keeps at least tabletSamplesMin and at most
	// tabletSamplesMax of them.
	tableSamplesMax  = 8192
	tabletSamplesMin = 64
	tabletSamplesMax = 1024
	// sampleRows is the sampling rate: a write offers one of sampleRows consecutive rows.
	sampleRows = 64
)

// Set divides a table's rows into tablets, which are contiguous ranges, and counts their load. The division is metadata
// only: it does not move or constrain data.
type Set struct {
	c    Config
	mu   sync.RWMutex // held while list changes
	list []*tablet    // by start; the first starts at the empty key

	checkMu      sync.Mutex
	bytesWritten atomic.Int64 // since the last check
	rowsTouched  atomic.Int64 // since the last check
}

// Config describes the table: its partitions, its limits, and where to save split keys.
type Config struct {
	TableID  uint16
	Layout   cellkey.Layout
	Families []*partition.Family
	DB       *pebble.DB
	// BytesMax is the size at which a tablet splits.
	BytesMax int64
	// RowsHot is the number of rows read and written between two checks at which a tablet splits.
	RowsHot int64
	// Save stores the split keys.
	Save func(ctx context.Context, splits [][]byte) error
	// Changed gets each split and merge after it is in force; nil drops them. It must not block.
	Changed func(kind string, key []byte, reason string)
}

// tablet is one range. It ends where the next tablet starts. The bounds do not change while the tablet exists.
type tablet struct {
	start, end []byte

	rowsWritten, rowsRead   atomic.Uint64
	bytesWritten, bytesRead atomic.Uint64
	unflushed               atomic.Uint64 // approximate bytes that are not in a file yet
	rowsAtCheck             uint64        // rowsWritten+rowsRead at the last check

	mu      sync.Mutex
	samples [][]byte // every stride-th offered row key, in arrival order
	stride  int      // a power of two; 0 is 1
	skipped int
}

func NewSet(c Config) *Set { return &Set{c: c, list: []*tablet{{}}} }

// Restore sets the split keys that an earlier process saved.
func (ts *Set) Restore(splits [][]byte) {
	list := []*tablet{{}}
	for _, key := range splits {
		last := list[len(list)-1]
		if bytes.Compare(key, last.start) <= 0 {
			continue
		}
		last.end = key
		list = append(list, &tablet{start: key})
	}
	ts.mu.Lock()
	ts.list = list
	ts.mu.Unlock()
}

func (tb *tablet) contains(key []byte) bool {
	return (len(tb.start) == 0 || bytes.Compare(key, tb.start) >= 0) && (tb.end == nil || bytes.Compare(key, tb.end) < 0)
}

// find returns the tablet of a key.
func (ts *Set) find(key []byte) *tablet {
	ts.mu.RLock()
	defer ts.mu.RUnlock()
	i, ok := slices.BinarySearchFunc(ts.list, key, func(tb *tablet, k []byte) int { return bytes.Compare(tb.start, k) })
	if !ok {
		i--
	}
	return ts.list[i]
}

// Snapshot returns the tablets in order.
func (ts *Set) Snapshot() []*tablet {
	ts.mu.RLock()
	defer ts.mu.RUnlock()
	return slices.Clone(ts.list)
}

// Applied counts rows that are in the memtables now, except those that skip selects; a nil skip selects none.
func (ts *Set) Applied(muts []storage.RowMutation, skip func(i int) bool) { ts.wrote(muts, skip, true) }

// Loaded counts rows that are in files now.
func (ts *Set) Loaded(muts []storage.RowMutation) { ts.wrote(muts, nil, false) }

func (ts *Set) wrote(muts []storage.RowMutation, skip func(i int) bool, unflushed bool) {
	keep := ts.samplesMax()
	var tb *tablet
	var rows, sizeBytes uint64
	count := func() {
		if tb == nil {
			return
		}
		tb.rowsWritten.Add(rows)
		tb.bytesWritten.Add(sizeBytes)
		if unflushed {
			tb.unflushed.Add(sizeBytes)
		}
		ts.rowsTouched.Add(int64(rows))
		ts.bytesWritten.Add(int64(sizeBytes))
		rows, sizeBytes = 0, 0
	}
	for i := range muts {
		if skip != nil && skip(i) {
			continue
		}
		m := &muts[i]
		if tb == nil || !tb.contains(m.Key) {
			count()
			tb = ts.find(m.Key)
		}
		if rows%sampleRows == 0 {
			tb.sample(m.Key, keep)
		}
		rows++
		sizeBytes += uint64(len(m.Key))
		for j := range m.Entries {
			sizeBytes += uint64(len(m.Entries[j].Qualifier) + len(m.Entries[j].Value))
		}
	}
	count()
}

// samplesMax is the number of samples that each tablet keeps.
func (ts *Set) samplesMax() int {
	ts.mu.RLock()
	defer ts.mu.RUnlock()
	return min(max(tableSamplesMax/len(ts.list), tabletSamplesMin), tabletSamplesMax)
}

// sample offers a key. A write has many rows in sorted order, so every n-th key divides them more evenly than random keys.
func (tb *tablet) sample(key []byte, keep int) {
	tb.mu.Lock()
	defer tb.mu.Unlock()
	if tb.skipped++; tb.skipped < tb.stride {
		return
	}
	tb.skipped = 0
	tb.samples = append(tb.samples, bytes.Clone(key))
	if len(tb.samples) >= keep {
		tb.thin(keep / 2)
	}
}

// thin drops every second sample until at most keep are left. The caller holds tb.mu.
func (tb *tablet) thin(keep int) {
	for len(tb.samples) > keep {
		for i := range len(tb.samples) / 2 {
			tb.samples[i] = tb.samples[2*i]
		}
		half := len(tb.samples) / 2
		clear(tb.samples[half:])
		tb.samples = tb.samples[:half]
		tb.stride = 2 * max(tb.stride, 1)
	}
}

func (tb *tablet) touched() uint64 { return tb.rowsWritten.Load() + tb.rowsRead.Load() }

// ReadMeter counts the rows of one read.
type ReadMeter struct {
	Set       *Set
	tb        *tablet
	rows      uint64
	sizeBytes uint64
}

func (m *ReadMeter) Read(key []byte, sizeBytes int) {
	if m.tb == nil || !m.tb.contains(key) {
		m.Flush()
		m.tb = m.Set.find(key)
	}
	m.rows++
	m.sizeBytes += uint64(len(key) + sizeBytes)
}

// Flush adds the counts to the tablet.
func (m *ReadMeter) Flush() {
	if m.tb == nil {
		return
	}
	m.tb.rowsRead.Add(m.rows)
	m.tb.bytesRead.Add(m.sizeBytes)
	m.Set.rowsTouched.Add(int64(m.rows))
	m.tb, m.rows, m.sizeBytes = nil, 0, 0
}

// Flushed records that all memtables are in files.
func (ts *Set) Flushed() {
	for _, tb := range ts.Snapshot() {
		tb.unflushed.Store(0)
	}
}

// sizeBytes estimates a tablet's size on disk.
func (ts *Set) sizeBytes(tb *tablet) (uint64, error) {
	bounds := ts.c.Layout.NewRanges([]storage.RowRange{{Start: tb.start, End: tb.end}})[0]
	sum := tb.unflushed.Load()
	var start, end []byte
	for _, f := range ts.c.Families {
		for _, day := range f.Days.List() {
			h := cellkey.NewHeader(ts.c.TableID, f.ID, day)
			start, end = bounds.SeekStart(start[:0], h), bounds.SeekEnd(end[:0], h)
			n, err := ts.c.DB.EstimateDiskUsage(start, end)
			if err != nil {
				return 0, fault.Wrap("estimate size", err)
			}
			sum += n
		}
	}
	return sum, nil
}

// Describe returns the tablets with their sizes and loads.
func (ts *Set) Describe(ctx context.Context) ([]storage.Tablet, error) {
	var out []storage.Tablet
	for _, tb := range ts.Snapshot() {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		sizeBytes, err := ts.sizeBytes(tb)
		if err != nil {
			return nil, err
		}
		out = append(out, storage.Tablet{Range: storage.RowRange{Start: tb.start, End: tb.end}, SizeBytes: sizeBytes,
			RowsWritten: tb.rowsWritten.Load(), RowsRead: tb.rowsRead.Load(),
			BytesWritten: tb.bytesWritten.Load(), BytesRead: tb.bytesRead.Load()})
	}
	return out, nil
}
