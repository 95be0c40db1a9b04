package tools

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"halite/cmd/tsdb/internal/backup"
	"halite/storage"
	"halite/storage/bigtable"
	"halite/storage/bigtable/emulator"
	"halite/storage/pebble"
)

// brittle fails each write after some.
type brittle struct {
	storage.Store
	writesLeft int
	written    map[string]int // by row key
}

type brittleTable struct {
	storage.Table
	s *brittle
}

var errBroken = errors.New("broken")

func (s *brittle) EnsureTable(ctx context.Context, schema storage.TableSchema) (storage.Table, error) {
	table, err := s.Store.EnsureTable(ctx, schema)
	return &brittleTable{table, s}, err
}

func (t *brittleTable) count(muts []storage.RowMutation) error {
	if t.s.writesLeft == 0 {
		return errBroken
	}
	t.s.writesLeft--
	for _, m := range muts {
		t.s.written[t.Schema().Name+"/"+string(m.Key)]++
	}
	return nil
}

// Apply fails half of the time after it has written the rows, as if the reply was lost.
func (t *brittleTable) Apply(ctx context.Context, muts []storage.RowMutation) error {
	if err := t.count(muts); err != nil {
		return errors.Join(err, t.Table.Apply(ctx, muts))
	}
	return t.Table.Apply(ctx, muts)
}

func (t *brittleTable) Load(ctx context.Context, muts []storage.RowMutation) error {
	if err := t.count(muts); err != nil {
		return err
	}
	return t.Table.Load(ctx, muts)
}

func storeInMemory(t *testing.T) storage.Store {
	t.Helper()
	store, err := pebble.Open(pebble.Options{Dir: "db", FS: vfs.NewMem()})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	return store
}

func fillForMigration(t *testing.T, store storage.Store) {
	ctx := context.Background()
	plain, err := store.EnsureTable(ctx, storage.TableSchema{Name: "plain", Families: []storage.Family{{Name: "f"}, {Name: "g"}}})
	require.NoError(t, err)
	sums, err := store.EnsureTable(ctx, storage.TableSchema{Name: "sums", Families: []storage.Family{
		{Name: "n", Kind: storage.SumInt64}, {Name: "f", GC: storage.GCPolicy{MaxAge: time.Hour}}}})
	require.NoError(t, err)
	_, err = store.EnsureTable(ctx, storage.TableSchema{Name: "void", Families: []storage.Family{{Name: "f"}}})
	require.NoError(t, err)
	for i := range 500 {
		key := fmt.Appendf(nil, "row\x00%04d\xff", i)
		require.NoError(t, plain.Apply(ctx, []storage.RowMutation{{Key: key, Entries: []storage.Entry{
			{Family: "f", Qualifier: []byte{0, byte(i)}, TsMs: int64(i), Value: bytes.Repeat([]byte{byte(i)}, i%90)},
			{Family: "g", TsMs: 5, Value: key}, {Family: "g", TsMs: 6}}}}))
		require.NoError(t, sums.Apply(ctx, []storage.RowMutation{{Key: key, Entries: []storage.Entry{
			{Kind: storage.AddToCell, Family: "n", TsMs: 1, Add: int64(i) - 250},
			{Family: "f", TsMs: int64(i), Value: key}}}})) // long since garbage
	}
}

