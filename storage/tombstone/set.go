package tombstone

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"halite/keyschema"
	"halite/storage"
	"halite/storage/refresh"
)

const (
	metaRow       = "tombstones#live"
	nextQualifier = "next"
	idBytes       = 8
)

// LabelSets resolves the hashes of tags in row keys.
type LabelSets func(ctx context.Context, metric, hash string) ([]keyschema.Tag, error)

// Options configure a Set. Zero fields take their documented defaults.
type Options struct {
	// Store holds the data and meta tables. Required; the Set does not close it.
	Store storage.Store
	// TombstonesMax bounds the tombstones in force; 10,000.
	TombstonesMax int
	// Shared means that other processes also change and use the tombstones: see Refresh.
	Shared bool
	// AcceptLoss ignores damaged tombstones instead of refusing to open. The samples that they deleted become visible again.
	AcceptLoss bool
	// Logger logs for operators; nil discards all lines.
	Logger *slog.Logger
	// Registerer registers the metrics; nil means no registration.
	Registerer prometheus.Registerer
}

// Validate lists all faults of the options.
func (o Options) Validate() error {
	var errs []error
	if o.Store == nil {
		errs = append(errs, errors.New("tombstone: Options.Store is required"))
	}
	if o.TombstonesMax < 0 {
		errs = append(errs, fmt.Errorf("tombstone: Options.TombstonesMax is %d; it must not be negative", o.TombstonesMax))
	}
	return errors.Join(errs...)
}

// LimitError reports that the set is full.
type LimitError struct{ Max int }

func (e *LimitError) Error() string {
	return fmt.Sprintf("%d deletions wait for their rows to be cleaned, and this is the limit (storage.tombstones-max); "+
		"clean the tombstones first", e.Max)
}

// Set is the tombstones of a store. See the package comment.
type Set struct {
	opts      Options
	meta      storage.Table
	metrics   *metrics
	labelSets atomic.Pointer[LabelSets]
	changed   atomic.Pointer[func(ctx context.Context) error]

	// gate is read-locked while samples in memory are read, and locked while a deletion takes effect.
	gate   sync.RWMutex
	latest atomic.Pointer[View]

	mu     sync.Mutex // guards the rest, and users of views
	older  map[*View]struct{}
	next   uint64              // id
	dirty  map[uint64][]byte   // unsaved changes by id; nil removes the tombstone
	saved  uint64              // the next id in the meta table
	unsure map[uint64]struct{} // ids that a power loss may lose

	saving sync.Mutex // admits one Save at a time

	refresher refresh.Refresher // re-reads the row of a shared set
}

// Open reads the tombstones of a store.
func Open(ctx context.Context, opts Options) (*Set, error) {
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	opts.TombstonesMax = cmp.Or(opts.TombstonesMax, 10_000)
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Set{opts: opts, older: map[*View]struct{}{}, dirty: map[uint64][]byte{}, unsure: map[uint64]struct{}{}}
	s.refresher.Do, s.refresher.Timeout = s.refresh, refreshTimeout
	var err error
	if s.meta, err = opts.Store.EnsureTable(ctx, storage.MetaSchema()); err != nil {
		return nil, fmt.Errorf("open table %s: %w", storage.TableMeta, err)
	}
	r, err := s.load(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the tombstones: %w", err)
	}
	s.next, s.saved = r.next, r.next
	s.latest.Store(newView(s, r))
	if s.metrics, err = newMetrics(s); err != nil {
		return nil, err
	}
	return s, nil
}

// load reads the row of tombstones.
func (s *Set) load(ctx context.Context) (r *row, err error) {
	r = &row{next: 1, announced: map[string]int64{}, locks: map[string]lockCell{}}
	it := s.meta.ReadRows(ctx, storage.RowSet{Keys: [][]byte{[]byte(metaRow)}},
		storage.ReadOptions{Filter: storage.Filter{Families: []string{storage.FamilyMeta}, VersionsMax: 1}})
	defer func() { err = errors.Join(err, it.Close()) }()
	for it.Next() {
		for _, c := range it.Row().Cells {
			isMark, err := r.readMark(&c)
			if err != nil {
				return nil, err
			}
			if isMark {
				continue
			}
			id := binary.BigEndian.Uint64(c.Qualifier)
			r.next = max(r.next, id+1)
			t, err := parseNumbered(c.Value, id)
			switch {
			case err == nil:
				r.list, r.floor = append(r.list, t), max(r.floor, t.Seq)
			case s.opts.AcceptLoss:
				s.opts.Logger.Error("ignored a damaged deletion, because its loss is accepted",
					"qualifier", fmt.Sprintf("%x", c.Qualifier), "err", err)
			default:
				return nil, fmt.Errorf("%w: table %s, row %s, qualifier %x: %w", storage.ErrCorrupt, storage.TableMeta, metaRow,
					c.Qualifier, err)
			}
		}
	}
	return r, it.Err()
}

// parseNumbered is Parse for a tombstone that is stored under an id.
func parseNumbered(src []byte, id uint64) (*Tombstone, error) {
	t, err := Parse(src)
	if err != nil {
		return nil, err
	}
	if t.ID != id {
		return nil, fmt.Errorf("%w: number %d", ErrBadTombstone, t.ID)
	}
	return t, nil
}

// SetLabelSets sets the resolver of hashed tags. Before this call, a read fails if a tombstone may apply to the metric
// of a row with hashed tags.
func (s *Set) SetLabelSets(find LabelSets) { s.labelSets.Store(&find) }

// SetChanged sets a function that is called when tombstones of a shared set have changed, before this process applies them.
func (s *Set) SetChanged(do func(ctx context.Context) error) { s.changed.Store(&do) }

