package memory

import (
	"slices"
	"strings"

	"github.com/prometheus/common/model"
)

// tableOrder holds rows of a table, from the first on, in the order of their labels. Rows never change, so that an order
// stays right for ever; rows that came since are put in between.
type tableOrder struct{ rows []uint32 }

const (
	// SortRowsMin is the number of rows from which ranking whole dictionaries beats comparing strings.
	SortRowsMin = 64
	// orderShare is the part of a table from which on picking rows from the order of all beats sorting them.
	orderShare = 8
	// insertShare is the share of new rows up to which a sort inserts them one by one.
	insertShare = 16
	// rankShare is the greatest number of values per row for which a sort ranks a dictionary.
	rankShare = 16
)

// SortRows puts rows of a table, given in ascending order, in the order of their labels. The result is only to be read, and
// until the next call with the same scratch.
func (v *View) SortRows(rows []uint32, scratch *SortScratch) []uint32 {
	if len(rows) >= SortRowsMin && len(rows)*orderShare >= int(v.Rows) {
		return v.pick(rows, v.allSorted(), scratch)
	}
	return v.sorted(rows, scratch)
}

// sorted is sortRows without the help of an order. It may sort rows in place.
func (v *View) sorted(rows []uint32, scratch *SortScratch) []uint32 {
	if len(rows) < SortRowsMin || v.rankedDear(len(rows)) {
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

// rankedDear reports whether a dictionary is too large to be ranked for so few rows.
func (v *View) rankedDear(rows int) bool {
	return slices.ContainsFunc(v.Columns, func(c *column) bool { return int(c.Dict.Len()) > rankShare*rows })
}

// pick gives the rows in the order of all.
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

// allSorted is the order of all rows of the view, and perhaps of more. It is kept, and must not be changed.
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

// insert puts some sorted rows in their places among many.
func (v *View) insert(many, some []uint32) []uint32 {
	out := make([]uint32, 0, len(many)+len(some))
	for _, row := range some {
		n, _ := slices.BinarySearchFunc(many, row, v.Compare)
		out = append(append(out, many[:n]...), row)
		many = many[n:]
	}
	return append(out, many...)
}

// Compare compares two rows of a table as labels.Compare compares their label sets; see rankColumns.order.
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

// compareLacking compares a row that has the label name with one that lacks it, both being equal before it: the label that the
// other has instead, the metric's name or one of the columns behind, has a greater name; if there is none, the other is
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