// TestMigrationGoesOnWhereItStopped lets the destination fail repeatedly. Each run makes progress and adds no sum
// twice, and at the end both sides are equal.
func TestMigrationGoesOnWhereItStopped(t *testing.T) {
	ctx := context.Background()
	from := storeInMemory(t)
	fillForMigration(t, from)
	server, err := emulator.Start(emulator.Options{})
	require.NoError(t, err)
	defer server.Close()
	cloud, err := bigtable.Open(ctx, bigtable.Options{Project: "test-project", Instance: "test-instance",
		EmulatorHost: server.Addr()})
	require.NoError(t, err)
	defer cloud.Close()
	to := &brittle{Store: cloud, written: map[string]int{}}
	file := filepath.Join(t.TempDir(), "migrate.json")
	var out bytes.Buffer
	start := func(name string) *migration {
		return &migration{from: from, to: to, out: &out, batchBytes: 2000, file: file,
			state: migrationState{Version: migrationVersion, From: "here", To: name}}
	}
	runs := 0
	for ; ; runs++ {
		require.Less(t, runs, 100, "each run must get further")
		to.writesLeft = 3
		err := start("there").copyAll(ctx)
		if err == nil {
			break
		}
		require.ErrorIs(t, err, errBroken)
		require.Error(t, start("elsewhere").copyAll(ctx), "the checkpoint belongs to another migration")
	}
	require.Greater(t, runs, 5)
	require.Len(t, to.written, 1000)
	for key, times := range to.written {
		require.LessOrEqual(t, times, 2, "row %q", key)
	}
	require.NoError(t, start("there").verifyAll(ctx))
	require.Contains(t, out.String(), "sums [\"\", ")
	require.Contains(t, out.String(), "equal")

	sums, err := cloud.Table(ctx, "sums")
	require.NoError(t, err)
	require.NoError(t, sums.Apply(ctx, []storage.RowMutation{{Key: []byte("row\x000100\xff"), Entries: []storage.Entry{
		{Kind: storage.AddToCell, Family: "n", TsMs: 1, Add: 1}}}}))
	require.ErrorContains(t, start("there").verifyAll(ctx), `"row\x000100\xff" has different cells`)
	require.NoError(t, sums.DropRows(ctx, storage.RowRange{Start: []byte("row\x000100"), End: []byte("row\x000101")}))
	require.ErrorContains(t, start("there").verifyAll(ctx), `"row\x000100\xff" exists only in the source`)
	_, err = cloud.EnsureTable(ctx, storage.TableSchema{Name: "extra", Families: []storage.Family{{Name: "f"}}})
	require.NoError(t, err)
	require.ErrorContains(t, start("there").verifyAll(ctx), "table extra exists only in the destination")
}

// TestComparisonShowsTheTimeLeft: after a copy of 1000 rows, half of them are compared in half of the time.
func TestComparisonShowsTheTimeLeft(t *testing.T) {
	store := storeInMemory(t)
	fillForMigration(t, store)
	var out bytes.Buffer
	m := &migration{from: store, to: store, out: &out}
	now := time.Unix(1_763_000_000, 0)
	m.verified = backup.NewProgressOf(&out, func() time.Time { now = now.Add(3 * time.Second); return now }, "rows compared")
	m.verified.Begin(1000)
	require.NoError(t, m.verifyTable(t.Context(), "plain"))
	require.Contains(t, out.String(), "500 of at most 1000 rows compared (50 %), about 3s left")
}

// FuzzMigrationState: a checkpoint is an error or a position, and survives a round trip.
func FuzzMigrationState(f *testing.F) {
	f.Add([]byte(`{"version":1,"from":"a","to":"b","finished":["data"],"table":"meta","last":"AAEC","rows":7,"bytes":9}`))
	f.Add([]byte(`{"version":2}`))
	f.Add([]byte(`{"version":1,"last":"AA=="}`))
	f.Add([]byte(`{"version":1,"rows":-1}`))
	f.Add([]byte(`{"version":1,"table":"data","last":"!"}`))
	f.Fuzz(func(t *testing.T, src []byte) {
		s, err := parseMigrationState(src)
		if err != nil {
			return
		}
		m := migration{file: filepath.Join(t.TempDir(), "migrate.json"), state: s, out: io.Discard}
		require.NoError(t, m.writeState())
		m.state = migrationState{From: s.From, To: s.To}
		found, err := m.readState()
		require.NoError(t, err)
		require.True(t, found)
		require.Equal(t, s.Rows, m.state.Rows)
		require.Equal(t, string(s.Last), string(m.state.Last))
		require.Equal(t, s.Finished, m.state.Finished)
	})
}

// TestDaysProgress: work on days prints how much is done and how long the rest takes, and begins again with the next work.
func TestDaysProgress(t *testing.T) {
	var out bytes.Buffer
	now := time.Unix(1000, 0)
	progress := daysProgress(&out, func() time.Time { return now })
	for range 2 {
		out.Reset()
		progress(0, 40)
		now = now.Add(10 * time.Second)
		progress(10, 40)
		require.Equal(t, "10 of at most 40 days and months (25 %), about 30s left\n", out.String())
	}
}
