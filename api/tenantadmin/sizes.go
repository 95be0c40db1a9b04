package tenantadmin

import (
	"context"
	"errors"
	"maps"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"halite/keyschema"
	"halite/storage"
	"halite/storage/tenants"
)

// sizes holds the last measured space of each tenant in the tables of samples and rollups.
type sizes struct {
	store storage.Store
	desc  *prometheus.Desc

	mu       sync.Mutex
	byTenant map[string]map[string]int64 // bytes by table
}

func (s *sizes) init(store storage.Store) {
	s.store, s.byTenant = store, map[string]map[string]int64{}
	s.desc = prometheus.NewDesc("tsdb_tenant_bytes",
		"Space of a tenant in a table, measured within the last hour.", []string{"tenant", "table"}, nil)
}

// measure measures all tenants. The space that no other tenant has belongs to the default one.
func (s *sizes) measure(ctx context.Context, list []tenants.Tenant) error {
	rest, err := s.bytes(ctx, storage.RowRange{})
	if err != nil {
		return err
	}
	all := map[string]map[string]int64{keyschema.DefaultTenant: rest}
	for _, t := range list {
		if all[t.Name], err = s.bytes(ctx, rowsOf(t.Name)); err != nil {
			return err
		}
		for table, n := range all[t.Name] {
			rest[table] = max(0, rest[table]-n)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.byTenant = all
	return nil
}

// measureOne measures a tenant other than the default one.
func (s *sizes) measureOne(ctx context.Context, name string) (map[string]int64, error) {
	bytes, err := s.bytes(ctx, rowsOf(name))
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.byTenant[name] = bytes
	return bytes, nil
}

func rowsOf(name string) storage.RowRange {
	start, end := keyschema.TenantRows(name)
	return storage.RowRange{Start: start, End: end}
}

// bytes measures rows in each table. The map is empty on an engine without such figures.
func (s *sizes) bytes(ctx context.Context, rows storage.RowRange) (map[string]int64, error) {
	out := map[string]int64{}
	for _, name := range []string{storage.TableData, storage.TableRollup} {
		table, err := s.store.Table(ctx, name)
		if errors.Is(err, storage.ErrNoTable) {
			continue
		}
		if err != nil {
			return nil, err
		}
		spans, ok := table.(storage.SpanTable)
		if !ok {
			return nil, nil
		}
		for _, family := range table.Schema().Families {
			n, err := spans.SpanBytes(ctx, storage.CellSpan{
				Family: family.Name, Rows: []storage.RowRange{rows}, ToDay: storage.TsMsMax/storage.DayMs + 1,
			})
			if errors.Is(err, errors.ErrUnsupported) {
				return nil, nil
			}
			if err != nil {
				return nil, err
			}
			out[name] += n
		}
	}
	return out, nil
}

// last returns the last sizes of a tenant; nil if there are none.
func (s *sizes) last(name string) map[string]int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.byTenant[name])
}

func (s *sizes) remove(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.byTenant, name)
}

// Describe implements prometheus.Collector.
func (s *sizes) Describe(out chan<- *prometheus.Desc) { out <- s.desc }

// Collect implements prometheus.Collector.
func (s *sizes) Collect(out chan<- prometheus.Metric) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for tenant, tables := range s.byTenant {
		for table, n := range tables {
			out <- prometheus.MustNewConstMetric(s.desc, prometheus.GaugeValue, float64(n), tenant, table)
		}
	}
}
