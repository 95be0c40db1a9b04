package memory

import (
	"math/bits"
	"slices"
	"sync"
	"sync/atomic"
)

// Table holds the series of one metric: a column for each label name, and a row for each series in order of appearance.
// Writers append rows under mu. Readers take no lock (see column). A retired row stays with ref 0 until a smaller copy
// replaces the table.
type Table struct {
	Metric string
	slot   uint32

	rows    atomic.Uint32
	columns atomic.Pointer[[]*column] // in order of appearance; only grows
	byName  atomic.Pointer[[]uint16]  // positions in columns, ordered by label name
	refs    atomic.Pointer[[]uint32]  // Ref of each row, read and written atomically

	dead atomic.Uint32 // rows with ref 0; written under mu

	mu       sync.Mutex
	replaced bool     // a copy has replaced this table; look the metric up again
	counted  int64    // sum of the results of account
	identity []uint32 // open addressing: slots as identitySlot makes them, 0 is free; nil while the table is tiny
	scratch  []uint32

	orderMu sync.Mutex // admits one computation of an order
	order   atomic.Pointer[tableOrder]
}

const (
	identityRowsMin = 8
	ColumnsMax      = 1 << 15
)

func newTable(metric string, slot uint32) *Table {
	t := &Table{Metric: metric, slot: slot}
	t.columns.Store(&[]*column{})
	t.byName.Store(&[]uint16{})
	refs := make([]uint32, 0)
	t.refs.Store(&refs)
	return t
}

// View is a reader's consistent view of a table.
type View struct {
	t       *Table
	Rows    uint32
	Columns []*column
	Data    []*ColumnData
	ByName  []uint16
	refs    []uint32
}

// Load sets v to a view of a table and reuses v's memory. It loads the length first, so all arrays that it loads
// afterwards have at least that number of rows.
func (v *View) Load(t *Table) {
	v.t, v.Rows = t, t.rows.Load()
	v.Columns = *t.columns.Load()
	v.Data = v.Data[:0]
	for _, c := range v.Columns {
		v.Data = append(v.Data, c.data.Load())
	}
	order := *t.byName.Load()
	if len(order) != len(v.Columns) { // a column was added in between
		kept := make([]uint16, 0, len(v.Columns))
		for _, pos := range order {
			if int(pos) < len(v.Columns) {
				kept = append(kept, pos)
			}
		}
		order = kept
	}
	v.ByName = order
	v.refs = *t.refs.Load()
}

// Clone returns a view that does not change when v loads another table.
func (v *View) Clone() *View {
	own := *v
	own.Data = slices.Clone(v.Data)
	return &own
}

// Metric is the name of the table's metric.
func (v *View) Metric() string { return v.t.Metric }

// Ref is the Ref of a row, 0 if the series was retired.
func (v *View) Ref(row uint32) Ref { return Ref(atomic.LoadUint32(&v.refs[row])) }

// Find returns the position of a label's column, −1 if no series has the label.
func (v *View) Find(name string) int {
	for i, c := range v.Columns {
		if c.Dict.Name == name {
			return i
		}
	}
	return -1
}

// HashValue hashes one label name and value to 64 bits. A row's hash is the sum, so the order of columns does not matter.
func HashValue(dict, id uint32) uint64 {
	hi, lo := bits.Mul64(uint64(dict)<<32|uint64(id)^0x9e3779b97f4a7c15, 0xd6e8feb86659fd93)
	h := hi ^ lo
	hi, lo = bits.Mul64(h^0xa0761d6478bd642f, 0xe7037ed1a0b428db)
	return hi ^ lo
}

func rowHash(columns []*column, ids []uint32) uint64 {
	h := uint64(0)
	for i, id := range ids {
		if id != 0 {
			h += HashValue(columns[i].Dict.ID, id)
		}
	}
	return h
}

func (t *Table) storedHash(columns []*column, row uint32) uint64 {
	h := uint64(0)
	for _, c := range columns {
		if id := c.data.Load().At(row); id != 0 {
			h += HashValue(c.Dict.ID, id)
		}
	}
	return h
}

func (t *Table) sameRow(columns []*column, row uint32, ids []uint32) bool {
	for i, c := range columns {
		if c.data.Load().At(row) != ids[i] {
			return false
		}
	}
	return true
}

