package bigtable_test

import (
	"context"
	"fmt"
	"path"
	"sync"
	"testing"

	"cloud.google.com/go/bigtable/apiv2/bigtablepb"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"halite/storage"
	"halite/storage/bigtable/emulator"
)

// The service's limits, as published; the emulator has none.
const (
	serviceMutationsMax    = 100_000
	serviceReadBytesMax    = 512_000
	serviceMessageBytesMax = 256 << 20
	serviceFilterBytesMax  = 20 << 10
)

// requestBook intercepts requests to an emulator and records their sizes.
type requestBook struct {
	mu sync.Mutex
	// writes and reads count bulk requests. The other fields are maxima over single requests.
	writes, reads                                    int
	mutations, writeBytes, ranges, readBytes, filter int
}

func (b *requestBook) stream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	switch path.Base(info.FullMethod) {
	case "MutateRows", "ReadRows":
		return handler(srv, &notedStream{stream, b})
	}
	return handler(srv, stream)
}

type notedStream struct {
	grpc.ServerStream
	book *requestBook
}

func (s *notedStream) RecvMsg(m any) error {
	if err := s.ServerStream.RecvMsg(m); err != nil {
		return err
	}
	b := s.book
	b.mu.Lock()
	defer b.mu.Unlock()
	switch req := m.(type) {
	case *bigtablepb.MutateRowsRequest:
		mutations := 0
		for _, e := range req.Entries {
			mutations += len(e.Mutations)
		}
		b.writes++
		b.mutations, b.writeBytes = max(b.mutations, mutations), max(b.writeBytes, proto.Size(req))
	case *bigtablepb.ReadRowsRequest:
		b.reads++
		b.ranges = max(b.ranges, len(req.Rows.GetRowKeys())+len(req.Rows.GetRowRanges()))
		b.readBytes = max(b.readBytes, proto.Size(req))
		b.filter = max(b.filter, proto.Size(req.Filter))
	}
	return nil
}

// TestRequestsStayWithinLimits makes writes and reads that are too large for one request of the service, with the default
// options, and checks the sizes of the requests.
func TestRequestsStayWithinLimits(t *testing.T) {
	if testing.Short() {
		t.Skip("requests of the largest size take long under the race detector")
	}
	ctx := context.Background()
	book := &requestBook{}
	s := open(t, startEmulator(t, emulator.Options{Stream: book.stream}))
	defer func() { require.NoError(t, s.Close()) }()
	table, err := s.EnsureTable(ctx, storage.TableSchema{Name: "t", Families: []storage.Family{{Name: "a"}, {Name: "b"}}})
	require.NoError(t, err)

	// A Load has no separate limit: 130,000 rows of one entry, with keys of 120 bytes.
	const rows = 130_000
	key := func(i int) []byte { return fmt.Appendf(nil, "metric#07#%0100d#%08d", i, i) }
	muts := make([]storage.RowMutation, rows)
	for i := range muts {
		muts[i] = storage.RowMutation{Key: key(i), Entries: []storage.Entry{{Family: "a", TsMs: 1, Value: []byte("v")}}}
	}
	require.NoError(t, table.Load(ctx, muts))
	require.Equal(t, 2, book.writes, "the smallest number of requests for these entries")
	require.LessOrEqual(t, book.mutations, serviceMutationsMax)

	// 40 rows of a megabyte.
	muts = muts[:40]
	for i := range muts {
		muts[i].Entries[0].Value = make([]byte, 1<<20)
	}
	before := book.writes
	require.NoError(t, table.Apply(ctx, muts))
	require.Equal(t, 3, book.writes-before, "16 MiB each")
	require.LessOrEqual(t, book.writeBytes, serviceMessageBytesMax)

	// Every other row by its key, and a range behind each: 20,000 keys and ranges of up to 240 bytes.
	var set storage.RowSet
	for i := 0; i < 20_000; i += 2 {
		set.Keys = append(set.Keys, key(2*i))
		set.Ranges = append(set.Ranges, storage.RowRange{Start: key(2*i + 1), End: key(2*i + 2)})
	}
	book.reads = 0
	opts := storage.ReadOptions{Filter: storage.Filter{Families: []string{"a", "b"}, QualifierStart: make([]byte, 1000),
		QualifierEnd: []byte("z"), FromMs: 1, ToMs: 5, VersionsMax: 1}}
	for _, filter := range []storage.Filter{{}, opts.Filter, {QualifierStart: make([]byte, storage.QualifierBytesMax)}} {
		it := table.ReadRows(ctx, set, storage.ReadOptions{Filter: filter})
		for it.Next() {
			continue
		}
		require.NoError(t, it.Err())
		require.NoError(t, it.Close())
	}
	t.Logf("%d reads of at most %d keys and ranges, %d bytes, filters of at most %d bytes; writes of at most %d entries, %d bytes",
		book.reads, book.ranges, book.readBytes, book.filter, book.mutations, book.writeBytes)
	require.LessOrEqual(t, book.readBytes, serviceReadBytesMax)
	require.LessOrEqual(t, book.filter, serviceFilterBytesMax)
	require.LessOrEqual(t, book.reads, 3*14, "400 KiB each")
	require.Greater(t, book.reads, 3)
}
