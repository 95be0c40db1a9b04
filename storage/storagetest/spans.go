package storagetest

import (
	"errors"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"halite/storage"
)

// dropCells drops a random span.
func (p *pair) dropCells(name string) {
	families := p.tables[name][0].Schema().Families
	span := storage.CellSpan{Family: families[p.rng.IntN(len(families))].Name, FromDay: startMs/dayMs - int64(p.rng.IntN(8))}
	span.ToDay = span.FromDay + int64(p.rng.IntN(8))
	for range p.rng.IntN(3) {
		span.Rows = append(span.Rows, p.rowRange(name))
	}
	if p.rng.IntN(20) == 0 {
		span.Family = "none"
	}
	p.note("drop cells %s %+v", name, span)
	p.both("drop cells", func(i int) error { return p.tables[name][i].(storage.SpanTable).DropCells(p.ctx, span) })
	if p.rng.IntN(3) == 0 && span.Family != "none" {
		require.NoError(p.t, p.tables[name][1].(storage.SpanTable).Reclaim(p.ctx, span))
	}
	p.compare(name, everything(), storage.ReadOptions{})
}

// testSpans drops old cells of some rows and checks that everything else stays.
func testSpans(t *testing.T, s *suite) {
	b := s.start(t, storage.TableSchema{Name: "hours", HourKeys: true, Families: []storage.Family{{Name: "s"}, {Name: "h"}}})
	day := int64(startMs / dayMs)
	var all []string
	for _, metric := range []string{"a", "a_b", "b"} {
		for hour := (day - 3) * 24; hour < (day+1)*24; hour += 7 {
			key := hourKey(metric+"#01#x=1#", hour)
			b.set(key, "s", "q", hourEndMs(hour), "v")
			b.set(key, "h", "q", hourEndMs(hour), "v")
			all = append(all, key)
		}
	}
	table := b.table.(storage.SpanTable)
	span := storage.CellSpan{Family: "s", Rows: []storage.RowRange{{Start: []byte("a#"), End: []byte("a$")}}, ToDay: day - 1}
	b.checkBytes(table, span)
	require.NoError(b, table.DropCells(b.ctx, span))
	require.NoError(b, b.store.Sync(b.ctx))
	require.NoError(b, table.Reclaim(b.ctx, span))
	require.NoError(b, table.DropCells(b.ctx, span), "once more")
	var left []string
	for _, r := range b.read(everything(), storage.ReadOptions{Filter: storage.Filter{Families: []string{"s"}}}) {
		left = append(left, string(r.Key))
	}
	for _, key := range all {
		var hour int64
		for _, c := range key[len(key)-7:] {
			hour = hour*10 + int64(c-'0')
		}
		gone := key[:2] == "a#" && (hourMax-hour)/24 < day-1
		require.Equal(b, !gone, slices.Contains(left, key), key)
	}
	require.Len(b, b.read(everything(), storage.ReadOptions{Filter: storage.Filter{Families: []string{"h"}}}), len(all))
	require.ErrorIs(b, table.DropCells(b.ctx, storage.CellSpan{Family: "z", ToDay: 1}), storage.ErrBadMutation)
	require.ErrorIs(b, table.DropCells(b.ctx, storage.CellSpan{Family: "s", FromDay: 2, ToDay: 1}), storage.ErrBadMutation)
	require.NoError(b, table.DropCells(b.ctx, storage.CellSpan{Family: "s", ToDay: day + 9}), "no rows")
	require.Len(b, b.read(everything(), storage.ReadOptions{Filter: storage.Filter{Families: []string{"s"}}}), len(left))
}

// checkBytes checks the sizes that an engine reports, unless it does not support them.
func (b *bench) checkBytes(table storage.SpanTable, span storage.CellSpan) {
	days, err := table.Days(b.ctx, span.Family)
	if errors.Is(err, errors.ErrUnsupported) {
		return
	}
	require.NoError(b, err)
	require.Equal(b, []int64{startMs/dayMs - 3, startMs/dayMs - 2, startMs/dayMs - 1, startMs / dayMs}, days)
	require.NoError(b, b.store.Sync(b.ctx))
	size, err := table.SpanBytes(b.ctx, span)
	require.NoError(b, err)
	require.Positive(b, size)
	span.Rows = nil
	size, err = table.SpanBytes(b.ctx, span)
	require.NoError(b, err)
	require.Zero(b, size)
}
