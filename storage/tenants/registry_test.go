package tenants

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"halite/keyschema"
	"halite/storage"
	"halite/storage/pebble"
)

func TestRegistry(t *testing.T) {
	ctx, fs := t.Context(), vfs.NewCrashableMem()
	store, err := pebble.Open(pebble.Options{Dir: "store", FS: fs})
	require.NoError(t, err)
	x, err := Open(ctx, Options{Store: store, Max: 3})
	require.NoError(t, err)
	var writes sync.WaitGroup
	for range 8 { // the first writes of a tenant run concurrently
		writes.Go(func() {
			if err := x.Ensure(ctx, "acme"); err != nil {
				t.Error(err)
			}
		})
	}
	writes.Wait()
	require.NoError(t, x.Ensure(ctx, keyschema.DefaultTenant))
	require.ErrorIs(t, x.Ensure(ctx, "a&b"), keyschema.ErrBadTenant)

	other, err := Open(ctx, Options{Store: store, Max: 3, Fixed: true}) // another server with the same tables
	require.NoError(t, err)
	require.NoError(t, x.Ensure(ctx, "beta"))
	require.NoError(t, other.Check(ctx, "beta"))
	require.ErrorIs(t, other.Ensure(ctx, "gamma"), ErrUnknown)
	require.NoError(t, other.Add(ctx, "gamma"))
	require.ErrorIs(t, x.Ensure(ctx, "delta"), ErrTooMany)
	require.NoError(t, x.StartDrop(ctx, "gamma"))
	require.NoError(t, x.StartDrop(ctx, "gamma"))
	require.ErrorIs(t, x.StartDrop(ctx, "delta"), ErrUnknown)

	// After a crash the list is whole.
	after := fs.CrashClone(vfs.CrashCloneCfg{})
	require.NoError(t, store.Close())
	store, err = pebble.Open(pebble.Options{Dir: "store", FS: after})
	require.NoError(t, err)
	defer func() { require.NoError(t, store.Close()) }()
	x, err = Open(ctx, Options{Store: store})
	require.NoError(t, err)
	list, err := x.List(ctx)
	require.NoError(t, err)
	names := ""
	for _, tenant := range list {
		names += tenant.Name + " "
		require.Positive(t, tenant.CreatedMs)
	}
	require.Equal(t, "acme beta gamma ", names)
	require.ErrorIs(t, x.Check(ctx, "gamma"), ErrDropping)
	require.ErrorIs(t, x.Ensure(ctx, "gamma"), ErrDropping)
	require.NoError(t, x.Remove(ctx, "gamma"))
	require.NoError(t, x.Check(ctx, "gamma"))
	list, err = x.List(ctx)
	require.NoError(t, err)
	require.Len(t, list, 2)
	_, err = Open(ctx, Options{Store: store, Max: -1})
	require.Error(t, err)
}

func TestDamagedList(t *testing.T) {
	ctx := context.Background()
	for row, content := range map[string]any{
		"acme": Tenant{Name: "beta"}, "a&b": Tenant{Name: "a&b"}, "x": "text",
	} {
		store, err := pebble.Open(pebble.Options{Dir: "store", FS: vfs.NewMem()})
		require.NoError(t, err)
		meta, err := store.EnsureTable(ctx, storage.MetaSchema())
		require.NoError(t, err)
		require.NoError(t, cell(row).Write(ctx, meta, content))
		_, err = Open(ctx, Options{Store: store})
		require.ErrorIs(t, err, storage.ErrCorrupt, fmt.Sprint(content))
		require.NoError(t, store.Close())
	}
}
