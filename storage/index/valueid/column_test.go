package valueid

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"halite/storage/index/envelope"
)

func TestColumn(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 2))
		ids := make([]uint32, rng.IntN(200))
		width := rng.IntN(33)
		for i := range ids {
			if rng.IntN(4) > 0 || seed%3 == 0 {
				ids[i] = uint32(rng.Uint64() >> (64 - width))
			}
		}
		for i := range rng.IntN(len(ids) + 1) {
			ids[i] = 0
		}
		p := Pack(ids)
		c := &envelope.Decoder{Rest: append(p.AppendHeader(nil), p.Raw()...)}
		q := ReadHeader(c, uint32(len(ids)))
		ReadData(c, &q)
		require.NoError(t, c.End(), "seed %d", seed)
		set := NewSet(1 << 10)
		for range rng.IntN(20) {
			set.Add(rng.Uint32N(1 << 10))
		}
		if len(ids) > 0 {
			one := NewSingleton(max(1, ids[rng.IntN(len(ids))]))
			if rng.IntN(2) == 0 {
				set = one
			}
		}
		var want []uint32
		from := uint32(rng.IntN(len(ids) + 1))
		for row := range ids {
			require.Equal(t, ids[row], q.At(uint32(row)), "seed %d row %d", seed, row)
			if uint32(row) >= from && set.Has(ids[row]) {
				want = append(want, uint32(row))
			}
		}
		require.Equal(t, want, q.Filter(nil, from, uint32(len(ids)), set), "seed %d", seed)
		all := AppendRange(nil, from, uint32(len(ids)))
		require.Equal(t, fmt.Sprint(want), fmt.Sprint(q.Keep(all, set)), "seed %d", seed)
	}
}
