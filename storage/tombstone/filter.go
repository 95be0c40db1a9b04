package tombstone

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"halite/keyschema"
	"halite/keyschema/chunk"
	"halite/storage"
)

// Filter removes deleted samples from rows of the data table. Use it from one goroutine.
type Filter struct {
	set  *Set
	view *View

	prefix   []byte       // of the row keys of the current series
	matching []*Tombstone // that concern the current series
	hits     []*Tombstone // that concern the current cell

	cells   []storage.Cell
	bytes   []byte // rewritten values
	decoder chunk.Decoder
	encoder chunk.Encoder
	tsMs    []int64
	values  []float64
	kinds   recordChunks
}

// NewFilter returns a filter for the tombstones of a view. The caller keeps the view until it is done with the filter.
func (v *View) NewFilter() *Filter { return &Filter{set: v.set, view: v} }

// Row removes the deleted samples from a row that was read with values. kept is false if no cell remains. A row without
// deleted samples is unchanged. Changed cells are valid until the next call.
func (f *Filter) Row(ctx context.Context, row *storage.Row) (kept, changed bool, err error) {
	hour, ok, err := f.begin(ctx, row.Key)
	if err != nil || !ok {
		return true, false, err
	}
	for i := range row.Cells {
		c, keep, same := f.cell(hour, &row.Cells[i])
		if same && !changed {
			continue
		}
		if !changed {
			f.cells, changed = append(f.cells[:0], row.Cells[:i]...), true
		}
		if keep {
			f.cells = append(f.cells, c)
		}
	}
	if changed {
		f.set.metrics.rows.Inc()
		row.Cells = f.cells
	}
	return !changed && len(row.Cells) > 0 || slices.ContainsFunc(row.Cells, notMark), changed, nil
}

// notMark reports whether a cell holds samples. Marks hold none.
func notMark(c storage.Cell) bool {
	q, err := keyschema.ParseQualifier(c.Qualifier)
	return c.Family != storage.FamilySamples || err != nil || q.Kind != keyschema.KindMark
}

// Keys is Row for a row that was read without values. undecided means that the caller must read it with values.
func (f *Filter) Keys(ctx context.Context, row *storage.Row) (kept, undecided bool, err error) {
	hour, ok, err := f.begin(ctx, row.Key)
	if err != nil || !ok {
		return true, false, err
	}
	kept = len(row.Cells) == 0
	for i := range row.Cells {
		whole := f.covering(hour, &row.Cells[i])
		if !whole && len(f.hits) > 0 {
			return true, true, nil
		}
		kept = kept || !whole && notMark(row.Cells[i])
	}
	if kept && len(row.Cells) > 0 {
		f.cells = f.cells[:0]
		for i := range row.Cells {
			if !f.covering(hour, &row.Cells[i]) {
				f.cells = append(f.cells, row.Cells[i])
			}
		}
		row.Cells = f.cells
	}
	return kept, false, nil
}

// begin finds the tombstones that apply to a row. The row need not belong to a series.
func (f *Filter) begin(ctx context.Context, key []byte) (hour int64, mayDelete bool, err error) {
	f.bytes = f.bytes[:0]
	prefix, hour, ok := keyschema.CutHour(key)
	if !ok {
		return 0, false, nil
	}
	if !f.view.overlaps(keyschema.HourStartMs(hour), keyschema.HourStartMs(hour+1)) {
		return 0, false, nil
	}
	if len(f.prefix) == 0 || !bytes.Equal(f.prefix, prefix) {
		if err := f.series(ctx, key); err != nil {
			f.prefix = f.prefix[:0]
			return 0, false, err
		}
		f.prefix = append(f.prefix[:0], prefix...)
	}
	for _, t := range f.matching {
		if t.overlaps(hour) {
			return hour, true, nil
		}
	}
	return 0, false, nil
}

// Series returns the tombstones that apply to the series with a row key prefix. The prefix is the key up to the hour.
// They are valid until the next call.
func (f *Filter) Series(ctx context.Context, prefix []byte) ([]*Tombstone, error) {
	if len(f.prefix) == 0 || !bytes.Equal(f.prefix, prefix) {
		f.prefix = append(f.prefix[:0], prefix...)
		if err := f.series(ctx, keyschema.AppendHour(f.prefix, 0)); err != nil {
			f.prefix = f.prefix[:0]
			return nil, err
		}
	}
	return f.matching, nil
}

var errNoLabelSets = errors.New("the index cannot look up its label set yet")

