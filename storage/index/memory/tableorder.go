package memory

import (
	"slices"
	"strings"

	"github.com/prometheus/common/model"
)

// tableOrder holds the first rows of a table in the order of their labels. Rows never change, so an order stays valid. New
// rows are inserted.
type tableOrder struct{ rows []uint32 }

const (
	// SortRowsMin is the number of rows from which ranking whole dictionaries is faster than comparing strings.
	SortRowsMin = 64
	// To sort at least 1/orderShare of a table's rows, SortRows picks them from the order of all rows. For fewer rows, sorting
	// is faster.
	orderShare = 8
	// allSorted inserts new rows into the previous order if they are at most 1/insertShare of its rows. Otherwise it sorts all
	// rows.
	insertShare = 16
	// rankShare bounds the dictionaries that a sort ranks: they have at most rankShare values for each row.
	rankShare = 16
)

// SortRows sorts ascending rows of a table by their labels. The caller must not change the result, which is valid until the
// next call with the same scratch.
func (v *View) SortRows(rows []uint32, scratch *SortScratch) []uint32 {
	if len(rows) >= SortRowsMin && len(rows)*orderShare >= int(v.Rows) {
		return v.pick(rows, v.allSorted(), scratch)
	}
	return v.sorted(rows, scratch)
}

// sorted is SortRows without a tableOrder. It may sort rows in place.
func (v *View) sorted(rows []uint32, scratch *SortScratch) []uint32 {
	if len(rows) < SortRowsMin || v.rankingCostly(len(rows)) {
		slices.SortFunc(rows, v.Compare)
		return rows
	}
	scratch.reset()
	columns := RankColumns{Rows: len(rows), scratch: scratch}
	for _, pos := range v.ByName {
		d, data := v.Columns[pos].Dict, v.Data[pos]
		order := d.Sorted()
		ranks := scratch.column(len(rows))
		for i, row := range rows {
			ranks[i] = order.ranks[data.At(row)]
		}
		columns.Names, columns.Ranks = append(columns.Names, d.Name), append(columns.Ranks, ranks)
	}
	order := columns.Order()
	for i, n := range order {
		order[i] = rows[n]
	}
	return order
}

// rankingCostly reports whether ranking a dictionary costs too much for this number of rows.
func (v *View) rankingCostly(rows int) bool {
	return slices.ContainsFunc(v.Columns, func(c *column) bool { return int(c.Dict.Len()) > rankShare*rows })
}

// pick returns the rows in the order of all rows.
func (v *View) pick(rows, all []uint32, scratch *SortScratch) []uint32 {
	if len(rows) == len(all) {
		return all
	}
	scratch.reset()
	wanted := scratch.flags(int(v.Rows))
	for _, row := range rows {
		wanted[row] = true
	}
	out := scratch.column(len(rows))[:0]
	for _, row := range all {
		if row < v.Rows && wanted[row] {
			out = append(out, row)
		}
	}
	return out
}

// allSorted returns the cached order of at least all rows of the view. The caller must not change it.
func (v *View) allSorted() []uint32 {
	if o := v.t.order.Load(); o != nil && len(o.rows) >= int(v.Rows) {
		return o.rows
	}
	v.t.orderMu.Lock()
	defer v.t.orderMu.Unlock()
	var old []uint32
	if o := v.t.order.Load(); o != nil {
		old = o.rows
	}
	if len(old) >= int(v.Rows) {
		return old
	}
	added := make([]uint32, 0, int(v.Rows)-len(old))
	for row := uint32(len(old)); row < v.Rows; row++ {
		added = append(added, row)
	}
	o := &tableOrder{}
	if len(added)*insertShare <= len(old) {
		slices.SortFunc(added, v.Compare)
		o.rows = v.insert(old, added)
	} else {
		o.rows = slices.Clone(v.sorted(append(added, old...), new(SortScratch)))
	}
	v.t.order.Store(o)
	return o.rows
}

// insert merges a few sorted rows into many.
func (v *View) insert(many, some []uint32) []uint32 {
	out := make([]uint32, 0, len(many)+len(some))
	for _, row := range some {
		n, _ := slices.BinarySearchFunc(many, row, v.Compare)
		out = append(append(out, many[:n]...), row)
		many = many[n:]
	}
	return append(out, many...)
}

// Compare compares the label sets of two rows of a table, with the result of labels.Compare; see
// RankColumns.Order.
func (v *View) Compare(a, b uint32) int {
	for i, pos := range v.ByName {
		data, dict := v.Data[pos], v.Columns[pos].Dict
		x, y := data.At(a), data.At(b)
		switch {
		case x == y:
			continue
		case x != 0 && y != 0:
			return strings.Compare(dict.Value(x), dict.Value(y))
		case x != 0:
			return v.compareLacking(b, dict.Name, v.ByName[i+1:])
		default:
			return -v.compareLacking(a, dict.Name, v.ByName[i+1:])
		}
	}
	return 0
}

// compareLacking compares a row that has the label name with a row that lacks it. Both are equal up to that name. The next
// label of the other row (the metric's name or a later column) has a greater name. Without a next label, the other row is
// shorter.
func (v *View) compareLacking(lacking uint32, name string, behind []uint16) int {
	if name < model.MetricNameLabel {
		return -1
	}
	for _, pos := range behind {
		if v.Data[pos].At(lacking) != 0 {
			return -1
		}
	}
	return 1
}
