package storagetest

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"halite/storage"
)

// Caps names the promises that an engine does not keep, and extra calls that the suite may use. The zero value has
// neither.
type Caps struct {
	// NoMinMax: only sums merge.
	NoMinMax bool
	// NoIntersection: GC policies with Intersection are not honoured.
	NoIntersection bool
	// NoReverse: scans go forward only.
	NoReverse bool
	// NoAtomicLoad: rows of one Load may become visible one after another.
	NoAtomicLoad bool
	// InexactGC: the engine may free garbage before CollectGarbage or after it. So deleting a newer version may or may
	// not bring back an older one.
	InexactGC bool
	// OwnClock: the engine collects garbage by its own clock. By that clock the samples of the tests are years old, so
	// random runs have no policies on age.
	OwnClock bool
	// SharedTables: other users have tables in the same place, so a store may hold fewer tables than the
	// limit.
	SharedTables bool
	// Reopen closes the store and opens it again on the same data. It is nil if the engine keeps nothing.
	Reopen func(t testing.TB, s storage.Store, now func() time.Time) storage.Store
	// Compact rewrites the store's files. It is nil if the engine has no such call.
	Compact func(t testing.TB, s storage.Store)
	// StepsMax is the length of a random run; 0 is 400.
	StepsMax int
	// Runs is the number of random runs; 0 is 8.
	Runs int
}

// Opener makes an empty store whose clock is now.
type Opener func(t testing.TB, now func() time.Time) storage.Store

type suite struct {
	open Opener
	caps Caps
}

// startMs is where test clocks start: 2024-03-01 00:00 UTC, the first millisecond of a day.
const (
	startMs = 1_709_251_200_000
	hourMs  = 3_600_000
	dayMs   = 24 * hourMs
	hourMax = 9_999_999
)

// clock is a test's time. It moves only if the test moves it.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func newClock() *clock { return &clock{at: time.UnixMilli(startMs).UTC()} }

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

// bench is a store and a table under test.
type bench struct {
	*testing.T
	ctx   context.Context
	clock *clock
	store storage.Store
	table storage.Table
}

// plainSchema has three plain families and one of each aggregate.
func plainSchema(gc storage.GCPolicy) storage.TableSchema {
	return storage.TableSchema{Name: "plain", Families: []storage.Family{
		{Name: "b", GC: gc}, {Name: "a", GC: gc}, {Name: "c"},
	}}
}

func (s *suite) start(t *testing.T, schema storage.TableSchema) *bench {
	t.Helper()
	b := &bench{T: t, ctx: context.Background(), clock: newClock()}
	b.store = s.open(t, b.clock.now)
	t.Cleanup(func() { require.NoError(t, b.store.Close()) })
	b.ensure(schema)
	return b
}

func (b *bench) ensure(schema storage.TableSchema) {
	b.Helper()
	table, err := b.store.EnsureTable(b.ctx, schema)
	require.NoError(b, err)
	b.table = table
}

func (b *bench) apply(muts ...storage.RowMutation) {
	b.Helper()
	require.NoError(b, b.table.Apply(b.ctx, muts))
}

// set writes one cell.
func (b *bench) set(key, family, qualifier string, tsMs int64, value string) {
	b.Helper()
	b.apply(mutation(key, setCell(family, qualifier, tsMs, value)))
}

func mutation(key string, entries ...storage.Entry) storage.RowMutation {
	return storage.RowMutation{Key: []byte(key), Entries: entries}
}

func setCell(family, qualifier string, tsMs int64, value string) storage.Entry {
	return storage.Entry{Kind: storage.SetCell, Family: family, Qualifier: []byte(qualifier), TsMs: tsMs,
		Value: []byte(value)}
}

func addTo(family, qualifier string, tsMs, v int64) storage.Entry {
	return storage.Entry{Kind: storage.AddToCell, Family: family, Qualifier: []byte(qualifier), TsMs: tsMs, Add: v}
}

// everything is the set of all rows.
func everything() storage.RowSet { return storage.RowSet{Ranges: []storage.RowRange{{}}} }

func keys(names ...string) storage.RowSet {
	var set storage.RowSet
	for _, name := range names {
		set.Keys = append(set.Keys, []byte(name))
	}
	return set
}

// read returns copies of all rows of a read, which must not fail.
func (b *bench) read(set storage.RowSet, opts storage.ReadOptions) []storage.Row {
	b.Helper()
	rows, err := readAll(b.ctx, b.table, set, opts)
	require.NoError(b, err)
	return rows
}

// readAll also checks the promises of every read: Row is empty after the end, rows have cells, and slices do not share
// capacity.
func readAll(
	ctx context.Context, table storage.Table, set storage.RowSet, opts storage.ReadOptions,
) ([]storage.Row, error) {
	it := table.ReadRows(ctx, set, opts)
	var rows []storage.Row
	for it.Next() {
		r := it.Row()
		if len(r.Cells) == 0 {
			return nil, fmt.Errorf("row %q has no cells", r.Key)
		}
		out := storage.Row{Key: bytes.Clone(r.Key)}
		for _, c := range r.Cells {
			// Appending to a slice of the row must not write over its neighbours.
			_, _ = append(c.Qualifier, 'X'), append(c.Value, 'X')
			out.Cells = append(out.Cells, storage.Cell{Family: c.Family, Qualifier: bytes.Clone(c.Qualifier), TsMs: c.TsMs,
				Value: bytes.Clone(c.Value)})
		}
		rows = append(rows, out)
	}
	if it.Next() {
		return nil, fmt.Errorf("Next after the end returned true")
	}
	err := it.Err()
	if closeErr := it.Close(); err == nil {
		err = closeErr
	}
	return rows, err
}

// lines prints rows for comparison, with one cell on each line.
func lines(rows []storage.Row) []string {
	out := []string{}
	for _, r := range rows {
		for _, c := range r.Cells {
			out = append(out, fmt.Sprintf("%q %s:%q@%d=%q", r.Key, c.Family, c.Qualifier, c.TsMs, c.Value))
		}
	}
	return out
}

// rowKeys returns the keys of rows.
func rowKeys(rows []storage.Row) []string {
	out := []string{}
	for _, r := range rows {
		out = append(out, string(r.Key))
	}
	return out
}

// want compares all cells of a read with expected lines.
func (b *bench) want(set storage.RowSet, opts storage.ReadOptions, expected ...string) {
	b.Helper()
	if expected == nil {
		expected = []string{}
	}
	require.Equal(b, expected, lines(b.read(set, opts)))
}

func number(cell storage.Cell) int64 { return int64(binary.BigEndian.Uint64(cell.Value)) }

// hourKey returns the key of a row in a table with HourKeys, for a unix hour.
func hourKey(prefix string, hour int64) string { return fmt.Sprintf("%s%07d", prefix, hourMax-hour) }

// hourEndMs is the usual timestamp of cells in such a row.
func hourEndMs(hour int64) int64 { return (hour+1)*hourMs - 1 }
