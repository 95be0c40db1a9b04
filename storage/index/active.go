package index

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"

	"halite/keyschema"
)

// ErrBadLabels: the label set cannot be catalogued; it must be rejected.
var ErrBadLabels = errors.New("index: bad label set")

const (
	labelNameBytesMax  = 1024
	labelValueBytesMax = 1 << 20
)

// catalogue is the set of active series: a table for each metric, a dictionary for each label name shared by all
// tables, and the refs. It knows no hours. Lock order: mu, table.mu, dicts, dictionary.mu, refs.mu.
type catalogue struct {
	mu     sync.RWMutex
	tables map[string]*table
	order  []*table // of tables by metric; nil after a change, never changed itself
	free   []uint32 // slots for reuse
	parked []uint32 // slots freed by the last compaction: a slow reader may still follow a ref into them

	slots atomic.Pointer[[]atomic.Pointer[table]]

	dictMu  sync.RWMutex
	dicts   map[string]*dictionary
	dictSeq uint32

	refs   refTable
	series atomic.Int64
	// sizeBytes is the memory of tables and dictionaries.
	sizeBytes atomic.Int64
}

func newCatalogue() *catalogue {
	c := &catalogue{tables: map[string]*table{}, dicts: map[string]*dictionary{}}
	c.slots.Store(&[]atomic.Pointer[table]{})
	return c
}

// dict returns the current dictionary of a label name.
func (c *catalogue) dict(name string) *dictionary {
	c.dictMu.RLock()
	d := c.dicts[name]
	c.dictMu.RUnlock()
	if d != nil {
		return d
	}
	c.dictMu.Lock()
	defer c.dictMu.Unlock()
	if d = c.dicts[name]; d == nil {
		c.dictSeq++
		name = strings.Clone(name)
		d = newDictionary(c.dictSeq, name, &c.sizeBytes)
		c.dicts[name] = d
	}
	return d
}

// table returns a metric's table, nil if it has none.
func (c *catalogue) table(metric string) *table {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.tables[metric]
}

