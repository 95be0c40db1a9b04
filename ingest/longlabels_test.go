package ingest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/prompb"
	"github.com/stretchr/testify/require"

	"halite/ingest/ingesttest"
)

// TestLabelsAtTheirLimits stores series at the default limits of labels. They survive a crash, a flush and a new start.
func TestLabelsAtTheirLimits(t *testing.T) {
	many := manyLabels(LabelsPerSeriesMaxDefault-1, "value")
	longest := []string{"__name__", strings.Repeat("m", 1024), strings.Repeat("n", 1024), "x"}
	for n := range 3 {
		longest = append(longest, fmt.Sprint("v", n), strings.Repeat("é", LabelValueBytesMaxDefault/2))
	}
	fs, c := vfs.NewMem(), ingesttest.NewClock()
	r := openRig(t, fs, c, nil)
	r.write(series(many, sample(startMs, 1)), series(longest, sample(startMs, 2)))
	check := func() {
		t.Helper()
		r.requireSeries(labels.FromStrings(many...), column{startMs: math.Float64bits(1)})
		r.requireSeries(labels.FromStrings(longest...), column{startMs: math.Float64bits(2)})
	}
	check()
	require.NoError(t, r.Flush(t.Context()))
	check()
	r.close()
	r = openRig(t, fs, c, nil)
	defer r.close()
	check()
}

// TestManyLongLabelSets flushes new series whose label values together exceed the largest cell many times.
func TestManyLongLabelSets(t *testing.T) {
	fs, c := vfs.NewMem(), ingesttest.NewClock()
	r := openRig(t, fs, c, nil)
	random := rand.New(rand.NewPCG(1, 2))
	text := func(size int) string {
		b := make([]byte, size)
		for n := range b {
			b[n] = byte('!' + random.IntN(90))
		}
		return string(b)
	}
	var all []prompb.TimeSeries
	for n := range 150 {
		all = append(all, series([]string{"__name__", "long", "a", text(60_000), "b", text(60_000), "n", fmt.Sprint(n)},
			sample(startMs, float64(n))))
		if len(all) == 50 {
			r.write(all...)
			all = all[:0]
		}
	}
	require.NoError(t, r.Flush(t.Context()))
	r.close()
	r = openRig(t, fs, c, nil)
	defer r.close()
	require.Equal(t, 150, r.Stats().Series)
}