// series finds the tombstones that apply to the series of a row key.
func (f *Filter) series(ctx context.Context, key []byte) error {
	f.matching = f.matching[:0]
	k, err := keyschema.ParseRowKey(key)
	if err != nil {
		return fmt.Errorf("%w: table %s: %w", storage.ErrCorrupt, storage.TableData, err)
	}
	if k.TagsHash != "" {
		if !f.view.mayDelete(k.Metric) {
			return nil
		}
		find := f.set.labelSets.Load()
		if find == nil {
			return fmt.Errorf("check whether row %s was deleted: %w", key, errNoLabelSets)
		}
		if k.Tags, err = (*find)(ctx, k.Metric, k.TagsHash); err != nil {
			return fmt.Errorf("check whether row %s was deleted: %w", key, err)
		}
	}
	f.matching = f.view.appendMatching(f.matching, k.Metric, k.Tags)
	return nil
}

// covering collects the tombstones that cover samples of a cell in f.hits, and reports whether they cover all of it.
func (f *Filter) covering(hour int64, c *storage.Cell) (whole bool) {
	f.hits = f.hits[:0]
	q, err := keyschema.ParseQualifier(c.Qualifier)
	if err != nil {
		return false
	}
	if q.Kind == keyschema.KindSample {
		ts := keyschema.HourStartMs(hour) + int64(q.OffsetMs)
		for _, t := range f.matching {
			if q.Seq < t.Seq && t.FromMs <= ts && ts <= t.ToMs {
				f.hits = append(f.hits, t)
			}
		}
		return len(f.hits) > 0
	}
	if q.Kind == keyschema.KindMark {
		return false
	}
	for _, t := range f.matching {
		if q.Seq < t.Seq && t.overlaps(hour) {
			f.hits = append(f.hits, t)
			whole = whole || t.covers(hour)
		}
	}
	return whole
}

// cell removes the deleted samples from a cell. It leaves a damaged cell to the reader.
func (f *Filter) cell(hour int64, c *storage.Cell) (out storage.Cell, keep, same bool) {
	whole := f.covering(hour, c)
	if whole {
		return out, false, false
	}
	if len(f.hits) == 0 {
		return *c, true, true
	}
	start := len(f.bytes)
	left, all, err := f.rewrite(c, keyschema.HourStartMs(hour))
	if err != nil {
		return *c, true, true
	}
	if left == 0 || left == all {
		f.bytes = f.bytes[:start]
		return *c, left > 0, left > 0
	}
	out = *c
	out.Value = f.bytes[start:len(f.bytes):len(f.bytes)]
	return out, true, false
}

// rewrite appends the chunk of a cell without its deleted samples to f.bytes. It appends nothing if all samples or no
// samples are deleted. It returns the number of remaining samples and of all samples.
func (f *Filter) rewrite(c *storage.Cell, startMs int64) (left, all int, err error) {
	switch c.Family {
	case storage.FamilyHistograms:
		f.bytes, left, all, err = f.kinds.histograms(f.bytes, c.Value, startMs, f.hits)
		return left, all, err
	case storage.FamilyExemplars:
		f.bytes, left, all, err = f.kinds.exemplars(f.bytes, c.Value, startMs, f.hits)
		return left, all, err
	}
	if f.tsMs, f.values, err = f.decoder.Decode(c.Value, startMs, f.tsMs[:0], f.values[:0]); err != nil {
		return 0, 0, err
	}
	all = len(f.tsMs)
	for i, ts := range f.tsMs {
		if !deleted(f.hits, ts) {
			f.tsMs[left], f.values[left] = ts, f.values[i]
			left++
		}
	}
	if left > 0 && left < all {
		f.bytes, err = f.encoder.Append(f.bytes, startMs, f.tsMs[:left], f.values[:left])
	}
	return left, all, err
}

func deleted(by []*Tombstone, tsMs int64) bool {
	for _, t := range by {
		if t.FromMs <= tsMs && tsMs <= t.ToMs {
			return true
		}
	}
	return false
}

// MayDelete reports whether a tombstone may still remove samples from a row, which was read with or without values.
func (f *Filter) MayDelete(ctx context.Context, row *storage.Row) (bool, error) {
	hour, ok, err := f.begin(ctx, row.Key)
	if err != nil || !ok {
		return false, err
	}
	for i := range row.Cells {
		if f.covering(hour, &row.Cells[i]); len(f.hits) > 0 {
			return true, nil
		}
	}
	return false, nil
}