// View returns the current tombstones.
func (s *Set) View() *View {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.viewLocked()
}

// viewLocked is View with mu locked.
func (s *Set) viewLocked() *View {
	v := s.latest.Load()
	v.users++
	return v
}

// Read runs read, which reads samples in memory, and returns the tombstones of the same moment. No deletion takes effect in
// between. After an error it returns no view.
func (s *Set) Read(read func() error) (*View, error) {
	s.gate.RLock()
	defer s.gate.RUnlock()
	if err := read(); err != nil {
		return nil, err
	}
	return s.View(), nil
}

// CheckCapacity returns a *LimitError if no tombstone may be added.
func (s *Set) CheckCapacity() error {
	if s.Len() >= s.opts.TombstonesMax {
		return &LimitError{Max: s.opts.TombstonesMax}
	}
	return nil
}

// NextID returns the id of the next tombstone. Callers of Add must run one at a time.
func (s *Set) NextID() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.next
}

// Find returns the current tombstone with an id, or nil.
func (s *Set) Find(id uint64) *Tombstone {
	for _, t := range s.latest.Load().list {
		if t.ID == id {
			return t
		}
	}
	return nil
}

// Add puts the tombstone in force and runs deleteSamples, which deletes samples in memory. All callers of Read see both
// changes at once. If deleteSamples fails, nothing changes. announce calls this change, and notifies caches before and after
// it. A Read returns only after that, so it never uses cached data from before the change. Add does not store the tombstone:
// see Save. Until Confirm, a power loss may lose the tombstone, so results that depend on it must not be stored.
func (s *Set) Add(t *Tombstone, announce func(change func() error) error, deleteSamples func() error) error {
	s.gate.Lock()
	defer s.gate.Unlock()
	return announce(func() error {
		if err := deleteSamples(); err != nil {
			return err
		}
		s.mu.Lock()
		s.unsure[t.ID] = struct{}{}
		s.mu.Unlock()
		s.Put(t)
		return nil
	})
}

// Put puts a tombstone in force and replaces one with the same id.
func (s *Set) Put(t *Tombstone) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next = max(s.next, t.ID+1)
	list := slices.DeleteFunc(slices.Clone(s.latest.Load().list), func(o *Tombstone) bool { return o.ID == t.ID })
	list = append(list, t)
	slices.SortFunc(list, func(a, b *Tombstone) int { return cmp.Compare(a.ID, b.ID) })
	s.dirty[t.ID] = Append(nil, t)
	s.publish(s.latest.Load().with(list))
}

// MarkIndexed records that the index has no more hours without samples because of tombstones. The record is durable after
// the next Sync of the store. The set must not be shared.
func (s *Set) MarkIndexed(ctx context.Context, ids ...uint64) error {
	for _, id := range ids {
		if t := s.Find(id); t != nil && t.Pending {
			done := *t
			done.Pending = false
			s.Put(&done)
		}
	}
	return s.Save(ctx)
}

// publish replaces the latest view. The caller holds mu.
func (s *Set) publish(now *View) {
	old := s.latest.Load()
	if old.users > 0 {
		s.older[old] = struct{}{}
	}
	s.latest.Store(now)
}

// Drop durably removes tombstones whose rows no longer need them. It returns their number. In a shared set some may have to
// stay.
func (s *Set) Drop(ctx context.Context, ids []uint64) (dropped int, err error) {
	if s.opts.Shared {
		return s.dropShared(ctx, ids)
	}
	s.mu.Lock()
	list := slices.DeleteFunc(slices.Clone(s.latest.Load().list), func(t *Tombstone) bool { return slices.Contains(ids, t.ID) })
	for _, id := range ids {
		s.dirty[id] = nil
	}
	s.publish(s.latest.Load().with(list))
	s.mu.Unlock()
	if err := s.Save(ctx); err != nil {
		return 0, err
	}
	if err := s.opts.Store.Sync(ctx); err != nil {
		return 0, fmt.Errorf("sync the tombstones: %w", err)
	}
	return len(ids), nil
}

// Save writes unsaved changes to the meta table. They are durable after the next Sync of the store. After an error the next
// Save retries.
func (s *Set) Save(ctx context.Context) error {
	s.saving.Lock()
	defer s.saving.Unlock()
	s.mu.Lock()
	m := storage.RowMutation{Key: []byte(metaRow)}
	todo, next := s.dirty, s.next
	s.dirty = map[uint64][]byte{}
	if next > s.saved {
		m.Entries = append(m.Entries, storage.Entry{Kind: storage.SetCell, Family: storage.FamilyMeta,
			Qualifier: []byte(nextQualifier), Value: binary.BigEndian.AppendUint64(nil, next)})
	}
	s.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(todo)) {
		e := storage.Entry{Kind: storage.SetCell, Family: storage.FamilyMeta, Value: todo[id],
			Qualifier: binary.BigEndian.AppendUint64(nil, id)}
		if e.Value == nil {
			e.Kind = storage.DeleteCells
		}
		m.Entries = append(m.Entries, e)
	}
	if len(m.Entries) == 0 {
		return nil
	}
	err := s.meta.Apply(ctx, []storage.RowMutation{m})
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		s.saved = next
		return nil
	}
	for id, value := range todo { // the next Save retries
		if _, newer := s.dirty[id]; !newer {
			s.dirty[id] = value
		}
	}
	return fmt.Errorf("write the tombstones to table %s: %w", storage.TableMeta, err)
}

// Len returns the number of tombstones in force.
func (s *Set) Len() int { return s.latest.Load().Len() }
