package tablet

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"halite/storage"
	"halite/storage/pebble/cellkey"
	"halite/storage/pebble/fault"
)

// CheckIfBusy checks the tablets if enough has happened since the last check.
func (ts *Set) CheckIfBusy(ctx context.Context) error {
	if ts.bytesWritten.Load() < ts.c.BytesMax/8 && ts.rowsTouched.Load() < ts.c.RowsHot {
		return nil
	}
	return ts.Check(ctx)
}

// measured is a tablet with its figures at a check.
type measured struct {
	*tablet
	sizeBytes uint64
	rows      uint64 // read and written since the last check
}

// Check splits tablets that are large or hot. It joins neighbours that are small and much colder than the other tablets. It
// saves the result.
func (ts *Set) Check(ctx context.Context) error {
	ts.checkMu.Lock()
	defer ts.checkMu.Unlock()
	ts.bytesWritten.Store(0)
	ts.rowsTouched.Store(0)
	sizeMax, rowsMax := uint64(ts.c.BytesMax), uint64(ts.c.RowsHot)
	var list []*tablet
	var lastSize, lastRows uint64
	var changes []change
	old := ts.Snapshot()
	cold := ts.cold(old)
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
		parts := max(partsOf(m.sizeBytes, sizeMax), partsOf(m.rows, rowsMax))
		if parts = min(parts, tabletsPerTableMax-len(list)-len(old)); parts > 1 {
			keys, err := ts.splitKeys(m, parts)
			if err != nil {
				return err
			}
			if len(keys) > 0 {
				list = append(list, tb.split(keys)...)
				lastSize, lastRows = sizeMax, rowsMax // do not join it with the next one
				changes = append(changes, ts.splits(m, keys)...)
				continue
			}
		}
		if n := len(list); n > 0 && lastSize+m.sizeBytes < sizeMax/4 && lastRows+m.rows <= min(cold, rowsMax/4) {
			list[n-1] = list[n-1].join(tb)
			lastSize, lastRows = lastSize+m.sizeBytes, lastRows+m.rows
			changes = append(changes, change{storage.TabletMerge, tb.start, fmt.Sprintf(
				"both neighbours are small and cold: together they have %d bytes and had %d rows since the last check", lastSize, lastRows)})
			continue
		}
		list = append(list, tb)
		lastSize, lastRows = m.sizeBytes, m.rows
	}
	if len(changes) == 0 {
		return nil
	}
	if err := ts.install(ctx, list); err != nil {
		return err
	}
	for _, c := range changes {
		if ts.c.Changed != nil {
			ts.c.Changed(c.kind, c.key, c.reason)
		}
	}
	return nil
}

// change is a split or merge.
type change struct {
	kind   string
	key    []byte
	reason string
}

// splits are the changes that divide a tablet at keys.
func (ts *Set) splits(m measured, keys [][]byte) (out []change) {
	reason := fmt.Sprintf("the tablet had %d bytes, and %d is the most", m.sizeBytes, ts.c.BytesMax)
	if partsOf(m.rows, uint64(ts.c.RowsHot)) > partsOf(m.sizeBytes, uint64(ts.c.BytesMax)) {
		reason = fmt.Sprintf("the tablet had %d rows read and written since the last check, and %d is the most", m.rows, ts.c.RowsHot)
	}
	for _, key := range keys {
		out = append(out, change{storage.TabletSplit, key, reason})
	}
	return out
}

// install saves a new division and puts it into force.
func (ts *Set) install(ctx context.Context, list []*tablet) error {
	var splits [][]byte
	for _, tb := range list[1:] {
		splits = append(splits, tb.start)
	}
	if err := ts.c.Save(ctx, splits); err != nil {
		return err
	}
	ts.mu.Lock()
	ts.list = list
	ts.mu.Unlock()
	return nil
}

// partsOf returns the number of parts that keeps each part at or below most.
func partsOf(load, most uint64) int { return int(min((load+most-1)/most, tabletsPerTableMax)) }

