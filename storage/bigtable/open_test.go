package bigtable_test

import (
	"context"
	"strings"
	"testing"
	"time"

	gcp "cloud.google.com/go/bigtable"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"halite/storage"
	"halite/storage/bigtable"
	"halite/storage/bigtable/emulator"
)

func TestOptionsValidate(t *testing.T) {
	good := bigtable.Options{Project: "my-project", Instance: "my-instance"}
	require.NoError(t, good.Validate())
	for want, change := range map[string]func(*bigtable.Options){
		"Project is required":       func(o *bigtable.Options) { o.Project = "" },
		"Instance is required":      func(o *bigtable.Options) { o.Instance = "" },
		`Project "My Project" is`:   func(o *bigtable.Options) { o.Project = "My Project" },
		`Instance "i" is`:           func(o *bigtable.Options) { o.Instance = "i" },
		`AppProfile "a b" is`:       func(o *bigtable.Options) { o.AppProfile = "a b" },
		`TablePrefix "-x" must`:     func(o *bigtable.Options) { o.TablePrefix = "-x" },
		"RequestMutationsMax 100":   func(o *bigtable.Options) { o.RequestMutationsMax = storage.EntriesMax + 1 },
		"RequestBytesMax -1":        func(o *bigtable.Options) { o.RequestBytesMax = -1 },
		"RequestRowSetBytesMax 1 ":  func(o *bigtable.Options) { o.RequestRowSetBytesMax = 1 },
		"WritesInFlightMax 1000 is": func(o *bigtable.Options) { o.WritesInFlightMax = 1000 },
		"ReadsInFlightMax -1 is":    func(o *bigtable.Options) { o.ReadsInFlightMax = -1 },
		"AdminTimeout is negative":  func(o *bigtable.Options) { o.AdminTimeout = -1 },
	} {
		o := good
		change(&o)
		require.ErrorContains(t, o.Validate(), want)
		_, err := bigtable.Open(t.Context(), o)
		require.ErrorContains(t, err, want)
	}
	both := bigtable.Options{}
	require.ErrorContains(t, both.Validate(), "Project is required")
	require.ErrorContains(t, both.Validate(), "Instance is required", "all faults are listed")
}

func TestOpenWithoutServer(t *testing.T) {
	began := time.Now()
	_, err := bigtable.Open(t.Context(), bigtable.Options{Project: "test-project", Instance: "test-instance",
		EmulatorHost: "127.0.0.1:1", AdminTimeout: 200 * time.Millisecond})
	require.ErrorIs(t, err, storage.ErrUnavailable)
	require.ErrorContains(t, err, "projects/test-project/instances/test-instance")
	require.Less(t, time.Since(began), 10*time.Second)
}

func TestOpenWithoutCredentials(t *testing.T) {
	t.Setenv("BIGTABLE_EMULATOR_HOST", "")
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", "/nonexistent/key.json")
	_, err := bigtable.Open(t.Context(), bigtable.Options{Project: "test-project", Instance: "test-instance"})
	require.ErrorContains(t, err, "GOOGLE_APPLICATION_CREDENTIALS")
	require.ErrorContains(t, err, "/nonexistent/key.json")
}

// handlerFunc makes the emulator return an error for some calls.
func handlerFunc(code codes.Code, methods ...string) emulator.Options {
	refuse := func(method string) error {
		for _, m := range methods {
			if strings.HasSuffix(method, "/"+m) {
				return status.Error(code, "injected")
			}
		}
		return nil
	}
	return emulator.Options{
		Unary: func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
			if err := refuse(info.FullMethod); err != nil {
				return nil, err
			}
			return handler(ctx, req)
		},
		Stream: func(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
			if err := refuse(info.FullMethod); err != nil {
				return err
			}
			return handler(srv, ss)
		},
	}
}

