package flush

import (
	"bytes"
	"cmp"
	"iter"
	"slices"

	"halite/ingest/head"
	"halite/storage/index"
)

const (
	// partitionsMax is the largest number of partitions. The number of a partition fits into a byte, with 0 for unknown.
	partitionsMax = 255
	// samplesPerPartition is the number of keys that are sampled for each partition.
	samplesPerPartition = 64
)

// partitions divide the table's keys into ranges of about the same size. A flush writes partition after partition. So it
// follows the order of the table's keys without all keys in memory.
//
// The ranges fit the rows for which they were built. Later a series may be in a wrong partition: the keys of its new day
// differ, or it has the ref of another series. Then the files of a flush overlap, without other effects.
type partitions struct {
	head  *head.Head
	index *index.Index
	// sizeBytes is the memory of rows that one partition should have.
	sizeBytes int64

	hour       int64 // first open hour at the time of the build
	bytesTotal int64 // memory of the rows for which they were built
	// bounds are the first keys of all partitions but the first; empty if there is one partition.
	bounds [][]byte
	// byRef is the partition of a ref plus one, or 0 if it is unknown.
	byRef []uint8
	key   []byte // scratch
}

// rebuild computes the bounds, so that each partition has about sizeBytes. It reads the rows twice, batch by batch.
func (p *partitions) rebuild(batches iter.Seq[[]head.Row], rows int, bytesTotal int64) {
	p.bytesTotal, p.bounds, p.byRef = bytesTotal, nil, nil
	wanted := int(min((bytesTotal+p.sizeBytes-1)/p.sizeBytes, partitionsMax))
	if wanted < 2 {
		return
	}
	sampler := keySampler{index: p.index, step: max(1, rows/(wanted*samplesPerPartition))}
	for batch := range batches {
		sampler.add(batch)
	}
	p.bounds = sampler.bounds(wanted)
	for batch := range batches {
		for _, row := range batch {
			p.assign(row)
		}
	}
}

// rebuildFor is rebuild for the rows that pick takes. It reports whether there are any.
func (p *partitions) rebuildFor(pick rule) (any bool) {
	rows, bytesTotal := countRows(p.head, pick)
	if rows > 0 {
		p.rebuild(byStripe(p.head, pick), rows, bytesTotal)
	}
	return rows > 0
}

// byStripe returns the rows that pick takes, one batch per stripe, so not all rows of an hour are in memory. A batch is
// valid until the next one.
func byStripe(h *head.Head, pick rule) iter.Seq[[]head.Row] {
	return func(yield func([]head.Row) bool) {
		var rows []head.Row
		for stripe := range h.Stripes() {
			if rows = h.SelectRows(rows[:0], stripe, pick); !yield(rows) {
				return
			}
		}
	}
}

// countRows returns the number and the memory of the rows that pick takes.
func countRows(h *head.Head, pick rule) (rows int, bytes int64) {
	for stripe := range h.Stripes() {
		h.SelectRows(nil, stripe, func(row head.RowInfo) bool {
			if pick(row) {
				rows++
				bytes += row.Bytes
			}
			return false
		})
	}
	return rows, bytes
}

// keySampler collects the key of every step-th row, to find the bounds of partitions.
type keySampler struct {
	index      *index.Index
	step, next int
	keys       [][]byte
}

func (k *keySampler) add(rows []head.Row) {
	for ; k.next < len(rows); k.next += k.step {
		row := rows[k.next]
		k.keys = append(k.keys, k.index.AppendRowKey(nil, index.Ref(row.Ref), row.Hour()))
	}
	k.next -= len(rows)
}

// bounds returns the first keys of all partitions but the first.
func (k *keySampler) bounds(partitions int) (bounds [][]byte) {
	slices.SortFunc(k.keys, bytes.Compare)
	for n := 1; n < partitions && len(k.keys) > 0; n++ {
		bounds = append(bounds, k.keys[n*len(k.keys)/partitions])
	}
	return bounds
}

// count returns the number of partitions.
func (p *partitions) count() int { return len(p.bounds) + 1 }

// lookup returns the partition of a series, from 0. It returns the first one if the series is unknown.
func (p *partitions) lookup(ref uint32) int {
	if int(ref) < len(p.byRef) {
		return max(0, int(p.byRef[ref])-1)
	}
	return 0
}

// assign finds the partition of a row's series unless it is known.
func (p *partitions) assign(row head.Row) {
	if int(row.Ref) >= len(p.byRef) {
		p.byRef = append(p.byRef, make([]uint8, int(row.Ref)+1-len(p.byRef))...)
	}
	if p.byRef[row.Ref] != 0 {
		return
	}
	p.key = p.index.AppendRowKey(p.key[:0], index.Ref(row.Ref), row.Hour())
	at, found := slices.BinarySearchFunc(p.bounds, p.key, bytes.Compare)
	if found {
		at++
	}
	p.byRef[row.Ref] = uint8(at + 1)
}

// sort orders rows, which use bytesTotal of memory, by partition and then by stripe. It rebuilds the partitions if they were
// built for far fewer rows.
func (p *partitions) sort(rows []head.Row, bytesTotal int64) {
	if bytesTotal > 2*max(p.bytesTotal, p.sizeBytes/2) {
		p.rebuild(slices.Values([][]head.Row{rows}), len(rows), bytesTotal)
	}
	if len(p.bounds) == 0 {
		return
	}
	for _, row := range rows {
		p.assign(row)
	}
	slices.SortFunc(rows, func(a, b head.Row) int {
		return cmp.Or(cmp.Compare(p.byRef[a.Ref], p.byRef[b.Ref]), cmp.Compare(p.head.Stripe(a.Ref), p.head.Stripe(b.Ref)))
	})
}

// first returns the number of sorted rows to flush together. These are the rows of the first partition, and of the next
// partitions up to rowsMax rows. The partitions may have been built for far more rows.
func (p *partitions) first(rows []head.Row, rowsMax int) int {
	n := p.firstPartition(rows)
	for n < len(rows) {
		more := p.firstPartition(rows[n:])
		if n+more > rowsMax {
			break
		}
		n += more
	}
	return n
}

func (p *partitions) firstPartition(rows []head.Row) int {
	n := 1
	for n < len(rows) && p.lookup(rows[n].Ref) == p.lookup(rows[0].Ref) {
		n++
	}
	return n
}
