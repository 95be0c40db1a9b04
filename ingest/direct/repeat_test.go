package direct

import (
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/stretchr/testify/require"

	"halite/ingest"
	"halite/ingest/deletion"
)

// TestDirectRepeatedDeletions repeats deletions of some series, each before the last one is old enough to be cleaned. They
// delay neither deletions of other series in the same hours nor the deletions that they repeat.
func TestDirectRepeatedDeletions(t *testing.T) {
	w := newDirectWorld(t, 1, 2)
	a, b := w.nodes[0], w.nodes[1]
	delay := a.compactor.Delay()
	write := func(n int, tsMs int64) {
		_, err := a.Write(t.Context(), ingest.SamplesInput([]ingest.Sample{{Labels: seriesLabels(n), TsMs: tsMs, Value: 1}}))
		require.NoError(t, err)
	}
	remove := func(n int) {
		_, err := b.DeleteSeries(t.Context(), deletion.Request{
			Selectors: [][]*labels.Matcher{{labels.MustNewMatcher(labels.MatchEqual, "n", fmt.Sprint(n))}},
			FromMs:    startMs, ToMs: startMs + 999,
		})
		require.NoError(t, err)
	}
	for n := range 3 {
		write(n, startMs)
		write(n, startMs+1000)
	}
	w.clock.Advance(time.Hour + delay)
	require.NoError(t, a.Pack(t.Context()))
	remove(0)
	remove(1)
	for round := range 5 {
		w.clock.Advance(2*delay/3 + time.Second)
		remove(0)           // nothing new
		write(2, startMs+1) // late
		remove(2)           // which takes it
		require.NoError(t, a.Pack(t.Context()))
		report, err := a.CleanTombstones(t.Context())
		require.NoError(t, err)
		switch round {
		case 0:
			require.Zero(t, report.Tombstones)
		case 1:
			require.Equal(t, 2, report.Tombstones, "the first of both series, although later ones of the hour are young")
			require.EqualValues(t, 2, report.RowsRewritten)
		default:
			require.Positive(t, report.Tombstones, "repetitions of the first")
		}
		require.Equal(t, 4+max(0, round-1), report.Waiting, "the young deletions, and the ones that the row waits for")
	}
	w.clock.Advance(delay + time.Second)
	report, err := b.CleanTombstones(t.Context())
	require.NoError(t, err)
	require.Zero(t, report.Waiting)
}
