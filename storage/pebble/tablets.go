package pebble

import (
	"bytes"
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"halite/storage"
	"halite/storage/pebble/cellkey"
)

const (
	// tabletsPerTableMax bounds the metadata of a table.
	tabletsPerTableMax = 1024
	// tableSamplesMax bounds the row keys remembered of all tablets of a table, unless each has few, and tabletSamplesMin and
	// tabletSamplesMax those of one.
	tableSamplesMax  = 8192
	tabletSamplesMin = 64
	tabletSamplesMax = 1024
	// sampleRows is the number of consecutive rows of a write of which one is remembered.
	sampleRows = 64
)

// tablets divides a table's rows into contiguous ranges and accounts for their load. The division is metadata only: it
// neither moves nor constrains data.
type tablets struct {
	t    *Table
	mu   sync.RWMutex // held while list changes
	list []*tablet    // by start; the first starts at the empty key

	checkMu      sync.Mutex
	bytesWritten atomic.Int64 // since the last check
	rowsTouched  atomic.Int64 // since the last check
}

// tablet is one range. Its end is the start of its successor and does not change while the tablet exists.
type tablet struct {
	start, end []byte

	rowsWritten, rowsRead   atomic.Uint64
	bytesWritten, bytesRead atomic.Uint64
	unflushed               atomic.Uint64 // bytes that the files do not have yet, about
	rowsAtCheck             uint64        // of rowsWritten+rowsRead; belongs to the check

	mu      sync.Mutex
	samples [][]byte // every stride-th of the row keys offered, in the order of their coming
	stride  int      // a power of two; 0 is 1
	skipped int
}

func newTablets(t *Table) *tablets { return &tablets{t: t, list: []*tablet{{}}} }

// restore installs split keys that an earlier process stored.
func (ts *tablets) restore(splits [][]byte) {
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
func (ts *tablets) find(key []byte) *tablet {
	ts.mu.RLock()
	defer ts.mu.RUnlock()
	i, ok := slices.BinarySearchFunc(ts.list, key, func(tb *tablet, k []byte) int { return bytes.Compare(tb.start, k) })
	if !ok {
		i--
	}
	return ts.list[i]
}

// snapshot returns the tablets in order.
func (ts *tablets) snapshot() []*tablet {
	ts.mu.RLock()
	defer ts.mu.RUnlock()
	return slices.Clone(ts.list)
}

// wrote accounts for rows written, but those for which skip is true; a nil skip skips none. Rows that went to files
// directly are durable.
func (ts *tablets) wrote(muts []storage.RowMutation, skip func(i int) bool, durable bool) {
	keep := ts.samplesMax()
	var tb *tablet
	var rows, sizeBytes uint64
	count := func() {
		if tb == nil {
			return
		}
		tb.rowsWritten.Add(rows)
		tb.bytesWritten.Add(sizeBytes)
		if !durable {
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

// samplesMax is how many keys are remembered of each tablet.
func (ts *tablets) samplesMax() int {
	ts.mu.RLock()
	defer ts.mu.RUnlock()
	return min(max(tableSamplesMax/len(ts.list), tabletSamplesMin), tabletSamplesMax)
}

// sample offers a key. Rows come sorted, many at a time: every so manieth divides them more evenly than random ones would.
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

// thin forgets every second sample until at most keep are left. tb.mu is held.
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

// loadMeter accounts for the rows of one read.
type loadMeter struct {
	ts        *tablets
	tb        *tablet
	rows      uint64
	sizeBytes uint64
}

func (m *loadMeter) read(key []byte, sizeBytes int) {
	if m.tb == nil || !m.tb.contains(key) {
		m.flush()
		m.tb = m.ts.find(key)
	}
	m.rows++
	m.sizeBytes += uint64(len(key) + sizeBytes)
}

// flush hands over what was counted.
func (m *loadMeter) flush() {
	if m.tb == nil {
		return
	}
	m.tb.rowsRead.Add(m.rows)
	m.tb.bytesRead.Add(m.sizeBytes)
	m.ts.rowsTouched.Add(int64(m.rows))
	m.tb, m.rows, m.sizeBytes = nil, 0, 0
}

// flushed notes that the memtables have gone to files.
func (ts *tablets) flushed() {
	for _, tb := range ts.snapshot() {
		tb.unflushed.Store(0)
	}
}

// sizeBytes estimates a tablet's size on disk.
func (ts *tablets) sizeBytes(tb *tablet) (uint64, error) {
	bounds := cellkey.NewRanges(ts.t.hourKeys, []storage.RowRange{{Start: tb.start, End: tb.end}})[0]
	sum := tb.unflushed.Load()
	var start, end []byte
	for _, f := range ts.t.families {
		for _, day := range f.days.list() {
			h := cellkey.NewHeader(ts.t.id, f.id, day)
			start, end = bounds.SeekStart(start[:0], h), bounds.SeekEnd(end[:0], h)
			n, err := ts.t.store.db.EstimateDiskUsage(start, end)
			if err != nil {
				return 0, engineError("estimate size", err)
			}
			sum += n
		}
	}
	return sum, nil
}

// Tablets is part of storage.Table. Sizes are estimates from the files' indexes. Loads count from when the tablet came
// to be, or from when the store was opened.
func (t *Table) Tablets(ctx context.Context) ([]storage.Tablet, error) {
	if err := t.store.checkOpen(); err != nil {
		return nil, err
	}
	var out []storage.Tablet
	for _, tb := range t.tablets.snapshot() {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		sizeBytes, err := t.tablets.sizeBytes(tb)
		if err != nil {
			return nil, err
		}
		out = append(out, storage.Tablet{Range: storage.RowRange{Start: tb.start, End: tb.end}, SizeBytes: sizeBytes,
			RowsWritten: tb.rowsWritten.Load(), RowsRead: tb.rowsRead.Load(),
			BytesWritten: tb.bytesWritten.Load(), BytesRead: tb.bytesRead.Load()})
	}
	return out, nil
}
