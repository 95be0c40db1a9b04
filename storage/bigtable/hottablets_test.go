package bigtable_test

import (
	"context"
	"os"
	"path"
	"testing"
	"time"

	"cloud.google.com/go/bigtable/admin/apiv2/adminpb"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"

	"halite/storage"
	"halite/storage/bigtable"
	"halite/storage/bigtable/emulator"
)

// hotRig is a store whose service answers ListHotTablets with the pages in testdata, or with an error.
type hotRig struct {
	now      time.Time
	failure  error
	requests []*adminpb.ListHotTabletsRequest
	opts     bigtable.Options
	registry *prometheus.Registry
}

func newHotRig(t *testing.T) *hotRig {
	t.Setenv("BIGTABLE_EMULATOR_HOST", "")
	r := &hotRig{now: time.Date(2026, 11, 13, 2, 10, 30, 0, time.UTC), registry: prometheus.NewRegistry()}
	pages := map[string]string{"": "hottablets_1.json", "CAIQAg": "hottablets_2.json"}
	r.opts = startEmulator(t, emulator.Options{
		Unary: func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
			if path.Base(info.FullMethod) != "ListHotTablets" {
				return handler(ctx, req)
			}
			request := req.(*adminpb.ListHotTabletsRequest)
			r.requests = append(r.requests, request)
			if r.failure != nil {
				return nil, r.failure
			}
			text, err := os.ReadFile("testdata/" + pages[request.GetPageToken()])
			if err != nil {
				return nil, err
			}
			page := &adminpb.ListHotTabletsResponse{}
			return page, protojson.Unmarshal(text, page)
		},
	})
	// The store connects to the emulator as if it were the service, because it never lists hot tablets of an emulator.
	r.opts.ClientOptions = []option.ClientOption{
		option.WithEndpoint(r.opts.EmulatorHost), option.WithoutAuthentication(),
		option.WithGRPCDialOption(grpc.WithTransportCredentials(insecure.NewCredentials())),
	}
	r.opts.EmulatorHost, r.opts.Cluster, r.opts.TablePrefix = "", "test-cluster", "on_"
	r.opts.Now, r.opts.Registerer = func() time.Time { return r.now }, r.registry
	return r
}

// list lists the hot tablets of the last span.
func (r *hotRig) list(t *testing.T, s *bigtable.Store, span time.Duration) ([]storage.HotTablet, error) {
	return s.HotTablets(t.Context(), r.now.Add(-span).UnixMilli(), r.now.UnixMilli()+1)
}

func TestHotTablets(t *testing.T) {
	r := newHotRig(t)
	s := open(t, r.opts)
	defer func() { require.NoError(t, s.Close()) }()
	require.True(t, s.ListsHotTablets())
	list, err := r.list(t, s, time.Hour)
	require.NoError(t, err)
	minute := func(n int) int64 { return time.Date(2026, 11, 13, 2, n, 0, 0, time.UTC).UnixMilli() }
	require.Equal(t, []storage.HotTablet{
		{Table: "data", StartKey: []byte("http_requests_total#03#instance=web-1:80,job=web#9501170"),
			EndKey: []byte("http_requests_total#03#instance=web-9:80,job=web#9501881"), FromMs: minute(7), ToMs: minute(8),
			CPUPercent: 71.5},
		{Table: "series", StartKey: []byte("up#979229"), EndKey: []byte("up#979259"), FromMs: minute(9), ToMs: minute(10),
			CPUPercent: 42.25},
	}, list, "tables without the prefix belong to another database")
	require.Len(t, r.requests, 2)
	first := r.requests[0]
	require.Equal(t, "projects/test-project/instances/test-instance/clusters/test-cluster", first.GetParent())
	require.EqualValues(t, bigtable.HotTabletsMaxDefault, first.GetPageSize())
	require.Equal(t, minute(10), first.GetEndTime().AsTime().UnixMilli(), "whole minutes, none in the future")
	require.Equal(t, minute(10-60), first.GetStartTime().AsTime().UnixMilli())

	// The store reuses the response for a minute. Then it sends a new request.
	r.now = r.now.Add(20 * time.Second)
	again, err := r.list(t, s, time.Hour)
	require.NoError(t, err)
	require.Equal(t, list, again)
	require.Len(t, r.requests, 2)
	r.now = r.now.Add(time.Minute)
	_, err = r.list(t, s, time.Hour)
	require.NoError(t, err)
	require.Len(t, r.requests, 4)

	// The service refuses spans of more than 48 hours, and times of more than 14 days ago.
	_, err = r.list(t, s, 30*24*time.Hour)
	require.NoError(t, err)
	long := r.requests[4]
	require.LessOrEqual(t, long.GetEndTime().AsTime().Sub(long.GetStartTime().AsTime()), 48*time.Hour)
	require.Greater(t, long.GetEndTime().AsTime().Sub(long.GetStartTime().AsTime()), 47*time.Hour)
	list, err = s.HotTablets(t.Context(), r.now.Add(-20*24*time.Hour).UnixMilli(), r.now.Add(-15*24*time.Hour).UnixMilli())
	require.NoError(t, err)
	require.Empty(t, list)
	require.Len(t, r.requests, 6, "the service does not know such times, so the store does not ask")
}

