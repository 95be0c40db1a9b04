package bigtable_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"halite/storage"
	"halite/storage/storagetest/seeds"
)

// TestFaults works on an emulator with injected faults and records the possible values of each row: the new value
// after an acknowledged write, the old or the new value after a failed write. A read must fail or return such values
// for all requested rows. The seeds run in parallel, because they mostly wait.
func TestFaults(t *testing.T) {
	first, count := seeds.Range(t, seeds.Default{Full: 2, Short: 2})
	t.Parallel()
	tally := &faultTally{faults: map[string]int{}, outcomes: map[string]int{}}
	t.Run("seeds", func(t *testing.T) {
		for seed := first; seed < first+count; seed++ {
			t.Run(fmt.Sprint(seed), func(t *testing.T) {
				t.Parallel()
				runFaults(t, seed, tally)
			})
		}
	})
	if testing.Short() {
		return // too few steps for all of them
	}
	// The test proves nothing about a fault that never occurred.
	for _, kind := range append(append([]string{outage}, writeKinds...), readKinds...) {
		require.NotZero(t, tally.faults[kind], "no fault of kind %s was injected", kind)
	}
	for _, kind := range []string{"written", "write failed", "added", "swapped", "read", "read failed"} {
		require.NotZero(t, tally.outcomes[kind], "nothing was ever %s", kind)
	}
}

// faultTally adds up the faults and outcomes of all seeds.
type faultTally struct {
	mu               sync.Mutex
	faults, outcomes map[string]int
}

func (c *faultTally) add(faults, outcomes map[string]int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for kind, n := range faults {
		c.faults[kind] += n
	}
	for kind, n := range outcomes {
		c.outcomes[kind] += n
	}
}

func runFaults(t *testing.T, seed uint64, tally *faultTally) {
	f := newFaults(seed)
	opts := startEmulator(t, f.options())
	patient := open(t, opts)
	defer func() { require.NoError(t, patient.Close()) }()
	opts.WriteTimeout, opts.ReadStallTimeout = 120*time.Millisecond, 120*time.Millisecond
	opts.RequestMutationsMax, opts.RequestRowSetBytesMax, opts.Registerer = 8, 16<<10, prometheus.NewRegistry()
	s := open(t, opts)
	defer func() { require.NoError(t, s.Close()) }()
	table, err := s.EnsureTable(t.Context(), storage.TableSchema{Name: "t", Families: []storage.Family{
		{Name: "a", GC: storage.GCPolicy{MaxVersions: 1}}, {Name: "n", Kind: storage.SumInt64}}})
	require.NoError(t, err)
	w := &faultyWorld{t: t, rng: rand.New(rand.NewPCG(seed, 1)), table: table, rows: map[string]map[string]bool{},
		sums: map[string]map[int64]bool{}, count: map[string]int{}}
	f.enable(true)
	steps := 1500
	if testing.Short() {
		steps = 150
	}
	for w.step = range steps {
		switch n := w.rng.IntN(10); {
		case n < 4:
			w.write()
		case n < 5:
			w.add()
		case n < 6:
			w.swap()
		default:
			w.read(false)
		}
	}
	f.enable(false)
	// Without faults nothing may fail, even on a busy machine.
	w.table, err = patient.Table(t.Context(), "t")
	require.NoError(t, err)
	w.read(true)
	t.Logf("seed %d: faults %v, outcomes %v", seed, f.seen(), w.count)
	tally.add(f.seen(), w.count)
}

// faultyWorld records the possible contents of the table.
type faultyWorld struct {
	t     *testing.T
	rng   *rand.Rand
	table storage.Table
	step  int
	// rows maps each row key to the values its cell may have; "" means no cell.
	rows map[string]map[string]bool
	// sums maps each row key to the possible values of its sum.
	sums  map[string]map[int64]bool
	count map[string]int
}

const faultyRows = 200

func (w *faultyWorld) key() string { return fmt.Sprintf("row%03d", w.rng.IntN(faultyRows)) }

// failures returns the error of each row of an Apply.
func (w *faultyWorld) failures(err error, rows int) []error {
	errs := make([]error, rows)
	var failed *storage.ApplyError
	if errors.As(err, &failed) {
		for _, r := range failed.Rows {
			require.ErrorIs(w.t, r.Err, storage.ErrUnavailable)
			errs[r.Index] = r.Err
		}
	} else {
		require.NoError(w.t, err)
	}
	return errs
}

func (w *faultyWorld) write() {
	var muts []storage.RowMutation
	var values []string
	for i := range 1 + w.rng.IntN(30) {
		value := fmt.Sprintf("%d/%d", w.step, i)
		values = append(values, value)
		muts = append(muts, storage.RowMutation{Key: []byte(w.key()), Entries: []storage.Entry{
			{Family: "a", Qualifier: []byte("q"), TsMs: 5, Value: []byte(value)}}})
	}
	for i, err := range w.failures(w.table.Apply(w.t.Context(), muts), len(muts)) {
		key := string(muts[i].Key)
		if err == nil {
			w.count["written"]++
			w.rows[key] = map[string]bool{values[i]: true}
			continue
		}
		w.count["write failed"]++
		w.mayBe(key, values[i])
	}
}

