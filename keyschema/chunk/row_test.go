package chunk

import (
	"errors"
	"math"
	"slices"
	"testing"

	"halite/keyschema"
	"halite/keyschema/chunktest"
)

// TestRowAgainstMap merges random cells in random order and compares with a map from timestamp to the winner.
func TestRowAgainstMap(t *testing.T) {
	r := chunktest.NewRand(t)
	const start = 3 * keyschema.HourMs
	type winner struct {
		rank  int64
		value float64
	}
	var row Row
	for range 1_500 {
		row.Reset(start)
		want := make(map[int64]winner)
		offer := func(tsMs, rank int64, v float64) {
			if w, ok := want[tsMs]; !ok || rank >= w.rank {
				want[tsMs] = winner{rank, v}
			}
		}
		for range r.IntN(7) {
			if r.IntN(2) == 0 {
				n, seq := 1+r.IntN(40), uint32(r.IntN(5))
				values := make([]float64, n)
				chunktest.RandomValues(r, values)
				tsMs := make([]int64, n)
				for i := range tsMs {
					tsMs[i] = start + int64(r.IntN(20)+40*i)
					offer(tsMs[i], int64(seq), values[i])
				}
				packed := checkRoundTrip(t, start, tsMs, values)
				if err := row.Add(keyschema.AppendChunkQualifier(nil, seq), packed); err != nil {
					t.Fatal(err)
				}
				continue
			}
			for range r.IntN(20) {
				offset, v := uint32(r.IntN(900)), math.Float64frombits(r.Uint64())
				seq := uint32(max(0, r.IntN(6)-3)) // of a deletion, often none
				offer(start+int64(offset), 1<<40+int64(seq), v)
				if err := row.Add(keyschema.AppendLaterSampleQualifier(nil, offset, seq), AppendSampleValue(nil, v)); err != nil {
					t.Fatal(err)
				}
			}
			if r.IntN(3) == 0 {
				row.Columns() // reading in between must not matter
			}
		}
		checkColumns(t, &row, want, func(w winner) float64 { return w.value })
	}
}

func checkColumns[W any](t *testing.T, row *Row, want map[int64]W, value func(W) float64) {
	t.Helper()
	tsMs, values := row.Columns()
	if len(tsMs) != len(want) || len(values) != len(want) || !slices.IsSorted(tsMs) {
		t.Fatalf("%d timestamps and %d values, want %d: %v", len(tsMs), len(values), len(want), tsMs)
	}
	for i, ts := range tsMs {
		w, ok := want[ts]
		if !ok || math.Float64bits(value(w)) != math.Float64bits(values[i]) {
			t.Fatalf("at %d: %v, want %v, %v", ts, values[i], w, ok)
		}
	}
}

func TestRowKeepsWhatItHasOnErrors(t *testing.T) {
	var row Row
	row.Reset(0)
	good, err := Append(nil, 0, []int64{1, 2}, []float64{3, 4})
	if err != nil {
		t.Fatal(err)
	}
	if err := row.Add(keyschema.AppendChunkQualifier(nil, 1), good); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name             string
		qualifier, value []byte
		want             error
	}{
		{"unknown kind", []byte("q0000"), good, keyschema.ErrBadQualifier},
		{"no qualifier", nil, good, keyschema.ErrBadQualifier},
		{"chunk cut off", keyschema.AppendChunkQualifier(nil, 2), good[:len(good)-1], ErrCorrupt},
		{"sample cut off", keyschema.AppendSampleQualifier(nil, 2), make([]byte, 7), ErrCorrupt},
		{"chunk too long", keyschema.AppendChunkQualifier(nil, 2), append(slices.Clone(good), 0), ErrCorrupt},
	} {
		if err := row.Add(c.qualifier, c.value); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	if err := row.Add(keyschema.AppendMarkQualifier(nil, 5), nil); err != nil {
		t.Errorf("a mark: %v", err)
	}
	if tsMs, values := row.Columns(); !slices.Equal(tsMs, []int64{1, 2}) || !slices.Equal(values, []float64{3, 4}) {
		t.Errorf("%v %v", tsMs, values)
	}
}

func TestRowOfOneChunkAllocatesNothing(t *testing.T) {
	h := chunktest.MakeHours(1, chunktest.Mix[1], 1, 240, 0)[0]
	packed := checkRoundTrip(t, 0, h.TsMs, h.Values)
	qualifier := keyschema.AppendChunkQualifier(nil, 9)
	var row Row
	if n := testing.AllocsPerRun(20, func() {
		row.Reset(0)
		if err := row.Add(qualifier, packed); err != nil {
			t.Fatal(err)
		}
		row.Columns()
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkRow(b *testing.B) {
	h := chunktest.MakeHours(1, chunktest.Mix[1], 1, 240, 0)[0]
	cells := func(parts int) (qualifiers, packed [][]byte) {
		n := len(h.TsMs) / parts
		for i := range parts {
			p, err := Append(nil, 0, h.TsMs[i*n:(i+1)*n], h.Values[i*n:(i+1)*n])
			if err != nil {
				b.Fatal(err)
			}
			qualifiers, packed = append(qualifiers, keyschema.AppendChunkQualifier(nil, uint32(i))), append(packed, p)
		}
		return qualifiers, packed
	}
	for name, parts := range map[string]int{"one-chunk": 1, "four-chunks": 4} {
		b.Run(name, func(b *testing.B) {
			qualifiers, packed := cells(parts)
			var row Row
			b.ReportAllocs()
			for b.Loop() {
				row.Reset(0)
				for i := range packed {
					if err := row.Add(qualifiers[i], packed[i]); err != nil {
						b.Fatal(err)
					}
				}
				row.Columns()
			}
		})
	}
}
