package api_test

import (
	"context"
	"errors"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	promstorage "github.com/prometheus/prometheus/storage"
	"github.com/stretchr/testify/require"

	"halite/api"
	"halite/api/internal/comparison"
	"halite/api/tenancy"
	"halite/ingest"
	"halite/keyschema"
	"halite/query"
	"halite/query/promadapter"
	"halite/query/read"
	"halite/query/rowcache"
	"halite/storage"
	"halite/storage/aliases"
	"halite/storage/index"
	"halite/storage/index/restricted"
	"halite/storage/notes"
	"halite/storage/pebble"
)

// stack is the whole database on a file system in memory.
type stack struct {
	*api.Server
	ingester  *ingest.Ingester
	queryable promstorage.SampleAndChunkQueryable
	options   read.Options
	index     *restricted.Index
	auth      api.Authenticator // nil: nobody logs in
	tenancy   *tenancy.Tenancy  // nil: there are no tenants
	store     storage.Store
	notes     *notes.Store
	aliases   *aliases.Registry
}

func newStack(tb testing.TB) *stack {
	tb.Helper()
	ctx := context.Background()
	fs := vfs.NewMem()
	now := comparison.Now
	tables, err := pebble.Open(pebble.Options{Dir: "store", FS: fs})
	require.NoError(tb, err)
	watch := rowcache.NewWatch()
	store := watch.Store(tables)
	data, err := store.EnsureTable(ctx, storage.DataSchema(0))
	require.NoError(tb, err)
	schema, err := keyschema.NewSchema(nil)
	require.NoError(tb, err)
	require.NoError(tb, watch.FindNewestRow(ctx, data, now()))
	cache, err := rowcache.New(rowcache.Options{Watch: watch})
	require.NoError(tb, err)
	stored, err := index.Open(ctx, index.Options{Store: store, Schema: schema, Now: now})
	require.NoError(tb, err)
	in, err := ingest.Open(ctx, ingest.Options{
		Dir: "wal", FS: fs, Store: store, Index: stored, Schema: schema, FreeBytesMin: -1, Now: now,
		Head: ingest.HeadOptions{FlushInterval: -1},
	})
	require.NoError(tb, err)
	tb.Cleanup(func() {
		if err := in.Close(context.Background()); !errors.Is(err, ingest.ErrClosed) {
			require.NoError(tb, err)
		}
		require.NoError(tb, store.Close())
	})
	known, err := aliases.Open(ctx, aliases.Options{Store: store})
	require.NoError(tb, err)
	lookup := restricted.New(stored, known)
	options := read.Options{
		Index: lookup, Head: in, Data: data, Schema: schema, Now: now, Histograms: in.Histograms(), StartTimes: true,
		Cache: cache, NewestRow: watch.NewestRow,
	}
	reader, err := read.New(options)
	require.NoError(tb, err)
	s := &stack{ingester: in, queryable: promadapter.New(reader), options: options, index: lookup, store: store, aliases: known}
	s.Server = s.server(tb, query.Options{})
	return s
}

// server is one with an engine of its own over the stack.
func (s *stack) server(tb testing.TB, o query.Options) *api.Server {
	tb.Helper()
	o.Queryable, o.QueryBytesMax = s.queryable, 1<<20
	engine, err := query.New(o)
	require.NoError(tb, err)
	server, err := api.New(api.Options{
		Writer: s.ingester, Engine: engine, Index: s.index, Queryable: s.queryable, Metadata: s.ingester,
		Flusher: s.ingester, Now: comparison.Now, AdminAPI: true, Auth: s.auth, Tenancy: s.tenancy,
		Notes: s.notes, Aliases: s.aliases,
	})
	require.NoError(tb, err)
	return server
}

// load writes the samples of the comparison.
func (s *stack) load(tb testing.TB) {
	tb.Helper()
	var list []ingest.Sample
	for _, sample := range comparison.Samples() {
		list = append(list, ingest.Sample{Labels: sample.Labels, TsMs: sample.TsMs, Value: sample.Value})
	}
	result, err := s.ingester.Write(context.Background(), ingest.SamplesInput(list))
	require.NoError(tb, err)
	require.Zero(tb, result.Rejected, result.First)
}