func (w *faultyWorld) mayBe(key, value string) {
	if w.rows[key] == nil {
		w.rows[key] = map[string]bool{"": true}
	}
	w.rows[key][value] = true
}

// add adds to a sum. A failed addition may have taken effect once, never twice.
func (w *faultyWorld) add() {
	key, n := w.key(), 1+w.rng.Int64N(1_000_000_000)
	err := w.failures(w.table.Apply(w.t.Context(), []storage.RowMutation{{Key: []byte(key), Entries: []storage.Entry{
		{Kind: storage.AddToCell, Family: "n", Qualifier: []byte("sum"), TsMs: 5, Add: n}}}}), 1)[0]
	before := w.sums[key]
	if before == nil {
		before = map[int64]bool{0: true}
	}
	after := map[int64]bool{}
	for sum := range before {
		after[sum+n] = true
		if err != nil {
			after[sum] = true
		}
	}
	w.sums[key] = after
	if err == nil {
		w.count["added"]++
	} else {
		w.count["add failed"]++
	}
}

// swap writes one value if the row has a cell and another one if not.
func (w *faultyWorld) swap() {
	key := w.key()
	mutation := func(value string) storage.RowMutation {
		return storage.RowMutation{Entries: []storage.Entry{{Family: "a", Qualifier: []byte("q"), TsMs: 5, Value: []byte(value)}}}
	}
	had, hadNot := fmt.Sprintf("%d/had", w.step), fmt.Sprintf("%d/had not", w.step)
	matched, err := w.table.CheckAndApply(w.t.Context(), []byte(key), storage.Filter{Families: []string{"a"}}, mutation(had),
		mutation(hadNot))
	if w.rows[key] == nil {
		w.rows[key] = map[string]bool{"": true}
	}
	if err != nil {
		require.ErrorIs(w.t, err, storage.ErrUnavailable)
		w.count["swap failed"]++
		w.mayBe(key, had)
		w.mayBe(key, hadNot)
		return
	}
	w.count["swapped"]++
	if matched {
		require.False(w.t, len(w.rows[key]) == 1 && w.rows[key][""], "row %s never had a cell", key)
		w.rows[key] = map[string]bool{had: true}
	} else {
		require.True(w.t, w.rows[key][""], "row %s must have a cell: %v", key, w.rows[key])
		w.rows[key] = map[string]bool{hadNot: true}
	}
}

// read reads rows and checks each row. The value of a row replaces its possible values.
func (w *faultyWorld) read(all bool) {
	start, end := w.key(), w.key()
	if start > end {
		start, end = end, start
	}
	set := storage.RowSet{Ranges: []storage.RowRange{{Start: []byte(start), End: []byte(end)}}}
	inSet := func(key string) bool { return key >= start && key < end }
	if all || w.rng.IntN(3) == 0 {
		set, inSet = storage.RowSet{Ranges: []storage.RowRange{{}}}, func(string) bool { return true }
	}
	opts := storage.ReadOptions{Reverse: w.rng.IntN(3) == 0}
	values, sums := map[string]string{}, map[string]int64{}
	it := w.table.ReadRows(context.Background(), set, opts)
	last := ""
	for it.Next() {
		key := string(it.Row().Key)
		require.True(w.t, last == "" || (key > last) != opts.Reverse, "row %s comes after %s", key, last)
		last = key
		for _, c := range it.Row().Cells {
			if c.Family == "a" {
				values[key] = string(c.Value)
			} else {
				sums[key] = int64(binary.BigEndian.Uint64(c.Value))
			}
		}
	}
	err := it.Err()
	require.NoError(w.t, it.Close())
	if err != nil {
		require.False(w.t, all, "reads do not fail without faults: %v", err)
		require.ErrorIs(w.t, err, storage.ErrUnavailable)
		w.count["read failed"]++
		return
	}
	w.count["read"]++
	for i := range faultyRows {
		key := fmt.Sprintf("row%03d", i)
		if !inSet(key) {
			require.NotContains(w.t, values, key)
			continue
		}
		may := w.rows[key]
		if may == nil {
			may = map[string]bool{"": true}
		}
		require.True(w.t, may[values[key]], "step %d: row %s holds %q, may hold %v", w.step, key, values[key], may)
		w.rows[key] = map[string]bool{values[key]: true}
		maySum := w.sums[key]
		if maySum == nil {
			maySum = map[int64]bool{0: true}
		}
		require.True(w.t, maySum[sums[key]], "step %d: row %s has the sum %d, may have %v", w.step, key, sums[key], maySum)
		w.sums[key] = map[int64]bool{sums[key]: true}
	}
}
