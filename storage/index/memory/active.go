package memory

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

// ErrBadLabels means that the index cannot hold a label set. The caller must reject the label set.
var ErrBadLabels = errors.New("index: bad label set")

// Limits of labels. A label name is part of row keys, where escaping may triple it.
const (
	LabelNameBytesMax  = 1024
	LabelValueBytesMax = 1 << 20
)

// Index is the set of active series: a table for each metric, a dictionary for each label name that all tables share, and
// the refs. It has no hours. Lock order: mu, table.mu, dicts, dictionary.mu, refs.mu.
type Index struct {
	mu     sync.RWMutex
	tables map[string]*Table
	order  []*Table // tables by metric; immutable, nil after a change
	free   []uint32 // slots for reuse
	parked []uint32 // slots freed by the last compaction; a slow reader may still use them

	slots atomic.Pointer[[]atomic.Pointer[Table]]

	dictMu  sync.RWMutex
	dicts   map[string]*Dictionary
	dictSeq uint32

	refs   refTable
	series atomic.Int64

	retireMu sync.Mutex // taken before mu
	retired  int64      // series retired since the dictionaries were last rebuilt
	// bytes is the memory of tables and dictionaries.
	bytes atomic.Int64
}

func New() *Index {
	c := &Index{tables: map[string]*Table{}, dicts: map[string]*Dictionary{}}
	c.slots.Store(&[]atomic.Pointer[Table]{})
	return c
}

// Dict returns the current dictionary of a label name.
func (c *Index) Dict(name string) *Dictionary {
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
		d = newDictionary(c.dictSeq, name, &c.bytes)
		c.dicts[name] = d
	}
	return d
}

// Table returns a metric's table, or nil if the metric has none.
func (c *Index) Table(metric string) *Table {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.tables[metric]
}

