package chunk

import (
	"cmp"
	"fmt"
	"slices"

	"halite/keyschema"
)

// Row merges the cells of one row's samples family into two columns. For equal timestamps, single samples win over chunks,
// and a cell wins over cells of its kind with a lower sequence. If two cells have the same qualifier, the later Add wins.
// Row ignores marks. The cells may come in any order.
//
// Callers call Reset before the first Add. Reset keeps the memory. A Row is not for concurrent use.
type Row struct {
	hourStartMs int64
	decoder     Decoder
	chunks      []sequence
	tsMs        []int64 // of all chunks, concatenated
	values      []float64
	singles     []single
	sorted      columns
	buffers     [2]columns
}

// sequence is a decoded chunk: its samples are tsMs[from:to] of the Row.
type sequence struct {
	seq      uint32
	from, to int
}

type single struct {
	offsetMs, seq uint32
	value         float64
}

type columns struct {
	tsMs   []int64
	values []float64
}

// Reset empties the row for a new hour that starts at hourStartMs.
func (r *Row) Reset(hourStartMs int64) {
	r.hourStartMs = hourStartMs
	r.chunks, r.tsMs, r.values, r.singles = r.chunks[:0], r.tsMs[:0], r.values[:0], r.singles[:0]
}

// Add adds a cell and keeps neither slice. An error wraps [ErrCorrupt] or [keyschema.ErrBadQualifier] and leaves the
// row unchanged.
func (r *Row) Add(qualifier, value []byte) error {
	q, err := keyschema.ParseQualifier(qualifier)
	if err != nil {
		return err
	}
	switch q.Kind {
	case keyschema.KindMark:
		return nil
	case keyschema.KindSample:
		v, err := ParseSampleValue(value)
		if err != nil {
			return fmt.Errorf("sample at offset %d ms: %w", q.OffsetMs, err)
		}
		r.singles = append(r.singles, single{q.OffsetMs, q.Seq, v})
		return nil
	}
	from := len(r.tsMs)
	if r.tsMs, r.values, err = r.decoder.Decode(value, r.hourStartMs, r.tsMs, r.values); err != nil {
		return fmt.Errorf("chunk %d: %w", q.Seq, err)
	}
	r.chunks = append(r.chunks, sequence{q.Seq, from, len(r.tsMs)})
	return nil
}

// Columns returns the row's samples in ascending order of time, one for each timestamp. The slices are valid until
// the next call of any method. A row of a single chunk costs no more than its decoding.
func (r *Row) Columns() (tsMs []int64, values []float64) {
	if len(r.singles) == 0 && len(r.chunks) <= 1 {
		return r.tsMs, r.values
	}
	slices.SortStableFunc(r.chunks, func(a, b sequence) int { return cmp.Compare(a.seq, b.seq) })
	parts := make([]columns, 0, len(r.chunks)+1)
	for _, s := range r.chunks {
		parts = append(parts, columns{r.tsMs[s.from:s.to], r.values[s.from:s.to]})
	}
	if len(r.singles) > 0 {
		parts = append(parts, r.sortSingles())
	}
	// Adjacent parts are merged pair by pair. So later parts win, and the cost is n·log(parts).
	for level := 0; len(parts) > 1; level++ {
		out := &r.buffers[level&1]
		out.tsMs, out.values = slices.Grow(out.tsMs[:0], total(parts)), slices.Grow(out.values[:0], total(parts))
		merged := parts[:0]
		for i := 0; i < len(parts); i += 2 {
			later := columns{}
			if i+1 < len(parts) {
				later = parts[i+1]
			}
			merged = append(merged, out.appendMerged(parts[i], later))
		}
		parts = merged
	}
	return parts[0].tsMs, parts[0].values
}

// sortSingles returns the single samples as columns.
func (r *Row) sortSingles() columns {
	byTime := func(a, b single) int { return cmp.Or(cmp.Compare(a.offsetMs, b.offsetMs), cmp.Compare(a.seq, b.seq)) }
	if !slices.IsSortedFunc(r.singles, byTime) {
		slices.SortStableFunc(r.singles, byTime)
	}
	out := &r.sorted
	out.tsMs, out.values = out.tsMs[:0], out.values[:0]
	for i, s := range r.singles {
		if i+1 < len(r.singles) && r.singles[i+1].offsetMs == s.offsetMs {
			continue
		}
		out.tsMs = append(out.tsMs, r.hourStartMs+int64(s.offsetMs))
		out.values = append(out.values, s.value)
	}
	return *out
}

func total(parts []columns) int {
	n := 0
	for i := range parts {
		n += len(parts[i].tsMs)
	}
	return n
}

// appendMerged appends the union of two ascending columns and returns it. At equal timestamps later wins. The columns have
// the capacity for the result, so earlier results do not move.
func (c *columns) appendMerged(earlier, later columns) columns {
	from := len(c.tsMs)
	for len(earlier.tsMs) > 0 && len(later.tsMs) > 0 {
		a, b := earlier.tsMs[0], later.tsMs[0]
		if a < b {
			c.tsMs, c.values = append(c.tsMs, a), append(c.values, earlier.values[0])
			earlier.tsMs, earlier.values = earlier.tsMs[1:], earlier.values[1:]
			continue
		}
		if a == b {
			earlier.tsMs, earlier.values = earlier.tsMs[1:], earlier.values[1:]
		}
		c.tsMs, c.values = append(c.tsMs, b), append(c.values, later.values[0])
		later.tsMs, later.values = later.tsMs[1:], later.values[1:]
	}
	c.tsMs = append(append(c.tsMs, earlier.tsMs...), later.tsMs...)
	c.values = append(append(c.values, earlier.values...), later.values...)
	return columns{c.tsMs[from:], c.values[from:]}
}
