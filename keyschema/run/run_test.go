package run

import (
	"math"
	"testing"
)

func checkRound(t *testing.T, hourStart int64, ts []int64, vs []float64) []byte {
	t.Helper()
	p, err := Append(nil, hourStart, ts, vs)
	if err != nil {
		t.Fatal(err)
	}
	gt, gv, err := Decode(p, hourStart, nil, nil)
	if err != nil {
		t.Fatalf("%v", err)
	}
	if len(gt) != len(ts) || len(gv) != len(vs) {
		t.Fatalf("length")
	}
	for i := range ts {
		if gt[i] != ts[i] || math.Float64bits(gv[i]) != math.Float64bits(vs[i]) {
			t.Fatalf("sample %d: %d %v want %d %v", i, gt[i], gv[i], ts[i], vs[i])
		}
	}
	return p
}

func TestMixRoundTrip(t *testing.T) {
	for _, n := range []int{1, 2, 3, 16, 60, 127, 128, 129, 130, 240, 257, 3600} {
		for _, j := range []int64{0, 3, 200} {
			for _, c := range allClasses() {
				for _, h := range makeHours(7, c, 20, n, j) {
					checkRound(t, 0, h.tsMs, h.values)
				}
			}
		}
	}
}
