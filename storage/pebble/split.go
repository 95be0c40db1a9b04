package pebble

import (
	"bytes"
	"context"
	"encoding/binary"
	"slices"
)

// maintainTablets checks the tables on which enough has happened since the last check to make it worth while.
func (s *Store) maintainTablets(ctx context.Context) error {
	for _, t := range s.tablesByName() {
		ts := t.tablets
		if ts.bytesWritten.Load() < s.opts.TabletBytesMax/8 && ts.rowsTouched.Load() < s.opts.TabletRowsHot {
			continue
		}
		if err := ts.check(ctx); err != nil {
			return err
		}
	}
	return nil
}

// checkTablets checks all tables.
func (s *Store) checkTablets(ctx context.Context) error {
	for _, t := range s.tablesByName() {
		if err := t.tablets.check(ctx); err != nil {
			return err
		}
	}
	return nil
}

// measured is a tablet with what a check found out about it.
type measured struct {
	*tablet
	sizeBytes uint64
	rows      uint64 // read and written since the last check
}

// check splits tablets that are large or hot and joins neighbours that are small and cold. It stores the result.
func (ts *tablets) check(ctx context.Context) error {
	ts.checkMu.Lock()
	defer ts.checkMu.Unlock()
	ts.bytesWritten.Store(0)
	ts.rowsTouched.Store(0)
	s := ts.t.store
	sizeMax, rowsMax := uint64(s.opts.TabletBytesMax), uint64(s.opts.TabletRowsHot)
	var list []*tablet
	var lastSize, lastRows uint64
	changed := false
	old := ts.snapshot()
	for _, tb := range old {
		if err := ctx.Err(); err != nil {
			return err
		}
		sizeBytes, err := ts.sizeBytes(tb)
		if err != nil {
			return err
		}
		m := measured{tablet: tb, sizeBytes: sizeBytes, rows: tb.touched() - tb.rowsAtCheck}
		tb.rowsAtCheck = tb.touched()
		if (m.sizeBytes > sizeMax || m.rows > rowsMax) && len(list)+len(old) < tabletsPerTableMax {
			key, err := ts.splitKey(m, m.rows > rowsMax)
			if err != nil {
				return err
			}
			if key != nil {
				left, right := tb.split(key)
				list = append(list, left, right)
				lastSize, lastRows = sizeMax, rowsMax // not joined with what follows
				changed = true
				continue
			}
		}
		if n := len(list); n > 0 && lastSize+m.sizeBytes < sizeMax/4 && lastRows+m.rows < rowsMax/4 {
			list[n-1] = list[n-1].join(tb)
			lastSize, lastRows = lastSize+m.sizeBytes, lastRows+m.rows
			changed = true
			continue
		}
		list = append(list, tb)
		lastSize, lastRows = m.sizeBytes, m.rows
	}
	if !changed {
		return nil
	}
	return ts.install(ctx, list)
}

// install puts a new division into force and stores it.
func (ts *tablets) install(ctx context.Context, list []*tablet) error {
	var splits [][]byte
	for _, tb := range list[1:] {
		splits = append(splits, tb.start)
	}
	if err := ts.t.store.putRecord(ctx, catalogSplits, ts.t.record().Name, splits); err != nil {
		return err
	}
	ts.mu.Lock()
	ts.list = list
	ts.mu.Unlock()
	return nil
}

// split divides a tablet. The halves start counting anew, but keep what they know of their keys.
func (tb *tablet) split(key []byte) (left, right *tablet) {
	left, right = &tablet{start: tb.start, end: key}, &tablet{start: key, end: tb.end}
	tb.mu.Lock()
	defer tb.mu.Unlock()
	for _, sample := range tb.samples {
		half := right
		if bytes.Compare(sample, key) < 0 {
			half = left
		}
		half.samples = append(half.samples, sample)
		half.seen++
	}
	unflushed := tb.unflushed.Load()
	left.unflushed.Store(unflushed / 2)
	right.unflushed.Store(unflushed - unflushed/2)
	return left, right
}

