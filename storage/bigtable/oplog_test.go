package bigtable_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"halite/storage"
	"halite/storage/bigtable/emulator"
	"halite/storage/pebble"
	"halite/storage/storagetest"
	"halite/storage/storagetest/seeds"
)

const (
	oplogOps      = 6_000
	oplogOpsShort = 300
	oplogStartMs  = 1_709_251_200_000
	oplogHourMs   = 3_600_000
	oplogRows     = 60
)

// TestOplog runs the same operations on a map, on the embedded engine and on the emulator. All results are equal.
func TestOplog(t *testing.T) {
	t.Parallel()
	ops := oplogOps
	if testing.Short() {
		ops = oplogOpsShort
	}
	first, count := seeds.Range(t, seeds.Default{Full: 1, Short: 1})
	for seed := first; seed < first+count; seed++ {
		runOplog(t, seed, ops)
	}
}

func runOplog(t *testing.T, seed uint64, ops int) {
	at := time.UnixMilli(oplogStartMs)
	now := func() time.Time { return at }
	embedded, err := pebble.Open(pebble.Options{Dir: "/data", FS: vfs.NewMem(), Now: now, MemtableBytes: 256 << 10})
	require.NoError(t, err)
	opts := startEmulator(t, emulator.Options{})
	opts.Now = now
	// Small requests, so that most operations take several.
	opts.RequestMutationsMax, opts.RequestRowSetBytesMax = 12, 16<<10
	l := &oplog{rng: rand.New(rand.NewPCG(seed, 0)), stores: []storage.Store{storagetest.NewModel(now), embedded, open(t, opts)}}
	defer func() {
		for _, s := range l.stores {
			require.NoError(t, s.Close())
		}
	}()
	l.ensure(t)
	spent := make([]time.Duration, len(l.stores))
	for n := range ops {
		op := l.next()
		var first string
		for i := range l.stores {
			began := time.Now()
			response := op.run(l.tables[op.table][i])
			spent[i] += time.Since(began)
			if i == 0 {
				first = response
			} else if response != first {
				t.Fatalf("seed %d, operation %d: %s\nstore 0 says %s\nstore %d says %s", seed, n, op.text(), first, i, response)
			}
		}
		if n%50 == 49 {
			at = at.Add(time.Duration(l.rng.Int64N(int64(time.Hour))))
		}
	}
	t.Logf("seed %d: %d operations, three stores agree; time in map, embedded, emulator: %v", seed, ops, spent)
}

type oplog struct {
	rng    *rand.Rand
	stores []storage.Store
	tables map[string][]storage.Table
	step   int
}

type operation struct {
	table string
	text  func() string // description for a failure
	run   func(storage.Table) string
}

// ensure creates the tables. The policy of table kept counts versions. There the log deletes only whole families and rows,
// and no read has a time range. Otherwise the results would depend on the time at which an engine frees garbage.
func (l *oplog) ensure(t *testing.T) {
	l.tables = map[string][]storage.Table{}
	age := storage.GCPolicy{MaxAge: 100 * time.Hour}
	for _, schema := range []storage.TableSchema{
		{Name: "plain", Families: []storage.Family{{Name: "b"}, {Name: "a", GC: age}}},
		{Name: "hours", HourKeys: true, Families: []storage.Family{{Name: "b", GC: age}, {Name: "a", GC: age}}},
		{Name: "kept", Families: []storage.Family{{Name: "a", GC: storage.GCPolicy{MaxVersions: 2}},
			{Name: "b", GC: storage.GCPolicy{MaxVersions: 1, MaxAge: 50 * time.Hour}}}},
		{Name: "sums", Families: []storage.Family{{Name: "a"}, {Name: "b", Kind: storage.SumInt64}}},
	} {
		for _, s := range l.stores {
			table, err := s.EnsureTable(context.Background(), schema)
			require.NoError(t, err)
			l.tables[schema.Name] = append(l.tables[schema.Name], table)
		}
	}
}

func (l *oplog) pick(names ...string) string { return names[l.rng.IntN(len(names))] }

// next makes one operation: half writes, half reads.
func (l *oplog) next() operation {
	ctx := context.Background()
	l.step++
	op := operation{table: l.pick("plain", "hours", "kept", "sums")}
	switch n := l.rng.IntN(100); {
	case n < 35:
		muts := make([]storage.RowMutation, 1+l.rng.IntN(12))
		for i := range muts {
			muts[i] = l.mutation(op.table, false)
		}
		op.text = func() string { return fmt.Sprintf("apply %s %v", op.table, muts) }
		op.run = func(t storage.Table) string { return outcome(t.Apply(ctx, muts)) }
	case n < 45:
		var muts []storage.RowMutation
		for range 1 + l.rng.IntN(30) {
			muts = append(muts, l.mutation(op.table, true))
		}
		slices.SortFunc(muts, func(a, b storage.RowMutation) int { return slices.Compare(a.Key, b.Key) })
		muts = slices.CompactFunc(muts, func(a, b storage.RowMutation) bool { return slices.Equal(a.Key, b.Key) })
		op.text = func() string { return fmt.Sprintf("load %s %v", op.table, muts) }
		op.run = func(t storage.Table) string { return outcome(t.Load(ctx, muts)) }
	case n < 52:
		key, cond := l.key(op.table), l.filter(op.table)
		then, otherwise := l.mutation(op.table, false), l.mutation(op.table, false)
		then.Key, otherwise.Key = nil, nil
		op.text = func() string {
			return fmt.Sprintf("check %s %q %+v then %v else %v", op.table, key, cond, then, otherwise)
		}
		op.run = func(t storage.Table) string {
			matched, err := t.CheckAndApply(ctx, key, cond, then, otherwise)
			return fmt.Sprint(matched, outcome(err))
		}
	case n < 53:
		r := storage.RowRange{Start: l.key(op.table), End: l.key(op.table)}
		if l.rng.IntN(2) == 0 { // a prefix
			last := len(r.Start) - 1
			r.End = append(slices.Clone(r.Start[:last]), r.Start[last]+1)
		}
		op.text = func() string { return fmt.Sprintf("drop %s %q", op.table, r) }
		op.run = func(t storage.Table) string { return outcome(t.DropRows(ctx, r)) }
	default:
		set, opts := l.rowSet(op.table), storage.ReadOptions{Filter: l.filter(op.table), Reverse: l.rng.IntN(3) == 0}
		if l.rng.IntN(4) == 0 {
			opts.RowsMax = 1 + l.rng.IntN(20)
		}
		op.text = func() string { return fmt.Sprintf("read %s %q %+v", op.table, set, opts) }
		op.run = func(t storage.Table) string { return readText(ctx, t, set, opts) }
	}
	return op
}