// TestErrorsSayWhatToDo: the store adds advice to the service's errors.
func TestErrorsSayWhatToDo(t *testing.T) {
	for _, c := range []struct {
		code codes.Code
		is   error
		want string
	}{
		{codes.ResourceExhausted, storage.ErrUnavailable, "quota"},
		{codes.PermissionDenied, nil, "roles/bigtable.user"},
		{codes.Unauthenticated, nil, "GOOGLE_APPLICATION_CREDENTIALS"},
		{codes.NotFound, storage.ErrNoTable, "check the names"},
		{codes.FailedPrecondition, nil, "single-cluster"},
		{codes.InvalidArgument, storage.ErrBadMutation, "no retry helps"},
		{codes.Unavailable, storage.ErrUnavailable, "repeat later"},
	} {
		opts := startEmulator(t, handlerFunc(c.code, "MutateRows", "ReadRows", "CheckAndMutateRow"))
		opts.WriteTimeout, opts.ReadStallTimeout = 100*time.Millisecond, 100*time.Millisecond
		s := open(t, opts)
		table, err := s.EnsureTable(t.Context(), storage.TableSchema{Name: "t", Families: []storage.Family{{Name: "f"}}})
		require.NoError(t, err)
		muts := []storage.RowMutation{{Key: []byte("k"), Entries: []storage.Entry{{Family: "f"}}}}
		_, checkErr := table.CheckAndApply(t.Context(), []byte("k"), storage.Filter{}, muts[0], muts[0])
		it := table.ReadRows(t.Context(), storage.RowSet{Keys: [][]byte{[]byte("k")}}, storage.ReadOptions{})
		require.False(t, it.Next())
		for what, err := range map[string]error{"apply": table.Apply(t.Context(), muts), "load": table.Load(t.Context(), muts),
			"check": checkErr, "read": it.Err()} {
			require.ErrorContains(t, err, c.want, "%s, %s", what, c.code)
			for _, sentinel := range []error{storage.ErrUnavailable, storage.ErrNoTable, storage.ErrBadMutation} {
				if sentinel == c.is {
					require.ErrorIs(t, err, sentinel, "%s, %s", what, c.code)
				} else {
					require.NotErrorIs(t, err, sentinel, "%s, %s", what, c.code)
				}
			}
		}
		require.NoError(t, it.Close())
		require.NoError(t, s.Close())
		require.ErrorIs(t, table.Apply(t.Context(), muts), storage.ErrUnavailable, "after Close")
	}
}

