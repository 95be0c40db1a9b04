package ingest

import (
	"bytes"
	"cmp"
	"iter"
	"slices"

	"halite/ingest/head"
	"halite/storage/index"
)

const (
	// orderSlicesMax is the largest number of slices: a slice must fit into a byte with 0 left for unknown.
	orderSlicesMax = 255
	// orderSamplesPerSlice is the number of keys looked at for each slice.
	orderSamplesPerSlice = 64
)

// order divides the series into slices of about one size, by row key: slice after slice is a walk through the table in
// the order of its keys, without all keys in memory. It is as good as it was when it was made: a series of a later day
// or with the ref of another may be in a wrong slice, which only makes the files of a flush overlap. Guarded by
// Ingester.flushMu.
type order struct {
	hour  int64 // for whose close it was made
	bytes int64 // of the rows that it was made from
	// bounds are the first keys of all slices but the first; empty if there is one slice.
	bounds [][]byte
	// of is the slice of a ref plus one; 0 if it is not known.
	of  []uint8
	key []byte
}

// make divides anew, into so many slices that the rows, which use so many bytes, come in parts of HeadOptions.FlushBytes. It
// goes over the rows twice, some at a time.
func (o *order) make(i *Ingester, batches iter.Seq[[]head.Row], rows int, bytesTotal int64) {
	o.bytes, o.bounds, o.of = bytesTotal, nil, nil
	wanted := int(min((bytesTotal+i.hopts.FlushBytes-1)/i.hopts.FlushBytes, orderSlicesMax))
	if wanted < 2 {
		return
	}
	sampler := keySampler{step: max(1, rows/(wanted*orderSamplesPerSlice))}
	for batch := range batches {
		sampler.look(i, batch)
	}
	o.bounds = sampler.bounds(wanted)
	for batch := range batches {
		for _, row := range batch {
			o.place(i, row)
		}
	}
}

// makeOf is make for the rows that pick chooses; it reports whether there are any.
func (o *order) makeOf(i *Ingester, pick func(row head.RowInfo) bool) (any bool) {
	rows, bytesTotal := i.countRows(pick)
	if rows > 0 {
		o.make(i, i.byStripe(pick), rows, bytesTotal)
	}
	return rows > 0
}

// byStripe goes over the rows that pick chooses, and keeps those of one stripe only: all rows of a closed hour may be among
// them. A batch is void with the next.
func (i *Ingester) byStripe(pick func(row head.RowInfo) bool) iter.Seq[[]head.Row] {
	return func(yield func([]head.Row) bool) {
		var rows []head.Row
		for stripe := range i.head.Stripes() {
			if rows = i.head.Choose(rows[:0], stripe, pick); !yield(rows) {
				return
			}
		}
	}
}

// keySampler collects the keys of some rows, one of step, from which the bounds of slices are found.
type keySampler struct {
	step, next int
	keys       [][]byte
}

func (k *keySampler) look(i *Ingester, rows []head.Row) {
	for ; k.next < len(rows); k.next += k.step {
		row := rows[k.next]
		k.keys = append(k.keys, i.opts.Index.AppendRowKey(nil, index.Ref(row.Ref), row.Hour()))
	}
	k.next -= len(rows)
}

// bounds are the first keys of all slices but the first.
func (k *keySampler) bounds(slicesWanted int) (bounds [][]byte) {
	slices.SortFunc(k.keys, bytes.Compare)
	for n := 1; n < slicesWanted && len(k.keys) > 0; n++ {
		bounds = append(bounds, k.keys[n*len(k.keys)/slicesWanted])
	}
	return bounds
}

// slices is the number of slices.
func (o *order) slices() int { return len(o.bounds) + 1 }

// slice returns the slice of a series; one that is not known is in the first.
func (o *order) slice(ref uint32) int {
	if int(ref) < len(o.of) {
		return max(0, int(o.of[ref])-1)
	}
	return 0
}

// place finds the slice of a row's series, unless it is known.
func (o *order) place(i *Ingester, row head.Row) {
	if int(row.Ref) >= len(o.of) {
		o.of = append(o.of, make([]uint8, int(row.Ref)+1-len(o.of))...)
	}
	if o.of[row.Ref] != 0 {
		return
	}
	o.key = i.opts.Index.AppendRowKey(o.key[:0], index.Ref(row.Ref), row.Hour())
	at, found := slices.BinarySearchFunc(o.bounds, o.key, bytes.Compare)
	if found {
		at++
	}
	o.of[row.Ref] = uint8(at + 1)
}

// sort brings rows, which use so many bytes, into the order of slices and within each of stripes.
func (o *order) sort(i *Ingester, rows []head.Row, bytesTotal int64) {
	if bytesTotal > 2*max(o.bytes, i.hopts.FlushBytes/2) {
		o.make(i, slices.Values([][]head.Row{rows}), len(rows), bytesTotal)
	}
	if len(o.bounds) == 0 {
		return
	}
	for _, row := range rows {
		o.place(i, row)
	}
	slices.SortFunc(rows, func(a, b head.Row) int {
		return cmp.Or(cmp.Compare(o.of[a.Ref], o.of[b.Ref]), cmp.Compare(i.head.Stripe(a.Ref), i.head.Stripe(b.Ref)))
	})
}

// firstSlices returns how many of the sorted rows are of the first one's slice, and of those behind it as long as they
// are not more than most in all: order may have been made for far more rows.
func (o *order) firstSlices(rows []head.Row, most int) int {
	n := o.firstSlice(rows)
	for n < len(rows) {
		more := o.firstSlice(rows[n:])
		if n+more > most {
			break
		}
		n += more
	}
	return n
}

func (o *order) firstSlice(rows []head.Row) int {
	n := 1
	for n < len(rows) && o.slice(rows[n].Ref) == o.slice(rows[0].Ref) {
		n++
	}
	return n
}
