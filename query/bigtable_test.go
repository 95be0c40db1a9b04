package query_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/prometheus/prometheus/promql/promqltest"
	promstorage "github.com/prometheus/prometheus/storage"
	"github.com/stretchr/testify/require"

	"halite/keyschema"
	"halite/query"
	"halite/storage"
	"halite/storage/bigtable"
	"halite/storage/bigtable/emulator"
	"halite/storage/storagetest/seeds"
)

// bigtables makes empty databases in Bigtable: in one emulator, or in the instance that HALITE_BIGTABLE_PROJECT,
// HALITE_BIGTABLE_INSTANCE and HALITE_BIGTABLE_APP_PROFILE name. The instance keeps the empty tables.
type bigtables struct {
	options bigtable.Options
	made    int
	free    []string // prefixes of empty tables
}

func newBigtables(t *testing.T) *bigtables {
	project := os.Getenv("HALITE_BIGTABLE_PROJECT")
	if project != "" {
		return &bigtables{options: bigtable.Options{Project: project, Instance: os.Getenv("HALITE_BIGTABLE_INSTANCE"),
			AppProfile: os.Getenv("HALITE_BIGTABLE_APP_PROFILE")}}
	}
	server, err := emulator.Start(emulator.Options{})
	require.NoError(t, err)
	t.Cleanup(server.Close)
	return &bigtables{options: bigtable.Options{Project: "test-project", Instance: "test-instance", EmulatorHost: server.Addr()}}
}

// open opens an empty database. Its Close empties the tables for the next one, because an instance has room for only a
// thousand tables.
func (b *bigtables) open(tb testing.TB) storage.Store {
	tb.Helper()
	if len(b.free) == 0 {
		b.made++
		b.free = append(b.free, fmt.Sprintf("q%d-%d.", os.Getpid(), b.made))
	}
	opts := b.options
	last := len(b.free) - 1
	opts.TablePrefix, b.free = b.free[last], b.free[:last]
	s, err := bigtable.Open(context.Background(), opts)
	require.NoError(tb, err)
	return &scratchStore{s, func() { b.free = append(b.free, opts.TablePrefix) }}
}

// scratchStore is emptied when it is closed.
type scratchStore struct {
	storage.Store
	emptied func()
}

// Close is part of storage.Store.
func (s *scratchStore) Close() error {
	ctx := context.Background()
	schemas, err := s.Tables(ctx)
	for _, schema := range schemas {
		table, tableErr := s.Table(ctx, schema.Name)
		if tableErr == nil {
			tableErr = table.DropRows(ctx, storage.RowRange{})
		}
		err = errors.Join(err, tableErr)
	}
	if err == nil {
		s.emptied()
	}
	return errors.Join(err, s.Store.Close())
}

// TestPrometheusFilesOnBigtable runs Prometheus's own PromQL tests with the tables in Bigtable.
func TestPrometheusFilesOnBigtable(t *testing.T) {
	if testing.Short() {
		t.Skip("single-threaded: the run without -short covers it")
	}
	tables := newBigtables(t)
	engine := query.NewTallied(filesEngine())
	t.Cleanup(func() { require.NoError(t, engine.Close()) })
	promqltest.RunBuiltinTestsWithStorage(t, engine, func(tb testing.TB) promstorage.Storage {
		s := openStackWith(tb, vfs.NewMem(), stackOptions{tables: tables.open(tb)})
		return &adapter{stack: s, mode: inBoth, columns: true}
	})
	require.Greater(t, engine.Whole.Load(), int64(8000), "the files test our operators")
}

// enginesCases is the number of expressions for each seed and flush mode; HALITE_CASES replaces it.
const enginesCases = 60

// TestEnginesAgree sends random queries over the same random data in Pebble and in Bigtable. The results are equal bit
// for bit. HALITE_SEEDS is the number of data sets, HALITE_SEED the first.
func TestEnginesAgree(t *testing.T) {
	tables := newBigtables(t)
	first := seeds.Number(t, "HALITE_SEED", defaultSeed)
	for seed := first; seed < first+seeds.Number(t, "HALITE_SEEDS", unlessShort(2, 1)); seed++ {
		for _, mode := range []flushMode{inTables, intoTables} {
			t.Run(fmt.Sprintf("%d/%s", seed, mode), func(t *testing.T) {
				rng := rand.New(rand.NewPCG(seed, 0))
				history := newDataset(rng).history(rng)
				rule := keyschema.Rule{Pattern: "c_*", FromHour: dataFrom/hourMs + 2, Salts: 5, Promoted: []string{"job"}}
				embedded := newStack(t, rule)
				defer func() { require.NoError(t, embedded.Close()) }()
				cloud := openStackWith(t, vfs.NewMem(), stackOptions{tables: tables.open(t), rules: []keyschema.Rule{rule}})
				defer func() { require.NoError(t, cloud.Close()) }()
				for _, s := range []*stack{embedded, cloud} {
					s.fill(history, mode)
				}
				compareEngines(t, exprs{Rand: rng}, newQueryEngine(t, embedded, query.On), newQueryEngine(t, cloud, query.On),
					int(seeds.Number(t, "HALITE_CASES", unlessShort(enginesCases, enginesCases/3))))
			})
		}
	}
}

// compareEngines requires equal bits. Prometheus's engine adds some sums in the order of a hash map, so that the bits vary. If
// two results differ, the embedded engine must also differ from itself when it repeats the query.
func compareEngines(t *testing.T, g exprs, embedded, cloud *query.Engine, cases int) {
	filled, ambiguous := 0, 0
	for i := range cases {
		text := g.vector(1 + g.IntN(3))
		run := instantCase(g, text)
		if i%2 == 0 {
			run = rangeCase(g, text)
		}
		want, got := run(embedded), run(cloud)
		if len(want.points) > 0 {
			filled++
		}
		if sameBits(want, got) {
			continue
		}
		ambiguous++
		require.NoError(t, difference(want, got), text)
		for tries := 0; sameBits(run(embedded), want); tries++ {
			require.Less(t, tries, repeatsMax, "%s:\n%v\n%v", text, want.points, got.points)
		}
	}
	t.Logf("%d cases: %d with a result, %d of them with several", cases, filled, ambiguous)
	require.Greater(t, filled, cases/3, "the generator asks for things that exist")
	require.LessOrEqual(t, ambiguous, cases/10, "nearly all have one result")
}

// sameBits reports whether two results are equal, with values bit for bit except NaN payloads.
func sameBits(a, b response) bool {
	if difference(a, b) != nil {
		return false
	}
	for i := range a.points {
		for j, p := range a.points[i].Floats {
			x, y := p.F, b.points[i].Floats[j].F
			if math.Float64bits(x) != math.Float64bits(y) && !(math.IsNaN(x) && math.IsNaN(y)) {
				return false
			}
		}
	}
	return true
}
