package aliases

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"halite/keyschema"
	"halite/storage"
	"halite/storage/jsoncell"
)

const (
	rowPrefix = "alias#"
	rowsEnd   = "alias$"
	qualifier = "json"
)

// MaxDefault is the default of Options.Max.
const MaxDefault = 1000

// Options configure a Registry. Store is required.
type Options struct {
	Store storage.Store
	// Max bounds the aliases of all tenants, of table meta and of the configuration file together. Default MaxDefault.
	Max int
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

// Registry knows the aliases of all tenants. It is safe for concurrent use.
type Registry struct {
	opts Options
	meta storage.Table

	mu         sync.Mutex // serialises changes
	configured []Alias
	known      atomic.Pointer[state]
}

// state is the immutable state that readers see.
type state struct {
	list       []Alias // sorted
	configured map[string]map[key]bool
	sets       map[string]*Set
	generation uint64
}

// Open reads the aliases in table meta.
func Open(ctx context.Context, opts Options) (*Registry, error) {
	if opts.Max < 0 {
		return nil, fmt.Errorf("aliases: option Max is %d; it must be positive, or 0 for its default", opts.Max)
	}
	opts.Max = cmp.Or(opts.Max, MaxDefault)
	if opts.Now == nil {
		opts.Now = time.Now
	}
	meta, err := opts.Store.EnsureTable(ctx, storage.MetaSchema())
	if err != nil {
		return nil, err
	}
	x := &Registry{opts: opts, meta: meta}
	x.known.Store(&state{})
	return x, x.Refresh(ctx)
}

// ForTenant returns the aliases of a tenant, nil if there are none. A nil Registry has none.
func (x *Registry) ForTenant(tenant string) *Set {
	if x == nil {
		return nil
	}
	return x.known.Load().sets[tenant]
}

// Generation changes with each change of any alias.
func (x *Registry) Generation() uint64 {
	if x == nil {
		return 0
	}
	return x.known.Load().generation
}

// List returns the aliases of a tenant, sorted by the names that they rename. configured[i] is set if alias i is in the
// configuration file.
func (x *Registry) List(tenant string) (list []Alias, configured []bool) {
	known := x.known.Load()
	for _, a := range known.list {
		if a.tenant() == tenant {
			list, configured = append(list, a), append(configured, known.configured[tenant][a.key()])
		}
	}
	return list, configured
}

// Refresh reads the aliases in table meta, which other servers may have changed.
func (x *Registry) Refresh(ctx context.Context) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	stored, err := x.read(ctx)
	if err != nil {
		return err
	}
	return x.publish(stored, x.configured)
}

// Configure replaces the aliases of the configuration file. They win over those in table meta. On an error nothing changes.
func (x *Registry) Configure(ctx context.Context, list []Alias) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	stored, err := x.read(ctx)
	if err != nil {
		return err
	}
	if err := x.publish(stored, list); err != nil {
		return err
	}
	x.configured = slices.Clone(list)
	return nil
}

// Add stores an alias. It is durable when Add returns. The error may be ErrBad, ErrLoop, ErrExists or ErrTooMany.
func (x *Registry) Add(ctx context.Context, a Alias) error {
	if err := a.Check(); err != nil {
		return err
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	stored, err := x.read(ctx)
	if err != nil {
		return err
	}
	known := x.known.Load()
	for _, b := range slices.Concat(stored, known.list) {
		if a.tenant() == b.tenant() && a.key() == b.key() {
			return fmt.Errorf("%w: %s", ErrExists, b)
		}
	}
	a.CreatedMs = x.opts.Now().UnixMilli()
	next := append(slices.Clone(stored), a)
	made, err := x.compile(next, x.configured)
	if err != nil {
		return err
	}
	if err := cellOf(a).Write(ctx, x.meta, a); err != nil {
		return fmt.Errorf("add an alias: %w", err)
	}
	if err := x.opts.Store.Sync(ctx); err != nil {
		return fmt.Errorf("add an alias: %w", err)
	}
	x.known.Store(made)
	return nil
}

// Remove removes the alias of a name; found is false if table meta has none. The removal is durable when Remove returns. The
// error may be ErrConfigured.
func (x *Registry) Remove(ctx context.Context, a Alias) (found bool, err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	stored, err := x.read(ctx)
	if err != nil {
		return false, err
	}
	same := func(b Alias) bool { return a.tenant() == b.tenant() && a.key() == b.key() }
	rest := slices.DeleteFunc(slices.Clone(stored), same)
	if len(rest) == len(stored) {
		if slices.ContainsFunc(x.configured, same) {
			return false, ErrConfigured
		}
		return false, nil
	}
	if err := x.meta.Apply(ctx, []storage.RowMutation{{
		Key: []byte(cellOf(a).Row), Entries: []storage.Entry{{Kind: storage.DeleteRow}},
	}}); err != nil {
		return false, fmt.Errorf("remove an alias: %w", err)
	}
	if err := x.opts.Store.Sync(ctx); err != nil {
		return false, fmt.Errorf("remove an alias: %w", err)
	}
	return true, x.publish(rest, x.configured)
}

// DropTenant removes the aliases of a tenant other than the default one from table meta. The removal is durable when DropTenant
// returns. Aliases of the configuration file stay.
func (x *Registry) DropTenant(ctx context.Context, tenant string) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	stored, err := x.read(ctx)
	if err != nil {
		return err
	}
	prefix := rowPrefix + keyschema.TenantPrefix(tenant)
	if err := x.meta.DropRows(ctx, storage.RowRange{Start: []byte(prefix + "#"), End: []byte(prefix + "$")}); err != nil {
		return fmt.Errorf("drop the aliases of tenant %q: %w", tenant, err)
	}
	if err := x.opts.Store.Sync(ctx); err != nil {
		return fmt.Errorf("drop the aliases of tenant %q: %w", tenant, err)
	}
	rest := slices.DeleteFunc(stored, func(a Alias) bool { return a.tenant() == tenant })
	return x.publish(rest, x.configured)
}

