package bigtable

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	gcp "cloud.google.com/go/bigtable"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"halite/storage"
)

const (
	// messageBytesMax is the largest message in either direction, which is the service's limit.
	messageBytesMax = 1 << 28
	// openTimeoutMax bounds the first call, so that a wrong name or address fails early.
	openTimeoutMax = 15 * time.Second
	emulatorEnv    = "BIGTABLE_EMULATOR_HOST"
	userAgent      = "halite"
)

// Store is a Bigtable instance. It implements storage.Store.
type Store struct {
	opts    Options
	metrics *metrics
	conn    *grpc.ClientConn // connection to an emulator; nil for the service
	client  *gcp.Client
	admin   *gcp.AdminClient
	hot     *hotTablets // nil without a cluster, and for an emulator
	closed  atomic.Bool

	mu     sync.Mutex // held while tables are created or checked
	tables map[string]*table
}

var _ storage.Store = (*Store)(nil)

// Open connects to the instance. It checks that the credentials reach it.
func Open(ctx context.Context, opts Options) (*Store, error) {
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	opts = opts.withDefaults()
	m, err := newMetrics(opts.Registerer)
	if err != nil {
		return nil, fmt.Errorf("bigtable metrics: %w", err)
	}
	s := &Store{opts: opts, metrics: m, tables: map[string]*table{}}
	if err := s.connect(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	first, cancel := context.WithTimeout(ctx, min(openTimeoutMax, opts.AdminTimeout))
	defer cancel()
	if _, err := s.admin.Tables(first); err != nil {
		err = mapError(ctx, fmt.Sprintf("list the tables of %s", s.instanceName()), err)
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// connect creates the two clients. It sends no request.
func (s *Store) connect(ctx context.Context) error {
	host := s.opts.EmulatorHost
	if host == "" {
		host = os.Getenv(emulatorEnv)
	}
	common := []option.ClientOption{option.WithGRPCDialOption(grpc.WithStatsHandler(s.metrics))}
	if host != "" {
		conn, err := grpc.NewClient("passthrough:///"+host, grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithStatsHandler(s.metrics), grpc.WithUserAgent(userAgent),
			grpc.WithDefaultCallOptions(grpc.MaxCallSendMsgSize(messageBytesMax), grpc.MaxCallRecvMsgSize(messageBytesMax)))
		if err != nil {
			return fmt.Errorf("emulator %s: %w", host, err)
		}
		s.conn = conn
		common = []option.ClientOption{option.WithGRPCConn(conn)}
	}
	common = append(common, s.opts.ClientOptions...)
	if err := s.makeClients(ctx, common); err != nil {
		return fmt.Errorf("bigtable: connect to %s: %w (credentials come from GOOGLE_APPLICATION_CREDENTIALS, from "+
			"`gcloud auth application-default login`, or from the machine's service account; %s names an emulator instead)",
			s.instanceName(), err, emulatorEnv)
	}
	return nil
}

// makeClients creates the clients of the service. They send nothing.
func (s *Store) makeClients(ctx context.Context, common []option.ClientOption) (err error) {
	s.client, err = gcp.NewClientWithConfig(ctx, s.opts.Project, s.opts.Instance, gcp.ClientConfig{
		AppProfile: s.opts.AppProfile, MetricsProvider: gcp.NoopMetricsProvider{}, DisableSession: true,
	}, common...)
	if err != nil {
		return err
	}
	if s.admin, err = gcp.NewAdminClient(ctx, s.opts.Project, s.opts.Instance, common...); err != nil {
		return err
	}
	if s.opts.Cluster == "" {
		return nil
	}
	return s.connectHotTablets(ctx, common)
}

func (s *Store) instanceName() string {
	return fmt.Sprintf("projects/%s/instances/%s", s.opts.Project, s.opts.Instance)
}

func (s *Store) tableID(name string) string { return s.opts.TablePrefix + name }

// EnsureTable implements storage.Store.
func (s *Store) EnsureTable(ctx context.Context, schema storage.TableSchema) (storage.Table, error) {
	if err := schema.Validate(); err != nil {
		return nil, err
	}
	schema.Families = slices.Clone(schema.Families)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed.Load() {
		return nil, errClosed
	}
	have, err := s.lookUp(ctx, schema.Name)
	if errors.Is(err, storage.ErrNoTable) {
		if err = s.create(ctx, &schema); err == nil {
			return s.handle(schema), nil
		}
		if errors.Is(err, errExists) {
			have, err = s.lookUp(ctx, schema.Name) // another server has created it
		}
	}
	if err != nil {
		return nil, err
	}
	if err := checkSchema(&have, &schema); err != nil {
		return nil, fmt.Errorf("%w; this command creates an empty table with the expected schema: %s", err,
			s.createCommand(&schema))
	}
	if err := s.replacePolicies(ctx, &have, &schema); err != nil {
		return nil, err
	}
	return s.handle(schema), nil
}

// errExists means that another server created the table first.
var errExists = errors.New("another server has already created the table")

// lookUp requests the schema of a table from the service.
func (s *Store) lookUp(ctx context.Context, name string) (storage.TableSchema, error) {
	call, cancel := context.WithTimeout(ctx, s.opts.AdminTimeout)
	defer cancel()
	info, err := s.admin.TableInfo(call, s.tableID(name))
	if err != nil {
		return storage.TableSchema{}, mapError(ctx, "describe table "+s.tableID(name), err)
	}
	return decodeSchema(name, info)
}

func (s *Store) create(ctx context.Context, schema *storage.TableSchema) error {
	command := s.createCommand(schema)
	if s.opts.CheckTablesOnly {
		return fmt.Errorf("%w: %s in %s; create it with: %s", storage.ErrNoTable, s.tableID(schema.Name), s.instanceName(), command)
	}
	call, cancel := context.WithTimeout(ctx, s.opts.AdminTimeout)
	defer cancel()
	names, err := s.admin.Tables(call)
	if err != nil {
		return mapError(ctx, "list tables", err)
	}
	if len(names) >= storage.TablesMax {
		return fmt.Errorf("%w: instance %s has %d tables, at most %d allowed", storage.ErrBadMutation, s.opts.Instance, len(names),
			storage.TablesMax)
	}
	err = s.admin.CreateTableFromConf(call, tableConf(s.tableID(schema.Name), schema))
	switch {
	case status.Code(err) == codes.AlreadyExists:
		return errExists
	case err != nil:
		return fmt.Errorf("%w; or ask an administrator to run: %s", mapError(ctx, "create table "+s.tableID(schema.Name), err),
			command)
	}
	s.opts.Logger.Info("created table", "table", s.tableID(schema.Name), "instance", s.instanceName())
	return nil
}

// replacePolicies sets the GC policies in want.
func (s *Store) replacePolicies(ctx context.Context, have, want *storage.TableSchema) error {
	for _, f := range want.Families {
		old, _ := have.Family(f.Name)
		policy := encodePolicy(f.GC)
		if policy.String() == encodePolicy(old.GC).String() {
			continue
		}
		command := s.policyCommand(want.Name, f)
		if s.opts.CheckTablesOnly {
			return fmt.Errorf("%w: family %s of table %s has GC policy %q; change it with: %s", storage.ErrSchemaMismatch, f.Name,
				s.tableID(want.Name), policyText(old.GC), command)
		}
		call, cancel := context.WithTimeout(ctx, s.opts.AdminTimeout)
		err := s.admin.UpdateFamily(call, s.tableID(want.Name), f.Name, gcp.Family{GCPolicy: policy}, gcp.IgnoreWarnings())
		cancel()
		if err != nil {
			return fmt.Errorf("%w; or an administrator can run: %s",
				mapError(ctx, "change the GC policy of "+s.tableID(want.Name), err), command)
		}
		s.opts.Logger.Info("changed GC policy", "table", s.tableID(want.Name), "family", f.Name, "policy", policy.String())
	}
	return nil
}

// handle returns the shared handle of a table and sets its schema. The caller holds mu.
func (s *Store) handle(schema storage.TableSchema) *table {
	t, ok := s.tables[schema.Name]
	if !ok {
		t = newTable(s, schema.Name)
		s.tables[schema.Name] = t
	}
	t.schema.Store(&schema)
	return t
}

// Table implements storage.Store.
func (s *Store) Table(ctx context.Context, name string) (storage.Table, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed.Load() {
		return nil, errClosed
	}
	if t, ok := s.tables[name]; ok {
		return t, nil
	}
	schema, err := s.lookUp(ctx, name)
	if err != nil {
		return nil, err
	}
	return s.handle(schema), nil
}

// Tables implements storage.Store. It omits tables of other programs in the instance.
func (s *Store) Tables(ctx context.Context) ([]storage.TableSchema, error) {
	if s.closed.Load() {
		return nil, errClosed
	}
	call, cancel := context.WithTimeout(ctx, s.opts.AdminTimeout)
	defer cancel()
	ids, err := s.admin.Tables(call)
	if err != nil {
		return nil, mapError(ctx, "list tables", err)
	}
	slices.Sort(ids)
	var out []storage.TableSchema
	for _, id := range ids {
		name, ours := strings.CutPrefix(id, s.opts.TablePrefix)
		if !ours {
			continue
		}
		info, err := s.admin.TableInfo(call, id)
		if err != nil {
			return nil, mapError(ctx, "describe table "+id, err)
		}
		if !slices.ContainsFunc(info.Families, func(f string) bool { return strings.HasPrefix(f, markPrefix) }) ||
			strings.ContainsAny(name, "-.") {
			continue
		}
		schema, err := decodeSchema(name, info)
		if err != nil {
			return nil, err
		}
		out = append(out, schema)
	}
	return out, nil
}

// Sync implements storage.Store. It does nothing: acknowledged writes are durable.
func (s *Store) Sync(context.Context) error {
	if s.closed.Load() {
		return errClosed
	}
	return nil
}

// CollectGarbage implements storage.Store. It does nothing, because the service frees garbage on its own.
func (s *Store) CollectGarbage(context.Context) error {
	if s.closed.Load() {
		return errClosed
	}
	return nil
}

// Close implements storage.Store.
func (s *Store) Close() error {
	if s.closed.Swap(true) {
		return nil
	}
	var errs []error
	if s.client != nil {
		errs = append(errs, s.client.Close())
	}
	if s.hot != nil {
		errs = append(errs, s.hot.client.Close())
	}
	// Both clients share an emulator's connection, so the second one finds it closed.
	if s.admin != nil && s.conn == nil {
		errs = append(errs, s.admin.Close())
	}
	if s.conn != nil {
		if err := s.conn.Close(); status.Code(err) != codes.Canceled {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
