package index

import "slices"

// tableOrder holds rows of a table, from the first on, in the order of their labels. Rows never change, so that an order
// stays right for ever; rows that came since are put in between.
type tableOrder struct{ rows []uint32 }

const (
	// sortRowsMin is the number of rows from which ranking whole dictionaries beats comparing strings.
	sortRowsMin = 64
	// orderShare is the part of a table from which on picking rows from the order of all beats sorting them.
	orderShare = 8
	// insertShare is the part of a table up to which new rows are put in their places one by one.
	insertShare = 16
	// rankShare bounds the dictionaries that are ranked for a sort: so many values for each row.
	rankShare = 16
)

// sortRows puts rows of a table, given in ascending order, in the order of their labels. The result is only to be read, and
// until the next call with the same scratch.
func (v *view) sortRows(rows []uint32, scratch *rankScratch) []uint32 {
	if len(rows) >= sortRowsMin && len(rows)*orderShare >= int(v.rows) {
		return v.pick(rows, v.ordered(), scratch)
	}
	return v.sorted(rows, scratch)
}

// sorted is sortRows without the help of an order. It may sort rows in place.
func (v *view) sorted(rows []uint32, scratch *rankScratch) []uint32 {
	if len(rows) < sortRowsMin || v.rankedDear(len(rows)) {
		slices.SortFunc(rows, v.compareRows)
		return rows
	}
	scratch.reset()
	columns := rankColumns{rows: len(rows), scratch: scratch}
	for _, pos := range v.byName {
		d, data := v.columns[pos].dict, v.data[pos]
		order := d.sorted()
		ranks := scratch.column(len(rows))
		for i, row := range rows {
			ranks[i] = order.ranks[data.at(row)]
		}
		columns.names, columns.ranks = append(columns.names, d.name), append(columns.ranks, ranks)
	}
	order := columns.order()
	for i, n := range order {
		order[i] = rows[n]
	}
	return order
}

// rankedDear reports whether a dictionary is too large to be ranked for so few rows.
func (v *view) rankedDear(rows int) bool {
	return slices.ContainsFunc(v.columns, func(c *column) bool { return int(c.dict.count.Load()) > rankShare*rows })
}

// pick gives the rows in the order of all.
func (v *view) pick(rows, all []uint32, scratch *rankScratch) []uint32 {
	if len(rows) == len(all) {
		return all
	}
	scratch.reset()
	wanted := scratch.flags(int(v.rows))
	for _, row := range rows {
		wanted[row] = true
	}
	out := scratch.column(len(rows))[:0]
	for _, row := range all {
		if row < v.rows && wanted[row] {
			out = append(out, row)
		}
	}
	return out
}

// ordered is the order of all rows of the view, and perhaps of more. It is kept, and must not be changed.
func (v *view) ordered() []uint32 {
	if o := v.t.order.Load(); o != nil && len(o.rows) >= int(v.rows) {
		return o.rows
	}
	v.t.orderMu.Lock()
	defer v.t.orderMu.Unlock()
	var old []uint32
	if o := v.t.order.Load(); o != nil {
		old = o.rows
	}
	if len(old) >= int(v.rows) {
		return old
	}
	added := make([]uint32, 0, int(v.rows)-len(old))
	for row := uint32(len(old)); row < v.rows; row++ {
		added = append(added, row)
	}
	o := &tableOrder{}
	if len(added)*insertShare <= len(old) {
		slices.SortFunc(added, v.compareRows)
		o.rows = v.insert(old, added)
	} else {
		o.rows = slices.Clone(v.sorted(append(added, old...), new(rankScratch)))
	}
	v.t.order.Store(o)
	return o.rows
}

// insert puts some sorted rows in their places among many.
func (v *view) insert(many, some []uint32) []uint32 {
	out := make([]uint32, 0, len(many)+len(some))
	for _, row := range some {
		n, _ := slices.BinarySearchFunc(many, row, v.compareRows)
		out = append(append(out, many[:n]...), row)
		many = many[n:]
	}
	return append(out, many...)
}