func (l *oplog) key(table string) []byte {
	n := l.rng.IntN(oplogRows)
	if table == "hours" {
		return fmt.Appendf(nil, "metric#%02d#host=%d#%07d", n%3, n%7, 9_999_999-oplogStartMs/oplogHourMs+n%20)
	}
	return fmt.Appendf(nil, "row%03d", n)
}

func (l *oplog) tsMs() int64 { return oplogStartMs + l.rng.Int64N(400)*oplogHourMs/4 }

func (l *oplog) mutation(table string, load bool) storage.RowMutation {
	m := storage.RowMutation{Key: l.key(table)}
	for range 1 + l.rng.IntN(3) {
		e := storage.Entry{Family: l.pick("a", "b"), Qualifier: []byte(l.pick("p", "q", "r", "")), TsMs: l.tsMs()}
		if load && table == "sums" {
			e.Family = "a"
		}
		switch n := l.rng.IntN(20); {
		case !load && n == 0:
			e.Kind = storage.DeleteRow
		case !load && n == 1:
			e.Kind = storage.DeleteFamily
		case !load && n < 5 && table != "kept":
			e.Kind, e.FromMs = storage.DeleteCells, l.tsMs()
			if n == 4 {
				e.ToMs = e.FromMs + 1 + l.rng.Int64N(100*oplogHourMs)
			}
		case table == "sums" && e.Family == "b":
			e.Kind, e.Add, e.TsMs = storage.AddToCell, l.rng.Int64N(1000)-500, oplogStartMs
		default:
			e.Value = fmt.Appendf(nil, "value %d", l.step)
		}
		m.Entries = append(m.Entries, e)
	}
	return m
}

func (l *oplog) filter(table string) storage.Filter {
	var f storage.Filter
	if l.rng.IntN(3) == 0 {
		f.Families = []string{l.pick("a", "b")}
	}
	if l.rng.IntN(4) == 0 {
		f.QualifierStart = []byte("p")
	}
	if l.rng.IntN(4) == 0 {
		f.QualifierEnd = []byte("q")
	}
	if table != "kept" && l.rng.IntN(3) == 0 {
		f.FromMs = l.tsMs()
	}
	if table != "kept" && l.rng.IntN(4) == 0 {
		f.ToMs = l.tsMs()
	}
	if l.rng.IntN(4) == 0 {
		f.VersionsMax = 1 + l.rng.IntN(3)
	}
	f.KeysOnly = l.rng.IntN(8) == 0
	return f
}

func (l *oplog) rowSet(table string) storage.RowSet {
	if l.rng.IntN(20) == 0 {
		return storage.RowSet{Ranges: []storage.RowRange{{}}}
	}
	var set storage.RowSet
	for range l.rng.IntN(10) {
		set.Keys = append(set.Keys, l.key(table))
	}
	for range l.rng.IntN(3) {
		start := l.key(table)
		set.Ranges = append(set.Ranges, storage.RowRange{Start: start, End: append(slices.Clone(start[:len(start)-1]), 'z')})
	}
	return set
}

// outcome names the kind of an error that callers can distinguish.
func outcome(err error) string {
	if err == nil {
		return "ok"
	}
	text := "failed"
	for _, sentinel := range []error{storage.ErrBadKey, storage.ErrBadMutation, storage.ErrUnavailable} {
		if errors.Is(err, sentinel) {
			text += ", " + sentinel.Error()
		}
	}
	return text
}

// readText prints the result of a read.
func readText(ctx context.Context, t storage.Table, set storage.RowSet, opts storage.ReadOptions) string {
	var b strings.Builder
	it := t.ReadRows(ctx, set, opts)
	for it.Next() {
		r := it.Row()
		fmt.Fprintf(&b, "%q:", r.Key)
		for _, c := range r.Cells {
			fmt.Fprintf(&b, " %s:%q@%d=%q", c.Family, c.Qualifier, c.TsMs, c.Value)
		}
		b.WriteByte('\n')
	}
	return b.String() + outcome(errors.Join(it.Err(), it.Close()))
}