// TestHotTabletsMax: the store requests no more pages than it returns.
func TestHotTabletsMax(t *testing.T) {
	r := newHotRig(t)
	r.opts.HotTabletsMax = 1
	s := open(t, r.opts)
	defer func() { require.NoError(t, s.Close()) }()
	list, err := r.list(t, s, time.Hour)
	require.NoError(t, err)
	require.Len(t, list, 1)
	require.Len(t, r.requests, 1)
}

// TestHotTabletsErrors: an error contains advice, the metrics count it, and the store does not repeat the call at once.
func TestHotTabletsErrors(t *testing.T) {
	r := newHotRig(t)
	s := open(t, r.opts)
	defer func() { require.NoError(t, s.Close()) }()
	for i, c := range []struct {
		code codes.Code
		want string
	}{
		{codes.PermissionDenied, "needs roles/bigtable.viewer"},
		{codes.NotFound, `no cluster "test-cluster"`},
		{codes.InvalidArgument, "list hot tablets"},
	} {
		r.failure = status.Error(c.code, "injected")
		r.now = r.now.Add(time.Minute)
		for range 2 {
			_, err := r.list(t, s, time.Hour)
			require.ErrorContains(t, err, c.want)
			require.ErrorContains(t, err, "injected")
			require.Len(t, r.requests, i+1)
		}
	}
	require.NoError(t, s.Close())
	_, err := r.list(t, s, time.Hour)
	require.ErrorIs(t, err, storage.ErrUnavailable)
	requireRequests(t, r.registry, "ListHotTablets", "PermissionDenied", 1)
}

// requireRequests checks the counter of requests of a method with a code.
func requireRequests(t *testing.T, registry *prometheus.Registry, method, code string, want float64) {
	t.Helper()
	families, err := registry.Gather()
	require.NoError(t, err)
	for _, f := range families {
		if f.GetName() != "tsdb_bigtable_requests_total" {
			continue
		}
		for _, m := range f.GetMetric() {
			if m.GetLabel()[0].GetValue() == code && m.GetLabel()[1].GetValue() == method {
				require.Equal(t, want, m.GetCounter().GetValue())
				return
			}
		}
	}
	require.Fail(t, "the metrics do not count the request", "%s %s", method, code)
}

// TestHotTabletsOff: without a cluster, or on an emulator, the store lists no hot tablets.
func TestHotTabletsOff(t *testing.T) {
	opts := startEmulator(t, emulator.Options{})
	for _, cluster := range []string{"", "test-cluster"} {
		opts.Cluster = cluster
		s := open(t, opts)
		require.False(t, s.ListsHotTablets())
		require.NoError(t, s.Close())
	}
	opts.Cluster = "No Cluster"
	require.ErrorContains(t, opts.Validate(), "Cluster")
	opts.Cluster, opts.HotTabletsMax, opts.HotTabletsTimeout = "", -1, -1
	require.ErrorContains(t, opts.Validate(), "HotTabletsMax -1")
	require.ErrorContains(t, opts.Validate(), "HotTabletsTimeout or AdminTimeout is negative")
}
