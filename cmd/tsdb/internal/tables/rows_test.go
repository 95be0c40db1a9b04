//go:build !nobigtable

package tables

import (
	"encoding/json"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"halite/keyschema"
	"halite/storage"
	"halite/storage/bigtable"
	"halite/storage/jsoncell"
	"halite/storage/storagetest"
)

// holding returns a store with a value in one cell of table meta.
func holding(t testing.TB, at jsoncell.Cell, value []byte) (storage.Store, storage.Table) {
	t.Helper()
	store := storagetest.NewModel(time.Now)
	meta, err := store.EnsureTable(t.Context(), storage.MetaSchema())
	require.NoError(t, err)
	require.NoError(t, meta.Apply(t.Context(), []storage.RowMutation{{Key: []byte(at.Row), Entries: []storage.Entry{
		{Kind: storage.SetCell, Family: storage.FamilyMeta, Qualifier: []byte(at.Qualifier), Value: value}}}}))
	return store, meta
}

// requireNames demands that an error reports bad contents and names the cell.
func requireNames(t *testing.T, at jsoncell.Cell, err error) {
	t.Helper()
	require.True(t, errors.Is(err, storage.ErrCorrupt) || errors.Is(err, storage.ErrSchemaMismatch), "%v", err)
	require.ErrorContains(t, err, at.String())
}

// FuzzOwner: for any content of the row, the tables have an owner, are shared, or are unusable until a server takes
// them over.
func FuzzOwner(f *testing.F) {
	f.Add([]byte(`{"id":"00112233445566778899aabbccddeeff","host":"a","path":"/b","since":"2026-01-02T03:04:05Z"}`))
	f.Add([]byte(`{"mode":"direct","since":"2026-01-02T03:04:05Z"}`))
	f.Add([]byte(`{"mode":"sharded","since":"2026-01-02T03:04:05Z"}`))
	f.Add([]byte(`{"id":"x","since":"0001-01-01T00:00:00Z"}`))
	f.Add([]byte(`{"version":2,"owners":[]}`))
	f.Add([]byte(`{"path":"` + strings.Repeat("x", ownerBytesMax) + `"}`))
	f.Add([]byte(`null`))
	f.Add([]byte(``))
	dir := filepath.Join(f.TempDir(), "dir")
	f.Fuzz(func(t *testing.T, value []byte) {
		store, meta := holding(t, ownerCell(), value)
		them, err := ReadOwner(t.Context(), meta)
		alone, shared := Claim(t.Context(), store, dir, false, time.Now()), Share(t.Context(), store, false, time.Now())
		switch {
		case err != nil:
			for _, err := range []error{err, alone, shared, (&Guard{Meta: meta}).Check(t.Context())} {
				requireNames(t, ownerCell(), err)
			}
		case them.Mode == ModeDirect:
			require.NoError(t, shared)
			require.ErrorContains(t, alone, "servers in mode direct have shared the tables")
		default:
			require.ErrorContains(t, shared, "belong to the server with directory")
			require.ErrorContains(t, alone, "belong to the server with directory")
		}
		require.NoError(t, Claim(t.Context(), store, dir, true, time.Now()))
		require.NoError(t, Claim(t.Context(), store, dir, false, time.Now()), "taken over")
		require.ErrorContains(t, Share(t.Context(), store, false, time.Now()), "belong to the server with directory")
	})
}

// TestNobodyOwnsWithoutARow: if the row is gone after a conditional write reported it, the tables have no owner.
func TestNobodyOwnsWithoutARow(t *testing.T) {
	store := storagetest.NewModel(time.Now)
	meta, err := store.EnsureTable(t.Context(), storage.MetaSchema())
	require.NoError(t, err)
	err = (&Guard{Meta: meta}).Check(t.Context())
	require.ErrorIs(t, err, storage.ErrUnavailable)
	require.ErrorContains(t, err, ownerCell().String())
	require.NoError(t, meta.Apply(t.Context(), []storage.RowMutation{{Key: []byte(ownerRow), Entries: []storage.Entry{
		{Kind: storage.SetCell, Family: storage.FamilyMeta, Qualifier: []byte("another")}}}}))
	err = Claim(t.Context(), store, t.TempDir(), false, time.Now())
	require.ErrorIs(t, err, storage.ErrUnavailable)
	require.ErrorContains(t, err, ownerCell().String())
}

// FuzzRules: stored rules are valid and survive a round trip, or an error names the cell.
func FuzzRules(f *testing.F) {
	f.Add([]byte(`[{"pattern":"a*","from_hour":0,"salts":4},{"pattern":"a*","from_hour":500000,"salts":64}]`))
	f.Add([]byte(`[{"pattern":"a*","salts":4,"promoted":["job"],"basis":"promoted","salt_tags":1,"reversed_domains":["host"]}]`))
	f.Add([]byte(`[{"pattern":"debug_*","retention":{"raw":"3d","hours":"30d"}}]`))
	f.Add([]byte(`[{"pattern":"a*","salts":-1},{"pattern":"a*","salts":2147483648}]`))
	f.Add([]byte(`[{"pattern":"a*","basis":"other"}]`))
	f.Add([]byte(`{"version":2,"rules":[]}`))
	f.Add([]byte(`null`))
	f.Fuzz(func(t *testing.T, value []byte) {
		_, meta := holding(t, rulesCell(), value)
		schema, _, err := StoredSchema(t.Context(), meta)
		require.NoError(t, owned(t, meta))
		guard := Guard{Meta: meta, Schema: keyschema.DefaultSchema(), Now: func() time.Time { return time.UnixMilli(1) }}
		guarded := guard.Check(t.Context())
		if err != nil {
			requireNames(t, rulesCell(), err)
			requireNames(t, rulesCell(), guarded)
			return
		}
		if guarded != nil {
			require.ErrorContains(t, guarded, "restart this one") // they begin too early
		}
		rules := schema.Rules()
		for _, hour := range []int64{0, 500_000, keyschema.HourMax} {
			rule := schema.RuleAt("abc", hour)
			require.LessOrEqual(t, rule.FromHour, hour)
			require.True(t, rule.Salts > 0 && rule.Salts <= keyschema.SaltsMax)
		}
		require.NoError(t, WriteRules(t.Context(), meta, rules))
		again, some, err := StoredSchema(t.Context(), meta)
		require.NoError(t, err)
		require.True(t, some)
		require.Equal(t, asJSON(t, rules), asJSON(t, again.Rules()))
	})
}

func asJSON(t *testing.T, v any) string {
	text, err := json.Marshal(v)
	require.NoError(t, err)
	return string(text)
}

// owned records that servers in mode direct share the tables.
func owned(t *testing.T, meta storage.Table) error {
	_, err := own(t.Context(), meta, Owner{Mode: ModeDirect, Since: time.Now()}, true)
	return err
}

// TestNoEmulatorIsNamed: the error asks whether the emulator runs.
func TestNoEmulatorIsNamed(t *testing.T) {
	t.Setenv(emulatorEnv, "127.0.0.1:1")
	_, err := openBigtable(t.Context(), bigtable.Options{
		Project: "my-project", Instance: "my-instance", AdminTimeout: 50 * time.Millisecond})
	require.ErrorIs(t, err, storage.ErrUnavailable)
	require.ErrorContains(t, err, "is an emulator running at BIGTABLE_EMULATOR_HOST=127.0.0.1:1?")
}