// Tables returns the tables by metric. The caller must not change the slice.
func (c *Index) Tables() []*Table {
	c.mu.RLock()
	order := c.order
	c.mu.RUnlock()
	if order != nil {
		return order
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.order == nil {
		c.order = slices.SortedFunc(maps.Values(c.tables), func(a, b *Table) int { return cmp.Compare(a.Metric, b.Metric) })
	}
	return c.order
}

// setTable sets the metric's table; nil removes it. The caller holds mu.
func (c *Index) setTable(metric string, t *Table) {
	c.order = nil
	if t == nil {
		delete(c.tables, metric)
		return
	}
	c.setSlot(t)
	c.tables[metric] = t
}

func (c *Index) tableFor(metric string) *Table {
	if t := c.Table(metric); t != nil {
		return t
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if t := c.tables[metric]; t != nil {
		return t
	}
	t := newTable(strings.Clone(metric), c.allocateSlot())
	c.setTable(t.Metric, t)
	return t
}

func (c *Index) allocateSlot() uint32 {
	if n := len(c.free); n > 0 {
		slot := c.free[n-1]
		c.free = c.free[:n-1]
		return slot
	}
	slots := *c.slots.Load()
	n := len(slots)
	if n == cap(slots) {
		grown := make([]atomic.Pointer[Table], n+1, growCap(n))
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

func (c *Index) setSlot(t *Table) { (*c.slots.Load())[t.slot].Store(t) }

func (c *Index) slot(slot uint32) *Table {
	slots := *c.slots.Load()
	if int(slot) >= len(slots) {
		return nil
	}
	return slots[slot].Load()
}

// Add returns the ref of a label set, and adds a new set to its table. The series is not retired while the hour
// counts as active.
func (c *Index) Add(ls labels.Labels, hour int64) (ref Ref, created bool, err error) {
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

func (c *Index) addTo(t *Table, ls labels.Labels, hour int64) (Ref, bool, error) {
	if len(*t.columns.Load())+ls.Len() > ColumnsMax {
		return 0, false, fmt.Errorf("%w: metric %s has more than %d label names", ErrBadLabels, t.Metric, ColumnsMax)
	}
	ids := t.scratch[:0]
	for range *t.columns.Load() {
		ids = append(ids, 0)
	}
	ls.Range(func(l labels.Label) {
		if l.Name == model.MetricNameLabel || l.Value == "" {
			return
		}
		pos := t.columnOf(l.Name, c.Dict)
		if pos == len(ids) {
			ids = append(ids, 0)
		}
		ids[pos] = (*t.columns.Load())[pos].Dict.Intern(l.Value)
	})
	t.scratch = ids
	return c.addRow(t, ids, hour)
}

// addRow adds a row of ids. The caller holds t.mu.
func (c *Index) addRow(t *Table, ids []uint32, hour int64) (Ref, bool, error) {
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
	c.bytes.Add(t.account())
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
		case len(l.Name) > LabelNameBytesMax:
			return fmt.Errorf("%w: metric %s has a label name of %d bytes, at most %d are allowed",
				ErrBadLabels, metric, len(l.Name), LabelNameBytesMax)
		case len(l.Value) > LabelValueBytesMax:
			return fmt.Errorf("%w: label %s of metric %s has %d bytes, at most %d are allowed",
				ErrBadLabels, l.Name, metric, len(l.Value), LabelValueBytesMax)
		}
		return nil
	})
}

// viewPool holds views for Row, which a flush calls for each series.
var viewPool = sync.Pool{New: func() any { return new(View) }}

// Row calls fn with a view of the table of ref and with the row of ref. It reports whether ref is active. If ref moves to
// another table during the call, Row calls fn again.
func (c *Index) Row(ref Ref, fn func(v *View, row uint32)) bool {
	v := viewPool.Get().(*View)
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
		v.Load(t)
		if ordinal < v.Rows {
			fn(v, ordinal)
		}
		if s, o, ok := c.refs.place(ref); ok && s == slot && o == ordinal && ordinal < v.Rows {
			return true
		}
	}
}

// Labels returns the label set of a row.
func (v *View) Labels(row uint32, b *labels.ScratchBuilder) labels.Labels {
	v.Build(row, b)
	return b.Labels()
}

// Build puts the label set of a row into b.
func (v *View) Build(row uint32, b *labels.ScratchBuilder) {
	b.Reset()
	named := false
	for _, pos := range v.ByName {
		c := v.Columns[pos]
		if !named && c.Dict.Name > model.MetricNameLabel {
			b.Add(model.MetricNameLabel, v.t.Metric)
			named = true
		}
		if id := v.Data[pos].At(row); id != 0 {
			b.Add(c.Dict.Name, c.Dict.Value(id))
		}
	}
	if !named {
		b.Add(model.MetricNameLabel, v.t.Metric)
	}
}

// Tags appends the labels other than the metric's name, by name.
func (v *View) Tags(dst []keyschema.Tag, row uint32) []keyschema.Tag {
	for _, pos := range v.ByName {
		if id := v.Data[pos].At(row); id != 0 {
			dst = append(dst, keyschema.Tag{Name: v.Columns[pos].Dict.Name, Value: v.Columns[pos].Dict.Value(id)})
		}
	}
	return dst
}

// Place returns the table and the row of an active series.
func (c *Index) Place(ref Ref) (t *Table, row uint32, ok bool) {
	slot, row, ok := c.refs.place(ref)
	if !ok {
		return nil, 0, false
	}
	return c.slot(slot), row, true
}

// Knows reports whether a series may have had the ref.
func (c *Index) Knows(ref Ref) bool { return ref != 0 && c.refs.page(ref) != nil }

// RaiseLastHour records that the series was active in the hour.
func (c *Index) RaiseLastHour(ref Ref, hour int64) { c.refs.touch(ref, hour) }

// SeriesCount is the number of active series.
func (c *Index) SeriesCount() int64 { return c.series.Load() }

// AddRows adds series of one metric. fill sets the value ids of a row, one for each label name. added gets the ref of
// each row, in order.
func (c *Index) AddRows(
	metric string, dicts []*Dictionary, rows uint32, hour int64, fill func(row uint32, ids []uint32) error, added func(Ref),
) error {
	t := c.tableFor(metric)
	t.mu.Lock()
	defer t.mu.Unlock()
	positions := make([]int, len(dicts))
	for i, d := range dicts {
		positions[i] = t.columnOf(d.Name, c.Dict)
	}
	filled, ids := make([]uint32, len(dicts)), make([]uint32, len(*t.columns.Load()))
	for row := range rows {
		if err := fill(row, filled); err != nil {
			return err
		}
		clear(ids)
		for i, id := range filled {
			if id != 0 {
				ids[positions[i]] = id
			}
		}
		ref, _, err := c.addRow(t, ids, hour)
		if err != nil {
			return err
		}
		added(ref)
	}
	return nil
}
