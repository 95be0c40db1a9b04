package bigtable

import (
	"context"
	"sort"
	"sync"

	"halite/storage"
)

// load counts what this process wrote and read, by tablet. When tablets split or merge, the counts of an old tablet go to
// the new tablet that contains its start. So sums stay right.
type load struct {
	mu     sync.Mutex
	starts []string // start of each tablet except the first, ascending
	counts []loadCounts
}

type loadCounts struct {
	rowsWritten, rowsRead, bytesWritten, bytesRead uint64
}

// at returns the counts of key's tablet. The caller holds mu.
func (l *load) at(key string) *loadCounts {
	if l.counts == nil {
		l.counts = make([]loadCounts, 1)
	}
	return &l.counts[tabletOf(l.starts, key)]
}

// tabletOf returns the number of key's tablet.
func tabletOf(starts []string, key string) int {
	return sort.Search(len(starts), func(i int) bool { return starts[i] > key })
}

func (l *load) wrote(rows []pending) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range rows {
		if rows[i].err == nil {
			c := l.at(rows[i].key)
			c.rowsWritten++
			c.bytesWritten += uint64(rows[i].sizeBytes)
		}
	}
}

func (l *load) read(rows []storage.Row) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range rows {
		c := l.at(string(r.Key))
		c.rowsRead++
		c.bytesRead += uint64(rowBytes(r))
	}
}

func rowBytes(r storage.Row) int {
	n := len(r.Key)
	for _, c := range r.Cells {
		n += len(c.Qualifier) + len(c.Value)
	}
	return n
}

// rearrange sets the starts of the tablets and returns their counts.
func (l *load) rearrange(starts []string) []loadCounts {
	l.mu.Lock()
	defer l.mu.Unlock()
	counts := make([]loadCounts, len(starts)+1)
	for i, c := range l.counts {
		at := 0
		if i > 0 {
			at = tabletOf(starts, l.starts[i-1])
		}
		counts[at].rowsWritten += c.rowsWritten
		counts[at].rowsRead += c.rowsRead
		counts[at].bytesWritten += c.bytesWritten
		counts[at].bytesRead += c.bytesRead
	}
	l.starts, l.counts = starts, counts
	return append([]loadCounts(nil), counts...)
}

// Tablets implements storage.Table. It returns the ranges between the service's sample keys, with the service's size
// estimates and the load of this process.
func (t *table) Tablets(ctx context.Context) ([]storage.Tablet, error) {
	if t.s.closed.Load() {
		return nil, errClosed
	}
	call, cancel := context.WithTimeout(ctx, t.s.opts.AdminTimeout)
	defer cancel()
	seen := &sampler{}
	if _, err := t.rows.SampleRowKeys(withWatcher(call, seen)); err != nil {
		return nil, mapError(ctx, "sample row keys of "+t.name, err)
	}
	var starts []string
	var offsets []uint64
	total := uint64(0)
	for _, s := range seen.samples {
		total = max(total, s.offset)
		if s.key != "" && (len(starts) == 0 || s.key > starts[len(starts)-1]) {
			starts, offsets = append(starts, s.key), append(offsets, s.offset)
		}
	}
	counts := t.load.rearrange(starts)
	tablets := make([]storage.Tablet, len(starts)+1)
	before := uint64(0)
	for i := range tablets {
		end := total
		if i < len(starts) {
			end = offsets[i]
			tablets[i].Range.End = []byte(starts[i])
		}
		if i > 0 {
			tablets[i].Range.Start = []byte(starts[i-1])
		}
		tablets[i].SizeBytes = end - min(before, end)
		tablets[i].RowsWritten, tablets[i].RowsRead = counts[i].rowsWritten, counts[i].rowsRead
		tablets[i].BytesWritten, tablets[i].BytesRead = counts[i].bytesWritten, counts[i].bytesRead
		before = end
	}
	return tablets, nil
}
