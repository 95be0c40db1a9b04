package chunk

import (
	"slices"
	"testing"

	"halite/keyschema/chunktest"
)

// checkRoundTrip packs and unpacks the samples and returns the chunk.
func checkRoundTrip(t testing.TB, hourStartMs int64, tsMs []int64, values []float64) []byte {
	t.Helper()
	packed, err := Append([]byte("before"), hourStartMs, tsMs, values)
	if err != nil {
		t.Fatal(err)
	}
	if string(packed[:6]) != "before" {
		t.Fatalf("Append overwrote what was there: %q", packed[:6])
	}
	packed = packed[6:]
	gotTs, gotValues, err := Decode(packed, hourStartMs, []int64{-1}, []float64{-2})
	if err != nil {
		t.Fatalf("%v\ntimestamps %v\nvalues %v", err, tsMs, values)
	}
	if gotTs[0] != -1 || gotValues[0] != -2 || !slices.Equal(gotTs[1:], tsMs) || !chunktest.SameBits(gotValues[1:], values) {
		t.Fatalf("timestamps %v\nvalues %v\ncome back as\n%v\n%v", tsMs, values, gotTs, gotValues)
	}
	info, err := new(Decoder).Stat(packed, hourStartMs)
	if want := (Info{len(tsMs), tsMs[0], tsMs[len(tsMs)-1]}); err != nil || info != want {
		t.Fatalf("Stat: %+v, %v, want %+v", info, err, want)
	}
	return packed
}
