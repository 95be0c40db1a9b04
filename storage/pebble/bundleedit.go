package pebble

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"halite/storage"
)

// unbundle takes the matching cells of the range's rows, which have one prefix, out of the prefix's bundle. The caller
// has the row's lock, and with it the whole series'.
func (w *rowWriter) unbundle(it *pebble.Iterator, h header, r placeRange, match func(*cellKey) bool) error {
	prefix := r.start.prefix()
	w.scratch = appendBundleKey(w.scratch[:0], h, prefix)
	it.SetBounds(w.scratch, nil)
	if !it.First() || !bytes.Equal(it.Key(), w.scratch) {
		return it.Error()
	}
	value, err := it.ValueAndErr()
	if err != nil {
		return err
	}
	b := openBundle{codec: w.t.store.opts.Bundle}
	if err := b.open(value); err != nil {
		return err
	}
	c := cellKey{header: h, row: prefix[:len(prefix)-1]}
	newest, first, end := newestHour(h.day()), hourOf(r.start.place[len(prefix):]), hourOf(r.end.place[len(prefix):])
	left, changed, err := b.without(func(hour uint8, qualifier []byte) bool {
		c.hour = newest + uint32(hour)
		c.qualifier, c.tsMs = qualifier, hourEndMs(c.hour)
		return c.hour >= first && c.hour < end && (match == nil || match(&c))
	})
	if err != nil || !changed {
		return err
	}
	return putBundle(w.batch, w.scratch, left)
}

// putBundle writes what is left of a bundle.
func putBundle(b *pebble.Batch, key, left []byte) error {
	if len(left) == 0 {
		return b.Delete(key, nil)
	}
	return b.Set(key, left, nil)
}

// removeCell deletes one cell of a day that may have bundles.
func (w *rowWriter) removeCell(f *family, key []byte, cell *storage.Cell) error {
	return w.remove(key, f.name, func(c *cellKey) bool {
		return c.tsMs == cell.TsMs && bytes.Equal(c.qualifier, cell.Qualifier)
	}, cell.TsMs, cell.TsMs+1)
}

// dropBundled completes the deletion of a range of rows, which is in the batch already, where the range begins or ends
// between the hours of a series: cells outside it stay in the bundle, those inside leave it. The caller has all locks.
func (t *Table) dropBundled(b *pebble.Batch, h header, r placeRange) error {
	var before []byte
	for _, bound := range []rowBound{r.start, r.end} {
		if !bound.hour || bytes.Equal(bound.prefix(), before) {
			continue
		}
		before = bound.prefix()
		key := appendBundleKey(nil, h, before)
		value, closer, err := t.store.db.Get(key)
		if errors.Is(err, pebble.ErrNotFound) {
			continue
		}
		if err != nil {
			return err
		}
		left, err := t.bundleOutside(value, h, before, r)
		if err = errors.Join(err, closer.Close()); err != nil {
			return err
		}
		if err := putBundle(b, key, left); err != nil {
			return err
		}
	}
	return nil
}

// bundleOutside returns the bundle of a prefix without the cells inside a range.
func (t *Table) bundleOutside(value []byte, h header, prefix []byte, r placeRange) ([]byte, error) {
	o := openBundle{codec: t.store.opts.Bundle}
	if err := o.open(value); err != nil {
		return nil, err
	}
	place := append(append([]byte(nil), prefix...), 0, 0, 0)
	newest := newestHour(h.day())
	left, changed, err := o.without(func(hour uint8, _ []byte) bool {
		v := newest + uint32(hour)
		at := place[len(prefix):]
		at[0], at[1], at[2] = byte(v>>16), byte(v>>8), byte(v)
		return !r.beforeStart(place) && !r.pastEnd(place)
	})
	if err != nil || changed {
		return left, err
	}
	return bytes.Clone(value), nil
}

// checkCodec fails if a table has bundles that this store cannot take apart.
func (s *Store) checkCodec(rec *tableRecord) error {
	switch {
	case rec.Bundle == "":
		return nil
	case s.opts.Bundle == nil:
		return fmt.Errorf("%w: table %s has day bundles of codec %q, and none was given to open it with",
			storage.ErrSchemaMismatch, rec.Name, rec.Bundle)
	case s.opts.Bundle.Name != rec.Bundle:
		return fmt.Errorf("%w: table %s has day bundles of codec %q, not %q", storage.ErrSchemaMismatch, rec.Name,
			rec.Bundle, s.opts.Bundle.Name)
	}
	return nil
}