func TestTablesOfOthers(t *testing.T) {
	opts := startEmulator(t, emulator.Options{})
	s := open(t, opts)
	defer s.Close()
	conn, err := grpc.NewClient(opts.EmulatorHost, grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	defer conn.Close()
	admin, err := gcp.NewAdminClient(t.Context(), opts.Project, opts.Instance, option.WithGRPCConn(conn))
	require.NoError(t, err)
	for name, families := range map[string]map[string]gcp.Family{
		"foreign": {"f": {}},
		"later":   {"f": {}, "halite.v2": {}},
		"odd":     {"f": {GCPolicy: gcp.UnionPolicy(gcp.IntersectionPolicy(gcp.MaxVersionsPolicy(1)))}, "halite.v1": {}},
		"hll": {"f": {ValueType: gcp.AggregateType{Input: gcp.Int64Type{Encoding: gcp.BigEndianBytesEncoding{}},
			Aggregator: gcp.HllppUniqueCountAggregator{}}}, "halite.v1": {}},
	} {
		require.NoError(t, admin.CreateTableFromConf(t.Context(), &gcp.TableConf{TableID: name, ColumnFamilies: families}))
	}
	for name, want := range map[string]string{"foreign": "was not made by this server", "later": `layout version "2"`,
		"odd": "does not use the GC policy", "hll": "unknown aggregate"} {
		_, err := s.EnsureTable(t.Context(), storage.TableSchema{Name: name, Families: []storage.Family{{Name: "f"}}})
		require.ErrorIs(t, err, storage.ErrSchemaMismatch, name)
		require.ErrorContains(t, err, want)
		_, err = s.Table(t.Context(), name)
		require.ErrorIs(t, err, storage.ErrSchemaMismatch, name)
	}
}

func TestCheckTablesOnly(t *testing.T) {
	opts := startEmulator(t, emulator.Options{})
	checks := opts
	checks.CheckTablesOnly = true
	s := open(t, checks)
	defer s.Close()
	schema := storage.TableSchema{Name: "t", HourKeys: true, Families: []storage.Family{
		{Name: "f", GC: storage.GCPolicy{MaxAge: 36 * time.Hour, MaxVersions: 1}}, {Name: "n", Kind: storage.SumInt64}}}
	_, err := s.EnsureTable(t.Context(), schema)
	require.ErrorIs(t, err, storage.ErrNoTable)
	require.ErrorContains(t, err, "cbt -project test-project -instance test-instance createtable t "+
		`"families=halite.v1.hours:never,f:maxage=129600s||maxversions=1,n:never:intsum"`)
	owner := open(t, opts)
	defer owner.Close()
	_, err = owner.EnsureTable(t.Context(), schema)
	require.NoError(t, err)
	_, err = s.EnsureTable(t.Context(), schema)
	require.NoError(t, err)
	schema.Families[0].GC = storage.GCPolicy{MaxVersions: 2}
	_, err = s.EnsureTable(t.Context(), schema)
	require.ErrorIs(t, err, storage.ErrSchemaMismatch)
	require.ErrorContains(t, err, `setgcpolicy t f "maxversions=2"`)
	schema.Families = schema.Families[:1]
	_, err = owner.EnsureTable(t.Context(), schema)
	require.ErrorContains(t, err, "family n is unexpected")
	require.ErrorContains(t, err, "createtable")
}

func TestTablePrefixesKeepDatabasesApart(t *testing.T) {
	opts := startEmulator(t, emulator.Options{})
	one, other := opts, opts
	one.TablePrefix, other.TablePrefix = "", "b."
	ctx := t.Context()
	schema := storage.TableSchema{Name: "t", Families: []storage.Family{{Name: "f"}}}
	for _, o := range []bigtable.Options{one, other} {
		s := open(t, o)
		defer s.Close()
		table, err := s.EnsureTable(ctx, schema)
		require.NoError(t, err)
		require.Equal(t, "ok", readText(ctx, table, storage.RowSet{Ranges: []storage.RowRange{{}}}, storage.ReadOptions{}))
		require.NoError(t, table.Apply(ctx, []storage.RowMutation{{Key: []byte("k"), Entries: []storage.Entry{{Family: "f"}}}}))
		all, err := s.Tables(ctx)
		require.NoError(t, err)
		require.Equal(t, []storage.TableSchema{schema}, all)
	}
}

func TestMetrics(t *testing.T) {
	r := prometheus.NewRegistry()
	opts := startEmulator(t, emulator.Options{})
	opts.Registerer = r
	s := open(t, opts)
	defer s.Close()
	table, err := s.EnsureTable(t.Context(), storage.TableSchema{Name: "t", Families: []storage.Family{{Name: "f"}}})
	require.NoError(t, err)
	require.NoError(t, table.Apply(t.Context(), []storage.RowMutation{
		{Key: []byte("k1"), Entries: []storage.Entry{{Family: "f"}, {Family: "f", TsMs: 1}}},
		{Key: []byte("k2"), Entries: []storage.Entry{{Family: "f"}}}}))
	readText(t.Context(), table, storage.RowSet{Ranges: []storage.RowRange{{}}}, storage.ReadOptions{})
	families, err := r.Gather()
	require.NoError(t, err)
	got := map[string]float64{}
	for _, f := range families {
		for _, m := range f.Metric {
			name := f.GetName()
			for _, l := range m.Label {
				name += "," + l.GetValue()
			}
			got[name] = m.GetCounter().GetValue()
		}
	}
	require.Equal(t, 1.0, got["tsdb_bigtable_requests_total,OK,MutateRows"])
	require.Equal(t, 1.0, got["tsdb_bigtable_requests_total,OK,ReadRows"])
	require.Equal(t, 2.0, got["tsdb_bigtable_rows_written_total"])
	require.Equal(t, 3.0, got["tsdb_bigtable_mutations_total"])
	require.Equal(t, 2.0, got["tsdb_bigtable_rows_read_total"])
	require.Positive(t, got["tsdb_bigtable_received_bytes_total,ReadRows"])
	_, err = bigtable.Open(t.Context(), opts)
	require.ErrorContains(t, err, "metrics", "one registry holds one store")
}
