package head_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"halite/ingest/head"
	"halite/keyschema"
)

// requireAccount checks that the head's memory is the sum of its rows', which it returns by hour.
func requireAccount(t *testing.T, h *head.Head) map[int64]int64 {
	t.Helper()
	sum, byHour := int64(0), map[int64]int64{}
	for stripe := range h.Stripes() {
		h.SelectRows(nil, stripe, func(row head.RowInfo) bool {
			sum += row.Bytes
			byHour[row.Hour] += row.Bytes
			return false
		})
	}
	require.Equal(t, h.Bytes(), sum)
	return byHour
}

// TestRowsLeftBehindArePacked checks that the head packs a row once its series begins a later hour. The row then takes far
// less memory and still accepts late samples. A row whose packed tail is too large counts as sealed.
func TestRowsLeftBehindArePacked(t *testing.T) {
	const series, rowBytesMax = 1000, 150
	hour := int64(baseMs / keyschema.HourMs)
	h := newHead(t, head.Options{Stripes: 4, RowBytesMax: rowBytesMax}, series)
	want := map[uint32][]float64{}
	put := func(minute int64, value func(ref uint32) float64) {
		var samples []head.Sample
		for ref := uint32(1); ref <= series; ref++ {
			samples = append(samples, head.Sample{Ref: ref, TsMs: baseMs + minute*60_000, Value: value(ref)})
			want[ref] = append(want[ref], value(ref))
		}
		appendAll(t, h, samples, &writer{})
	}
	for minute := range int64(16) {
		put(minute, func(ref uint32) float64 { return float64(int64(ref) + minute*minute) })
	}
	before := requireAccount(t, h)[hour]
	put(60, func(uint32) float64 { return 1 })
	after := requireAccount(t, h)[hour]
	require.Less(t, after, before*2/3)
	require.Equal(t, series*16+series, h.Samples())

	// Late samples go into the same row and make no other.
	for _, ref := range []uint32{1, 500, series} {
		require.NoError(t, (&writer{}).append(h, h.Stripe(ref), []head.Sample{{Ref: ref, TsMs: baseMs + 16*60_000, Value: 7}}))
		want[ref] = append(want[ref][:16:16], 7, 1)
	}
	require.Equal(t, 2*series, h.Rows())
	requireAccount(t, h)
	for ref := uint32(1); ref <= series; ref++ {
		_, values, err := h.AppendSamples(ref, 0, math.MaxInt64, nil, nil)
		require.NoError(t, err)
		require.Equal(t, want[ref], values, "series %d", ref)
	}

	// Twenty numbers of full length are more than rowBytesMax once the last of them are packed.
	for n := range 20 {
		require.NoError(t, (&writer{}).append(h, h.Stripe(2), []head.Sample{
			{Ref: 2, TsMs: baseMs + 2*keyschema.HourMs + int64(n), Value: math.Sqrt(float64(n + 2))},
		}))
	}
	require.Zero(t, h.Sealed())
	require.NoError(t, (&writer{}).append(h, h.Stripe(2), []head.Sample{{Ref: 2, TsMs: baseMs + 3*keyschema.HourMs}}))
	require.Equal(t, 1, h.Sealed())
	requireAccount(t, h)
	for stripe := range h.Stripes() {
		h.Free(freeze(h, stripe, func(head.RowInfo) bool { return true }))
	}
	require.Zero(t, h.Sealed())
	require.Zero(t, h.Bytes())
}