// publish makes aliases visible. The caller holds the lock.
func (x *Registry) publish(stored, configured []Alias) error {
	made, err := x.compile(stored, configured)
	if err != nil {
		return err
	}
	x.known.Store(made)
	return nil
}

// compile checks that the aliases are consistent.
func (x *Registry) compile(stored, configured []Alias) (*state, error) {
	before := x.known.Load()
	out := &state{configured: map[string]map[key]bool{}, sets: map[string]*Set{}, generation: before.generation + 1}
	byTenant, seen := map[string][]Alias{}, map[string]map[key]bool{}
	for i, a := range slices.Concat(configured, stored) {
		tenant := a.tenant()
		if seen[tenant] == nil {
			seen[tenant], out.configured[tenant] = map[key]bool{}, map[key]bool{}
		}
		if seen[tenant][a.key()] {
			if i < len(configured) {
				return nil, fmt.Errorf("%w: %s", ErrExists, a)
			}
			continue // the configuration file wins
		}
		seen[tenant][a.key()] = true
		if i < len(configured) {
			out.configured[tenant][a.key()] = true
		}
		byTenant[tenant] = append(byTenant[tenant], a)
		out.list = append(out.list, a)
	}
	if len(out.list) > x.opts.Max {
		return nil, fmt.Errorf("%w of %d (--storage.aliases-max)", ErrTooMany, x.opts.Max)
	}
	for _, tenant := range slices.Sorted(maps.Keys(byTenant)) {
		list := byTenant[tenant]
		slices.SortFunc(list, compare)
		if err := checkLoops(list); err != nil {
			return nil, err
		}
		out.sets[tenant] = newSet(tenant, list)
	}
	slices.SortFunc(out.list, compare)
	if slices.Equal(out.list, before.list) {
		out.generation = before.generation
	}
	return out, nil
}

// read reads the aliases in table meta.
func (x *Registry) read(ctx context.Context) (list []Alias, err error) {
	rows := x.meta.ReadRows(ctx, storage.RowSet{Ranges: []storage.RowRange{{Start: []byte(rowPrefix), End: []byte(rowsEnd)}}},
		storage.ReadOptions{Filter: storage.Filter{Families: []string{storage.FamilyMeta}, VersionsMax: 1}})
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		row := rows.Row()
		at := jsoncell.Cell{Row: string(row.Key), Qualifier: qualifier}
		for _, c := range row.Cells {
			if string(c.Qualifier) != qualifier {
				continue
			}
			var a Alias
			if err := at.Decode(c.Value, &a); err != nil {
				return nil, err
			}
			if err := a.Check(); err != nil {
				return nil, at.Corrupt(err)
			}
			if cellOf(a).Row != at.Row {
				return nil, at.Corrupt(fmt.Errorf("the cell belongs to another name: %s", a))
			}
			list = append(list, a)
		}
	}
	return list, rows.Err()
}

func cellOf(a Alias) jsoncell.Cell {
	return jsoncell.Cell{Qualifier: qualifier, Row: rowPrefix + keyschema.TenantPrefix(a.tenant()) + "#" + string(a.Kind) + "#" +
		strconv.Itoa(len(a.Label)) + "#" + a.Label + "#" + a.Old}
}