// sorted returns the tables by metric. The caller must not change the slice.
func (c *catalogue) sorted() []*table {
	c.mu.RLock()
	order := c.order
	c.mu.RUnlock()
	if order != nil {
		return order
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.order == nil {
		c.order = slices.SortedFunc(maps.Values(c.tables), func(a, b *table) int { return cmp.Compare(a.metric, b.metric) })
	}
	return c.order
}

// setTable makes t the metric's table, nil for none. The caller holds mu.
func (c *catalogue) setTable(metric string, t *table) {
	c.order = nil
	if t == nil {
		delete(c.tables, metric)
		return
	}
	c.setSlot(t)
	c.tables[metric] = t
}

func (c *catalogue) tableFor(metric string) *table {
	if t := c.table(metric); t != nil {
		return t
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if t := c.tables[metric]; t != nil {
		return t
	}
	t := newTable(strings.Clone(metric), c.takeSlot())
	c.setTable(t.metric, t)
	return t
}

func (c *catalogue) takeSlot() uint32 {
	if n := len(c.free); n > 0 {
		slot := c.free[n-1]
		c.free = c.free[:n-1]
		return slot
	}
	slots := *c.slots.Load()
	n := len(slots)
	if n == cap(slots) {
		grown := make([]atomic.Pointer[table], n+1, growCap(n))
		for i := range slots {
			grown[i].Store(slots[i].Load())
		}
		c.slots.Store(&grown)
	} else {
		slots = slots[:n+1]
		c.slots.Store(&slots)
	}
	return uint32(n)
}

func (c *catalogue) setSlot(t *table) { (*c.slots.Load())[t.slot].Store(t) }

func (c *catalogue) slot(slot uint32) *table {
	slots := *c.slots.Load()
	if int(slot) >= len(slots) {
		return nil
	}
	return slots[slot].Load()
}

// add returns the ref of a label set, entering it if it is new. hour keeps the series from being retired until then.
func (c *catalogue) add(ls labels.Labels, hour int64) (ref Ref, created bool, err error) {
	metric := ls.Get(model.MetricNameLabel)
	if err := checkLabels(metric, ls); err != nil {
		return 0, false, err
	}
	for {
		t := c.tableFor(metric)
		t.mu.Lock()
		if !t.replaced {
			ref, created, err = c.addTo(t, ls, hour)
			t.mu.Unlock()
			return ref, created, err
		}
		t.mu.Unlock()
	}
}

func (c *catalogue) addTo(t *table, ls labels.Labels, hour int64) (Ref, bool, error) {
	if len(*t.columns.Load())+ls.Len() > columnsMax {
		return 0, false, fmt.Errorf("%w: metric %s has more than %d label names", ErrBadLabels, t.metric, columnsMax)
	}
	ids := t.scratch[:0]
	for range *t.columns.Load() {
		ids = append(ids, 0)
	}
	ls.Range(func(l labels.Label) {
		if l.Name == model.MetricNameLabel || l.Value == "" {
			return
		}
		pos := t.columnOf(l.Name, c.dict)
		if pos == len(ids) {
			ids = append(ids, 0)
		}
		ids[pos] = (*t.columns.Load())[pos].dict.intern(l.Value)
	})
	t.scratch = ids
	return c.addRow(t, ids, hour)
}

// addRow enters a row of ids; the caller holds t.mu.
func (c *catalogue) addRow(t *table, ids []uint32, hour int64) (Ref, bool, error) {
	hash := rowHash(*t.columns.Load(), ids)
	if row, ok := t.search(ids, hash); ok {
		ref := Ref(atomic.LoadUint32(&(*t.refs.Load())[row]))
		c.refs.touch(ref, hour)
		return ref, false, nil
	}
	ref, err := c.refs.allocate(t.slot, t.rows.Load(), hour)
	if err != nil {
		return 0, false, err
	}
	t.appendRow(ids, hash, ref)
	c.series.Add(1)
	c.sizeBytes.Add(t.account())
	return ref, true, nil
}

func checkLabels(metric string, ls labels.Labels) error {
	if metric == "" {
		return fmt.Errorf("%w: no metric name in %s", ErrBadLabels, ls)
	}
	if len(metric) > keyschema.MetricBytesMax {
		return fmt.Errorf("%w: metric name of %d bytes, at most %d are allowed",
			ErrBadLabels, len(metric), keyschema.MetricBytesMax)
	}
	return ls.Validate(func(l labels.Label) error {
		switch {
		case l.Name == "":
			return fmt.Errorf("%w: metric %s has an empty label name", ErrBadLabels, metric)
		case len(l.Name) > labelNameBytesMax:
			return fmt.Errorf("%w: metric %s has a label name of %d bytes, at most %d are allowed",
				ErrBadLabels, metric, len(l.Name), labelNameBytesMax)
		case len(l.Value) > labelValueBytesMax:
			return fmt.Errorf("%w: label %s of metric %s has %d bytes, at most %d are allowed",
				ErrBadLabels, l.Name, metric, len(l.Value), labelValueBytesMax)
		}
		return nil
	})
}

// viewPool keeps looks for row: a flush asks for each of its series.
var viewPool = sync.Pool{New: func() any { return new(view) }}

// row calls fn with the look at the table in which ref is and its row; it reports whether ref is active.
// A ref may move to another table meanwhile, so its place is checked again after fn; fn then runs once more.
func (c *catalogue) row(ref Ref, fn func(v *view, row uint32)) bool {
	v := viewPool.Get().(*view)
	defer viewPool.Put(v)
	for {
		slot, ordinal, ok := c.refs.place(ref)
		if !ok {
			return false
		}
		t := c.slot(slot)
		if t == nil {
			continue
		}
		v.look(t)
		if ordinal < v.rows {
			fn(v, ordinal)
		}
		if s, o, ok := c.refs.place(ref); ok && s == slot && o == ordinal && ordinal < v.rows {
			return true
		}
	}
}

// labels returns the label set of a row.
func (v *view) labels(row uint32, b *labels.ScratchBuilder) labels.Labels {
	v.build(row, b)
	return b.Labels()
}

// build puts the label set of a row into b.
func (v *view) build(row uint32, b *labels.ScratchBuilder) {
	b.Reset()
	named := false
	for _, pos := range v.byName {
		c := v.columns[pos]
		if !named && c.dict.name > model.MetricNameLabel {
			b.Add(model.MetricNameLabel, v.t.metric)
			named = true
		}
		if id := v.data[pos].at(row); id != 0 {
			b.Add(c.dict.name, c.dict.value(id))
		}
	}
	if !named {
		b.Add(model.MetricNameLabel, v.t.metric)
	}
}

// tags appends the labels other than the metric's name, by name.
func (v *view) tags(dst []keyschema.Tag, row uint32) []keyschema.Tag {
	for _, pos := range v.byName {
		if id := v.data[pos].at(row); id != 0 {
			dst = append(dst, keyschema.Tag{Name: v.columns[pos].dict.name, Value: v.columns[pos].dict.value(id)})
		}
	}
	return dst
}
