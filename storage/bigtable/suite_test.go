package bigtable_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	gcp "cloud.google.com/go/bigtable"
	"github.com/stretchr/testify/require"

	"halite/storage"
	"halite/storage/bigtable"
	"halite/storage/bigtable/emulator"
	"halite/storage/storagetest"
)

// Environment variables that make TestContract use a real instance instead of the emulator. The names of its tables begin with a
// prefix, and each test deletes its tables.
const (
	projectEnv  = "HALITE_BIGTABLE_PROJECT"
	instanceEnv = "HALITE_BIGTABLE_INSTANCE"
	profileEnv  = "HALITE_BIGTABLE_APP_PROFILE"
)

// gaps lists the features that the engine lacks everywhere.
var gaps = storagetest.Caps{NoAtomicLoad: true, InexactGC: true}

// startEmulator runs an emulator for one test and returns options that reach it.
func startEmulator(t testing.TB, opts emulator.Options) bigtable.Options {
	t.Helper()
	server, err := emulator.Start(opts)
	require.NoError(t, err)
	t.Cleanup(server.Close)
	return bigtable.Options{Project: "test-project", Instance: "test-instance", EmulatorHost: server.Addr()}
}

func open(t testing.TB, opts bigtable.Options) *bigtable.Store {
	t.Helper()
	s, err := bigtable.Open(context.Background(), opts)
	require.NoError(t, err)
	return s
}

// TestContract runs the suite on the emulator, or on the instance that the environment names.
func TestContract(t *testing.T) {
	if os.Getenv(projectEnv) != "" {
		t.Skipf("%s is set: TestContractOnService runs instead", projectEnv)
	}
	caps := gaps
	caps.NoMinMax = true // the emulator keeps the last value instead
	opened := map[storage.Store]bigtable.Options{}
	start := func(t testing.TB, opts bigtable.Options, now func() time.Time) storage.Store {
		opts.Now = now
		s := open(t, opts)
		opened[s] = opts
		return s
	}
	caps.Reopen = func(t testing.TB, s storage.Store, now func() time.Time) storage.Store {
		require.NoError(t, s.Close())
		return start(t, opened[s], now)
	}
	storagetest.Run(t, func(t testing.TB, now func() time.Time) storage.Store {
		return start(t, startEmulator(t, emulator.Options{}), now)
	}, caps)
	showGaps(t, caps)
}

// showGaps prints one skipped test for each gap, so that the output shows what the run does not check.
func showGaps(t *testing.T, caps storagetest.Caps) {
	for name, gap := range map[string]bool{
		"minima and maxima merge (the emulator keeps the last value)":                            caps.NoMinMax,
		"an instance takes a thousand tables and no more (others use it too)":                    caps.SharedTables,
		"rows of a load become visible together (each does by itself)":                           caps.NoAtomicLoad,
		"deleting a newer version never brings back one that a policy hid (the service decides)": caps.InexactGC,
	} {
		if gap {
			t.Run("gap", func(t *testing.T) { t.Skip("not promised: " + name) })
		}
	}
}

// TestContractOnService is TestContract on a real instance, with one table prefix for each store.
func TestContractOnService(t *testing.T) {
	if os.Getenv(projectEnv) == "" {
		t.Skipf("%s and %s name no instance", projectEnv, instanceEnv)
	}
	caps := gaps
	caps.SharedTables, caps.OwnClock, caps.NoMinMax = true, true, os.Getenv("BIGTABLE_EMULATOR_HOST") != ""
	// Each table needs an administrative call of a second, and the service does not use the clock of the tests.
	caps.Runs, caps.StepsMax = 1, 200
	var stores atomic.Int64
	run := time.Now().Unix() % 1_000_000
	storagetest.Run(t, func(t testing.TB, now func() time.Time) storage.Store {
		opts := bigtable.Options{Project: os.Getenv(projectEnv), Instance: os.Getenv(instanceEnv),
			AppProfile: os.Getenv(profileEnv), TablePrefix: fmt.Sprintf("t%d-%d.", run, stores.Add(1)), Now: now}
		t.Cleanup(func() { deleteTables(t, opts) })
		return open(t, opts)
	}, caps)
	showGaps(t, caps)
}

// deleteTables deletes the tables of one store, because an instance has room for only a thousand.
func deleteTables(t testing.TB, opts bigtable.Options) {
	ctx := context.Background()
	admin, err := gcp.NewAdminClient(ctx, opts.Project, opts.Instance)
	require.NoError(t, err)
	defer admin.Close()
	names, err := admin.Tables(ctx)
	require.NoError(t, err)
	for _, name := range names {
		if strings.HasPrefix(name, opts.TablePrefix) {
			require.NoError(t, admin.DeleteTable(ctx, name))
		}
	}
}
