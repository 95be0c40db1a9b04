package tenants

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"halite/keyschema"
	"halite/storage"
	"halite/storage/jsoncell"
)

const (
	rowPrefix = "tenant#"
	rowsEnd   = "tenant$"
	qualifier = "json"
)

// MaxDefault is the default of Options.Max.
const MaxDefault = 1000

var (
	// ErrUnknown means that a tenant is not in the list, and that writes do not add it.
	ErrUnknown = errors.New("the tenant is unknown")
	// ErrDropping means that a tenant is being dropped.
	ErrDropping = errors.New("the tenant is being dropped")
	// ErrTooMany means that the list is full.
	ErrTooMany = errors.New("the number of tenants has reached its limit")
)

// Options configure a Registry. Store is required.
type Options struct {
	Store storage.Store
	// Max bounds the number of tenants without the default one. Default MaxDefault.
	Max int
	// Fixed refuses tenants that are not in the list yet. Default: the first write adds them.
	Fixed bool
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

// Tenant is an entry of the list.
type Tenant struct {
	Name      string `json:"name"`
	CreatedMs int64  `json:"created_ms"`
	// Dropping means that a drop of the tenant has begun, perhaps before a crash.
	Dropping bool `json:"dropping,omitempty"`
}

// Registry is the list of tenants. It is safe for concurrent use, also by several servers.
type Registry struct {
	opts Options
	meta storage.Table

	known sync.Map // name → Tenant
	mu    sync.Mutex
}

// Open reads the list.
func Open(ctx context.Context, opts Options) (*Registry, error) {
	if opts.Max < 0 {
		return nil, fmt.Errorf("tenants: option Max is %d; it must be positive, or 0 for its default", opts.Max)
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
	_, err = x.List(ctx)
	return x, err
}

// List reads the list of tenants without the default one, sorted by name.
func (x *Registry) List(ctx context.Context) (list []Tenant, err error) {
	rows := x.meta.ReadRows(ctx, storage.RowSet{Ranges: []storage.RowRange{{Start: []byte(rowPrefix), End: []byte(rowsEnd)}}},
		storage.ReadOptions{Filter: storage.Filter{Families: []string{storage.FamilyMeta}, VersionsMax: 1}})
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		row := rows.Row()
		at := cell(strings.TrimPrefix(string(row.Key), rowPrefix))
		for _, c := range row.Cells {
			if string(c.Qualifier) != qualifier {
				continue
			}
			var t Tenant
			if err := at.Decode(c.Value, &t); err != nil {
				return nil, err
			}
			if err := keyschema.CheckTenant(t.Name); err != nil || string(row.Key) != rowPrefix+t.Name {
				return nil, at.Corrupt(fmt.Errorf("it names tenant %q", t.Name))
			}
			list = append(list, t)
			x.known.Store(t.Name, t)
		}
	}
	slices.SortFunc(list, func(a, b Tenant) int { return cmp.Compare(a.Name, b.Name) })
	return list, rows.Err()
}

func cell(name string) jsoncell.Cell {
	return jsoncell.Cell{Row: rowPrefix + name, Qualifier: qualifier}
}

// Check returns ErrUnknown if the tenant is not in the list and only listed tenants are allowed. It returns ErrDropping if
// the tenant is being dropped.
func (x *Registry) Check(ctx context.Context, name string) error {
	if name == keyschema.DefaultTenant {
		return nil
	}
	if t, known := x.load(name); known || !x.opts.Fixed {
		return t.usable()
	}
	if known, err := x.has(ctx, name); known || err != nil {
		return err
	}
	return fmt.Errorf("%w: %q", ErrUnknown, name)
}

// load returns the cached entry of a tenant.
func (x *Registry) load(name string) (t Tenant, known bool) {
	value, known := x.known.Load(name)
	if known {
		t = value.(Tenant)
	}
	return t, known
}

// usable returns ErrDropping if the tenant is being dropped.
func (t *Tenant) usable() error {
	if t.Dropping {
		return fmt.Errorf("%w: %q", ErrDropping, t.Name)
	}
	return nil
}

// has reports whether a tenant is in the list. Another server may have added it.
func (x *Registry) has(ctx context.Context, name string) (bool, error) {
	if _, known := x.known.Load(name); known {
		return true, nil
	}
	var t Tenant
	known, err := cell(name).Read(ctx, x.meta, &t)
	if err != nil {
		return false, err
	}
	if known {
		x.known.Store(name, t)
	}
	return known, t.usable()
}

// Ensure adds a tenant that writes, unless the list has it. The entry is durable when Ensure returns. The error may be
// ErrUnknown, ErrDropping, ErrTooMany or keyschema.ErrBadTenant.
func (x *Registry) Ensure(ctx context.Context, name string) error {
	if name == keyschema.DefaultTenant {
		return nil
	}
	if t, known := x.load(name); known {
		return t.usable()
	}
	if err := x.Check(ctx, name); err != nil {
		return err
	}
	return x.Add(ctx, name)
}

// Add adds a tenant to the list, even if Options.Fixed is set.
func (x *Registry) Add(ctx context.Context, name string) error {
	if err := keyschema.CheckTenant(name); err != nil {
		return err
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if known, err := x.has(ctx, name); known || err != nil || name == keyschema.DefaultTenant {
		return err
	}
	list, err := x.List(ctx)
	if err != nil {
		return err
	}
	if len(list) >= x.opts.Max {
		return fmt.Errorf("%w of %d (--tenants.max)", ErrTooMany, x.opts.Max)
	}
	return x.store(ctx, Tenant{Name: name, CreatedMs: x.opts.Now().UnixMilli()})
}

// store writes an entry. It is durable when store returns. The caller holds mu.
func (x *Registry) store(ctx context.Context, t Tenant) error {
	err := cell(t.Name).Write(ctx, x.meta, t)
	if err == nil {
		err = x.opts.Store.Sync(ctx)
	}
	if err != nil {
		return fmt.Errorf("store tenant %q: %w", t.Name, err)
	}
	x.known.Store(t.Name, t)
	return nil
}

// StartDrop marks a tenant as being dropped. Check and Ensure then refuse it, until Remove. The mark is durable when
// StartDrop returns. The error is ErrUnknown if the tenant is not in the list.
func (x *Registry) StartDrop(ctx context.Context, name string) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if known, err := x.has(ctx, name); err != nil && !errors.Is(err, ErrDropping) {
		return err
	} else if !known {
		return fmt.Errorf("%w: %q", ErrUnknown, name)
	}
	t, _ := x.load(name)
	if t.Dropping {
		return nil
	}
	t.Dropping = true
	return x.store(ctx, t)
}

// Remove removes a tenant from the list. It is durable when Remove returns.
func (x *Registry) Remove(ctx context.Context, name string) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if err := x.meta.Apply(ctx, []storage.RowMutation{{
		Key: []byte(rowPrefix + name), Entries: []storage.Entry{{Kind: storage.DeleteRow}},
	}}); err != nil {
		return fmt.Errorf("remove tenant %q: %w", name, err)
	}
	if err := x.opts.Store.Sync(ctx); err != nil {
		return fmt.Errorf("remove tenant %q: %w", name, err)
	}
	x.known.Delete(name)
	return nil
}
