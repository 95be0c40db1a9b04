package index

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/stretchr/testify/require"

	"halite/storage/index/memory"
)

// TestLoaderAddsAsAdd: a loader gives each label set the number that Add gives it, for any earlier series.
func TestLoaderAddsAsAdd(t *testing.T) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 51))
		w := newWorld(t, seed+1)
		l := w.x.NewLoader()
		for range 500 {
			b := labels.NewScratchBuilder(4)
			if rng.IntN(4) == 0 {
				b.Add("A", fmt.Sprint(rng.IntN(3)))
			}
			b.Add(model.MetricNameLabel, fmt.Sprint("m", rng.IntN(3)))
			for _, name := range []string{"a", "b", "c"} {
				if v := rng.IntN(4); v > 0 {
					b.Add(name, fmt.Sprint(v))
				} else if rng.IntN(2) == 0 {
					b.Add(name, "")
				}
			}
			ls := b.Labels()
			var pairs []labels.Label
			ls.Range(func(l labels.Label) { pairs = append(pairs, l) })
			before := w.x.active.SeriesCount()
			added, err := l.Add(pairs)
			require.NoError(t, err)
			again, created, err := w.x.Add(ls)
			require.NoError(t, err)
			require.False(t, created)
			require.Equal(t, again, added, "%s", ls)
			require.Equal(t, ls.WithoutEmpty(), w.x.Labels(added))
			require.LessOrEqual(t, w.x.active.SeriesCount(), before+1)
		}
	}
}

// TestLoaderRefuses: a loader refuses the label sets that Add refuses.
func TestLoaderRefuses(t *testing.T) {
	l := newWorld(t, 1).x.NewLoader()
	for _, pairs := range [][]labels.Label{
		nil, {{Name: "a", Value: "b"}}, {{Name: model.MetricNameLabel, Value: "m"}, {Name: "", Value: "x"}},
		{{Name: model.MetricNameLabel, Value: "m"}, {Name: "b", Value: "1"}, {Name: "a", Value: "1"}},
		{{Name: model.MetricNameLabel, Value: string(make([]byte, 2000))}},
	} {
		_, err := l.Add(pairs)
		require.ErrorIs(t, err, memory.ErrBadLabels)
	}
}
