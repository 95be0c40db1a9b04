package exemplar

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/stretchr/testify/require"

	"halite/keyschema/chunktest"
)

// randomList returns exemplars with ascending times, some of them equal.
func randomList(r *rand.Rand, n int) []Exemplar {
	values, tsMs := make([]float64, n), r.Int64N(1000)
	chunktest.RandomValues(r, values)
	list := make([]Exemplar, 0, n)
	for _, v := range values {
		tsMs += int64(r.IntN(3) * r.IntN(20_000))
		list = append(list, Exemplar{TsMs: tsMs, Value: v, Labels: randomLabels(r)})
	}
	return list
}

func randomLabels(r *rand.Rand) labels.Labels {
	texts := []string{"", "a", "ab", "AB", "trace", "f0", "0ff", "é\x00\xff", fmt.Sprintf("%016x", r.Uint64()),
		fmt.Sprintf("%032x", r.Uint64()), fmt.Sprint(r.IntN(1000))}
	b := labels.NewBuilder(labels.EmptyLabels())
	for range r.IntN(4) {
		b.Set(texts[1+r.IntN(len(texts)-1)], texts[r.IntN(len(texts))])
	}
	return b.Labels()
}

// requireSame compares bit by bit.
func requireSame(t testing.TB, want, got []Exemplar) {
	t.Helper()
	require.True(t, slices.EqualFunc(want, got, func(a, b Exemplar) bool {
		return a.TsMs == b.TsMs && math.Float64bits(a.Value) == math.Float64bits(b.Value) && labels.Equal(a.Labels, b.Labels)
	}), "want %v, got %v", want, got)
}

func TestListRoundTrip(t *testing.T) {
	r := chunktest.NewRand(t)
	var e Encoder
	var d Decoder
	for range 500 {
		hourStartMs := r.Int64N(1000) * 3_600_000
		want := randomList(r, 1+r.IntN(80))
		encoded, err := e.Append([]byte("x"), hourStartMs, want)
		require.NoError(t, err)
		got, err := d.Decode(encoded[1:], hourStartMs, make([]Exemplar, 1))
		require.NoError(t, err)
		requireSame(t, want, got[1:])
	}
	_, err := e.Append(nil, 0, nil)
	require.ErrorIs(t, err, ErrBadList)
	_, err = e.Append(nil, 0, []Exemplar{{TsMs: 2}, {TsMs: 1}})
	require.ErrorIs(t, err, ErrBadList)
	_, err = e.Append(nil, 0, make([]Exemplar, ListMax+1))
	require.ErrorIs(t, err, ErrBadList)
}

func TestRecordRoundTrip(t *testing.T) {
	r := chunktest.NewRand(t)
	for range 200 {
		want := randomList(r, 1+r.IntN(20))
		var encoded []byte
		for _, e := range want {
			encoded = AppendRecord(encoded, e)
		}
		for _, w := range want {
			e, rest, err := DecodeRecord(encoded)
			require.NoError(t, err)
			requireSame(t, []Exemplar{w}, []Exemplar{e})
			encoded = rest
		}
		require.Empty(t, encoded)
	}
}

// TestDamaged cuts lists and records off and changes their bytes. Nothing panics, and each error names a byte.
func TestDamaged(t *testing.T) {
	r := chunktest.NewRand(t)
	var d Decoder
	check := func(err error) {
		if err != nil {
			require.ErrorIs(t, err, ErrCorrupt)
			require.ErrorContains(t, err, "byte ")
		}
	}
	for range 60 {
		list := randomList(r, 1+r.IntN(20))
		encoded, err := new(Encoder).Append(nil, 0, list)
		require.NoError(t, err)
		record := AppendRecord(nil, list[0])
		for n := range encoded {
			_, err := d.Decode(encoded[:n], 0, nil)
			require.ErrorIs(t, err, ErrCorrupt)
			check(err)
			damaged := slices.Clone(encoded)
			damaged[n] ^= 1 << r.IntN(8)
			_, err = d.Decode(damaged, 0, nil)
			check(err)
		}
		for n := range record {
			_, _, err := DecodeRecord(record[:n])
			require.ErrorIs(t, err, ErrCorrupt)
			check(err)
		}
		_, err = d.Decode(append(encoded, 0), 0, nil)
		require.ErrorContains(t, err, "1 trailing bytes")
	}
}

// FuzzExemplars decodes any bytes as a record and as a list, and encodes and decodes the results again.
func FuzzExemplars(f *testing.F) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 20 {
		list := randomList(r, 1+r.IntN(10))
		encoded, err := new(Encoder).Append(nil, 0, list)
		require.NoError(f, err)
		f.Add(encoded)
		f.Add(AppendRecord(nil, list[0]))
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		if e, _, err := DecodeRecord(src); err == nil {
			again, rest, err := DecodeRecord(AppendRecord(nil, e))
			require.NoError(t, err)
			require.Empty(t, rest)
			requireSame(t, []Exemplar{e}, []Exemplar{again})
		} else {
			require.ErrorIs(t, err, ErrCorrupt)
		}
		var d Decoder
		list, err := d.Decode(src, 0, nil)
		if err != nil {
			require.ErrorIs(t, err, ErrCorrupt)
			return
		}
		encoded, err := new(Encoder).Append(nil, 0, list)
		require.NoError(t, err)
		again, err := d.Decode(encoded, 0, nil)
		require.NoError(t, err)
		requireSame(t, list, again)
	})
}
