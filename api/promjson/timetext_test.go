package promjson

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/prometheus/prometheus/promql"
	"github.com/stretchr/testify/require"
)

// TestTimesOfMatrices: the text of a time does not depend on other points or on earlier series.
func TestTimesOfMatrices(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 1))
	for range 200 {
		m := make(promql.Matrix, 1+rng.IntN(6))
		want := "["
		fromMs, stepMs, steps := rng.Int64N(2e12)-1e12, []int64{1, 1000, 15000, 3}[rng.IntN(4)], rng.Int64N(30)
		for i := range m {
			points := ""
			for k := range steps {
				if rng.IntN(3) == 0 {
					continue
				}
				tsMs := fromMs + k*stepMs + min(1, stepMs-1)*int64(rng.IntN(8)/7) // out of step now and then
				m[i].Floats = append(m[i].Floats, promql.FPoint{T: tsMs, F: float64(k)})
				if points != "" {
					points += ","
				}
				points += fmt.Sprintf(`[%s,"%d"]`, AppendTimestamp(nil, tsMs), k)
			}
			if i > 0 {
				want += ","
			}
			want += `{"metric":{}`
			if points != "" {
				want += `,"values":[` + points + "]"
			}
			want += "}"
		}
		require.Equal(t, want+"]", encode(m), "seed %d", seed)
	}
}