// cold is the load up to which two neighbours may join. It is small relative to the load of the other tablets since the
// last check. With a fixed limit, tablets would join as soon as a load ends, and split when it returns.
func (ts *Set) cold(list []*tablet) uint64 {
	var rows uint64
	for _, tb := range list {
		rows += tb.touched() - tb.rowsAtCheck
	}
	return rows / uint64(4*len(list))
}

// split divides a tablet at ascending keys. The parts count from zero, but keep the samples.
func (tb *tablet) split(keys [][]byte) []*tablet {
	tb.mu.Lock()
	defer tb.mu.Unlock()
	parts := make([]*tablet, len(keys)+1)
	unflushed := tb.unflushed.Load() / uint64(len(parts))
	start := tb.start
	for i := range parts {
		end := tb.end
		if i < len(keys) {
			end = keys[i]
		}
		parts[i] = &tablet{start: start, end: end, stride: tb.stride}
		parts[i].unflushed.Store(unflushed)
		start = end
	}
	for _, sample := range tb.samples {
		at, found := slices.BinarySearchFunc(keys, sample, bytes.Compare)
		if found {
			at++
		}
		parts[at].samples = append(parts[at].samples, sample)
	}
	return parts
}

// join makes one tablet of two neighbours.
func (tb *tablet) join(next *tablet) *tablet {
	joined := &tablet{start: tb.start, end: next.end}
	left, leftStride := tb.known()
	right, rightStride := next.known()
	joined.stride = max(leftStride, rightStride)
	joined.samples = append(every(left, joined.stride/leftStride), every(right, joined.stride/rightStride)...)
	joined.thin(tabletSamplesMax)
	for _, part := range []*tablet{tb, next} {
		joined.rowsWritten.Add(part.rowsWritten.Load())
		joined.rowsRead.Add(part.rowsRead.Load())
		joined.bytesWritten.Add(part.bytesWritten.Load())
		joined.bytesRead.Add(part.bytesRead.Load())
		joined.unflushed.Add(part.unflushed.Load())
	}
	joined.rowsAtCheck = joined.touched()
	return joined
}

// known returns the samples, and the number of offered keys that each sample represents.
func (tb *tablet) known() (samples [][]byte, stride int) {
	tb.mu.Lock()
	defer tb.mu.Unlock()
	return slices.Clone(tb.samples), max(tb.stride, 1)
}

// every keeps every n-th sample.
func every(samples [][]byte, n int) [][]byte {
	kept := samples[:0]
	for i := 0; i < len(samples); i += n {
		kept = append(kept, samples[i])
	}
	return kept
}

// weightedKey is a row key with the bytes or rows that it represents.
type weightedKey struct {
	key    []byte
	weight uint64
}

// splitKeys returns up to parts−1 keys inside the tablet that divide its load or its size. It returns none if there are too
// few keys. Samples of written keys divide better than the bounds of files, which say nothing about the keys in between.
func (ts *Set) splitKeys(m measured, parts int) ([][]byte, error) {
	written := m.writtenKeys()
	if keys := ts.balancedKeys(m.tablet, written, parts); len(written) >= parts*samplesPerPart && len(keys) > 0 {
		return keys, nil
	}
	stored, err := ts.storedKeys(m.tablet)
	if err != nil {
		return nil, err
	}
	sources := [2][]weightedKey{stored, written}
	if m.rows > uint64(ts.c.RowsHot) {
		sources = [2][]weightedKey{written, stored}
	}
	for _, source := range sources {
		if keys := ts.balancedKeys(m.tablet, source, parts); len(keys) > 0 {
			return keys, nil
		}
	}
	return nil, nil
}

// samplesPerPart is the number of samples that splitting by samples needs for each part.
const samplesPerPart = 8

func (tb *tablet) writtenKeys() []weightedKey {
	samples, _ := tb.known()
	keys := make([]weightedKey, len(samples))
	for i, sample := range samples {
		keys[i] = weightedKey{sample, 1}
	}
	return keys
}