// search returns the live row with these ids. The caller holds mu.
func (t *Table) search(ids []uint32, hash uint64) (row uint32, ok bool) {
	columns, refs := *t.columns.Load(), *t.refs.Load()
	live := func(row uint32) bool { return atomic.LoadUint32(&refs[row]) != 0 && t.sameRow(columns, row, ids) }
	if t.identity == nil {
		for row = range t.rows.Load() {
			if live(row) {
				return row, true
			}
		}
		return 0, false
	}
	mask, rowBits := uint64(len(t.identity)-1), t.identityRowBits()
	wanted := identitySlot(hash, 0, rowBits)
	for at := hash & mask; t.identity[at] != 0; at = (at + 1) & mask {
		slot := t.identity[at]
		if (slot^wanted)>>rowBits != 0 {
			continue // another hash, so do not read the row's scattered columns
		}
		if row = slot&(1<<rowBits-1) - 1; live(row) {
			return row, true
		}
	}
	return 0, false
}

// identityRowBits is the number of bits for a row plus one. The map is larger than the table.
func (t *Table) identityRowBits() int { return bits.Len(uint(len(t.identity) - 1)) }

// identitySlot holds rowPlusOne in the low bits and part of the hash in the other bits.
func identitySlot(hash uint64, rowPlusOne uint32, rowBits int) uint32 {
	return uint32(hash>>32)>>rowBits<<rowBits | rowPlusOne
}

// appendRow adds a series. The caller holds mu and has checked that the row is new.
func (t *Table) appendRow(ids []uint32, hash uint64, ref Ref) {
	n := t.rows.Load()
	columns := *t.columns.Load()
	for i, c := range columns {
		c.append(n, ids[i])
	}
	refs := *t.refs.Load()
	if int(n) == len(refs) {
		grown := make([]uint32, growCap(int(n)))
		for i := range refs {
			grown[i] = atomic.LoadUint32(&refs[i])
		}
		t.refs.Store(&grown)
		refs = grown
	}
	atomic.StoreUint32(&refs[n], uint32(ref))
	t.rows.Store(n + 1)
	t.identify(n, hash)
}

// identify adds a row to the identity map, which grows when it is three quarters full.
func (t *Table) identify(row uint32, hash uint64) {
	rows := int(t.rows.Load())
	if rows <= identityRowsMin {
		return
	}
	if rows*4 > len(t.identity)*3 {
		size := 2 * identityRowsMin
		for rows*4 > size*3 {
			size *= 2
		}
		t.identity = make([]uint32, size)
		columns := *t.columns.Load()
		for r := range t.rows.Load() {
			t.place(r, t.storedHash(columns, r))
		}
		return
	}
	t.place(row, hash)
}

func (t *Table) place(row uint32, hash uint64) {
	mask := uint64(len(t.identity) - 1)
	slot := hash & mask
	for t.identity[slot] != 0 {
		slot = (slot + 1) & mask
	}
	t.identity[slot] = identitySlot(hash, row+1, t.identityRowBits())
}

// columnOf returns the position of a label's column, and creates a missing column. The caller holds mu.
func (t *Table) columnOf(name string, dict func(string) *Dictionary) int {
	columns := *t.columns.Load()
	for i, c := range columns {
		if c.Dict.Name == name {
			return i
		}
	}
	t.addColumn(newColumn(dict(name)))
	return len(columns)
}

func (t *Table) addColumn(c *column) {
	columns := *t.columns.Load()
	pos := len(columns)
	grown := append(columns[:pos:pos], c)
	order := *t.byName.Load()
	at := 0
	for at < len(order) && columns[order[at]].Dict.Name < c.Dict.Name {
		at++
	}
	sorted := make([]uint16, 0, pos+1)
	sorted = append(append(append(sorted, order[:at]...), uint16(pos)), order[at:]...)
	t.columns.Store(&grown)
	t.byName.Store(&sorted)
}

// SeriesCount is the number of rows that are not retired.
func (t *Table) SeriesCount() int {
	dead := t.dead.Load() // loaded before the rows, so it is never larger than their number
	return int(t.rows.Load() - dead)
}

// account returns the growth of the table in bytes since the last call. The caller holds mu.
func (t *Table) account() (grownBytes int64) {
	size := t.SizeBytes()
	grownBytes, t.counted = size-t.counted, size
	return grownBytes
}

// SizeBytes estimates the memory of the table without the dictionaries. The caller holds mu.
func (t *Table) SizeBytes() int64 {
	size := tableBytes + int64(len(t.Metric)+4*(len(t.identity)+len(*t.refs.Load())+cap(t.scratch)))
	for _, c := range *t.columns.Load() {
		size += c.data.Load().SizeBytes() + columnBytes
	}
	if o := t.order.Load(); o != nil {
		size += int64(4 * len(o.rows))
	}
	return size
}
