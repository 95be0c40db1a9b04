package tables

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"halite/storage"
	"halite/storage/pebble"
)

func openTestStore(t *testing.T) storage.Store {
	t.Helper()
	store, err := pebble.Open(pebble.Options{Dir: "db", FS: vfs.NewMem()})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	return store
}

func rulesFile(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "rules.json")
	require.NoError(t, os.WriteFile(file, []byte(text), 0o644))
	return file
}

const (
	firstRules = `[{"pattern":"a*","from_hour":0,"salts":4}]`
	laterRules = `[{"pattern":"a*","from_hour":0,"salts":4},{"pattern":"a*","from_hour":500000,"salts":64}]`
	pastRules  = `[{"pattern":"a*","from_hour":0,"salts":4},{"pattern":"a*","from_hour":400000,"salts":64}]`
)

func TestSchemaIsRememberedAndOnlyGrows(t *testing.T) {
	ctx, store := context.Background(), openTestStore(t)
	now := time.UnixMilli(490000 * 3600 * 1000)
	schema, err := LoadSchema(ctx, store, "", now)
	require.NoError(t, err)
	require.Equal(t, 16, schema.RuleAt("abc", 490000).Salts)

	schema, err = LoadSchema(ctx, store, rulesFile(t, firstRules), now)
	require.NoError(t, err, "an empty store takes any rules")
	require.Equal(t, 4, schema.RuleAt("abc", 490000).Salts)

	schema, err = LoadSchema(ctx, store, "", now)
	require.NoError(t, err)
	require.Equal(t, 4, schema.RuleAt("abc", 490000).Salts, "without a file the stored rules hold")

	data, err := store.EnsureTable(ctx, storage.DataSchema(0))
	require.NoError(t, err)
	require.NoError(t, data.Apply(ctx, []storage.RowMutation{{Key: []byte("abc#00##9510000"), Entries: []storage.Entry{
		{Kind: storage.SetCell, Family: storage.FamilySamples, Qualifier: []byte{1}, TsMs: 1, Value: []byte{1}},
	}}}))

	schema, err = LoadSchema(ctx, store, rulesFile(t, laterRules), now)
	require.NoError(t, err)
	require.Equal(t, 4, schema.RuleAt("abc", 490000).Salts)
	require.Equal(t, 64, schema.RuleAt("abc", 500000).Salts)

	_, err = LoadSchema(ctx, store, rulesFile(t, pastRules), now)
	require.ErrorContains(t, err, "must start after hour 490000")
	_, err = LoadSchema(ctx, store, rulesFile(t, `[]`), now)
	require.ErrorContains(t, err, `"a*" from hour 0 already holds`)
	_, err = LoadSchema(ctx, store, rulesFile(t, `[{"pattern":"a*","sallts":4}]`), now)
	require.ErrorContains(t, err, "sallts")
	_, err = LoadSchema(ctx, store, rulesFile(t, `[{"pattern":"a*","from_hour":600000,"salts":-1}]`), now)
	require.Error(t, err)
}