// storedKeys returns the row keys in the tablet at which files start and end. Each has half the size of its file.
func (ts *Set) storedKeys(tb *tablet) ([]weightedKey, error) {
	levels, err := ts.c.DB.SSTables()
	if err != nil {
		return nil, fault.Wrap("list files", err)
	}
	var keys []weightedKey
	for _, level := range levels {
		for i := range level {
			for _, user := range [][]byte{level[i].Smallest.UserKey, level[i].Largest.UserKey} {
				if len(user) < cellkey.HeaderBytes || binary.BigEndian.Uint16(user) != ts.c.TableID {
					continue
				}
				if key := ts.rowKeyOf(user); key != nil && tb.contains(key) {
					keys = append(keys, weightedKey{key, level[i].Size / 2})
				}
			}
		}
	}
	return keys, nil
}

// rowKeyOf returns the row key in a key of the tree. For a day chunk, it returns the first row that the day chunk can have.
// It returns nil for other keys.
func (ts *Set) rowKeyOf(user []byte) []byte {
	if split := cellkey.Split(user); cellkey.IsDayChunk(user, split) {
		return cellkey.AppendHourDigits(append([]byte(nil), user[cellkey.HeaderBytes:split-1]...), 0)
	}
	if c, ok := ts.c.Layout.Parse(user); ok {
		return ts.c.Layout.AppendRowKey(nil, &c)
	}
	return nil
}

// balancedKeys returns ascending keys that divide the weights into parts of similar size. In tables with hours the keys lie
// between series, because one series is never large. Among keys of similar balance it prefers the shortest: between two salts
// rather than between two series of a salt.
func (ts *Set) balancedKeys(tb *tablet, keys []weightedKey, parts int) [][]byte {
	slices.SortFunc(keys, func(a, b weightedKey) int { return bytes.Compare(a.key, b.key) })
	var places []weightedKey // with the weight below them
	var below uint64
	for i, k := range keys {
		if i > 0 {
			if key := separator(ts.splitBefore(keys[i-1].key), ts.splitBefore(k.key)); key != nil && tb.contains(key) {
				places = append(places, weightedKey{key, below})
			}
		}
		below += k.weight
	}
	var out [][]byte
	for part := 1; part < parts && len(places) > 0; part++ {
		at := nearest(places, below*uint64(part)/uint64(parts), below/uint64(parts*splitTolerance))
		if key := places[at].key; bytes.Compare(key, tb.start) > 0 {
			out = append(out, key)
		}
		places = places[at+1:]
	}
	return out
}

// splitTolerance: a split may miss its target by 1/splitTolerance of a part to have a shorter key.
const splitTolerance = 25

// nearest returns the index of the place whose weight below is closest to target. If several are within near, it returns the
// place with the shortest key.
func nearest(places []weightedKey, target, near uint64) int {
	best, bestOff := 0, uint64(math.MaxUint64)
	for i, p := range places {
		off := max(p.weight, target) - min(p.weight, target)
		shorter, longer := len(p.key) < len(places[best].key), len(p.key) > len(places[best].key)
		switch {
		case off <= near && bestOff <= near && (shorter || !longer && off < bestOff),
			bestOff > near && off < bestOff:
			best, bestOff = i, off
		}
	}
	return best
}

// separator returns a short key above all keys that start with a, and not above b, which follows a. It returns nil if they
// are equal.
func separator(a, b []byte) []byte {
	for i := range b {
		if i == len(a) || a[i] != b[i] {
			return bytes.Clone(b[:i+1])
		}
	}
	return nil
}

// splitBefore returns the key at which a tablet may split before a row. In tables with hours, this is the start of the series.
func (ts *Set) splitBefore(key []byte) []byte {
	if ts.c.Layout.HourKeys {
		return key[:len(key)-cellkey.HourDigits]
	}
	return key
}