// join makes one tablet of two neighbours.
func (tb *tablet) join(next *tablet) *tablet {
	joined := &tablet{start: tb.start, end: next.end}
	for _, part := range []*tablet{tb, next} {
		part.mu.Lock()
		joined.samples = append(joined.samples, part.samples...)
		joined.seen += part.seen
		part.mu.Unlock()
		joined.rowsWritten.Add(part.rowsWritten.Load())
		joined.rowsRead.Add(part.rowsRead.Load())
		joined.bytesWritten.Add(part.bytesWritten.Load())
		joined.bytesRead.Add(part.bytesRead.Load())
		joined.unflushed.Add(part.unflushed.Load())
	}
	joined.samples = joined.samples[:min(len(joined.samples), tabletSamplesMax)]
	joined.rowsAtCheck = joined.touched()
	return joined
}

// weightedKey is a row key with the bytes or rows that it stands for.
type weightedKey struct {
	key    []byte
	weight uint64
}

// splitKey returns a key inside the tablet that halves its load or its size; nil if none is known.
func (ts *tablets) splitKey(m measured, hot bool) ([]byte, error) {
	written := m.writtenKeys()
	stored, err := ts.storedKeys(m.tablet)
	if err != nil {
		return nil, err
	}
	sources := [2][]weightedKey{stored, written}
	if hot {
		sources = [2][]weightedKey{written, stored}
	}
	for _, source := range sources {
		if key := ts.median(m.tablet, source); key != nil {
			return key, nil
		}
	}
	return nil, nil
}

func (tb *tablet) writtenKeys() []weightedKey {
	tb.mu.Lock()
	defer tb.mu.Unlock()
	keys := make([]weightedKey, len(tb.samples))
	for i, sample := range tb.samples {
		keys[i] = weightedKey{bytes.Clone(sample), 1}
	}
	return keys
}

// storedKeys returns the tablet's row keys at which files begin and end, each with half its file's size.
func (ts *tablets) storedKeys(tb *tablet) ([]weightedKey, error) {
	levels, err := ts.t.store.db.SSTables()
	if err != nil {
		return nil, engineError("list files", err)
	}
	var keys []weightedKey
	for _, level := range levels {
		for i := range level {
			for _, user := range [][]byte{level[i].Smallest.UserKey, level[i].Largest.UserKey} {
				if len(user) < headerBytes || binary.BigEndian.Uint16(user) != ts.t.id {
					continue
				}
				if key := ts.t.rowKeyOf(user); key != nil && tb.contains(key) {
					keys = append(keys, weightedKey{key, level[i].Size / 2})
				}
			}
		}
	}
	return keys, nil
}

// rowKeyOf returns the key of the row that a physical key belongs to, of a bundle the first one it may have; nil for
// what is neither.
func (t *Table) rowKeyOf(user []byte) []byte {
	if split := splitKey(user); isBundleKey(user, split) {
		return appendHourDigits(append([]byte(nil), user[headerBytes:split-1]...), 0)
	}
	if c, ok := parseCellKey(user, t.hourKeys); ok {
		return c.appendRowKey(nil, t.hourKeys)
	}
	return nil
}

// median returns the key in the middle of the weights, or the nearest one that divides the tablet. In tables with hours
// it cuts between series only: one series is never much.
func (ts *tablets) median(tb *tablet, keys []weightedKey) []byte {
	if len(keys) == 0 {
		return nil
	}
	slices.SortFunc(keys, func(a, b weightedKey) int { return bytes.Compare(a.key, b.key) })
	m := middle{after: keys[0].key, before: tb.end}
	if bytes.Compare(tb.start, m.after) > 0 {
		m.after = tb.start
	}
	for _, k := range keys {
		m.half += k.weight
	}
	m.half /= 2
	var below uint64
	for _, k := range keys {
		if ts.t.hourKeys {
			series := k.key[:len(k.key)-hourDigits]
			m.try(series, below)
			m.try(afterSeries(series), below+k.weight)
		} else {
			m.try(k.key, below)
		}
		below += k.weight
	}
	return m.key
}

// afterSeries returns the least key behind all rows of a series, given what their keys have in common.
func afterSeries(series []byte) []byte {
	end := bytes.Clone(series)
	end[len(end)-1]++
	return end
}

// middle is the key nearest to half of the weights.
type middle struct {
	after, before []byte // the key is above the one and below the other, if there is one
	half          uint64
	key           []byte
	off           uint64
}

// try takes the key if it is the best so far; below is the weight of what lies before it.
func (m *middle) try(key []byte, below uint64) {
	off := max(below, m.half) - min(below, m.half)
	inside := bytes.Compare(key, m.after) > 0 && (len(m.before) == 0 || bytes.Compare(key, m.before) < 0)
	if inside && (m.key == nil || off < m.off) {
		m.key, m.off = key, off
	}
}
