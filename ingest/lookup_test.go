package ingest

import (
	"context"
	"math/rand/v2"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/prompb"
	"github.com/stretchr/testify/require"

	"halite/ingest/ingesttest"
)

// TestShuffledSendersAreUnderstood sends series in another order each time. The requests also have new series, several samples
// of a series, samples out of bounds, and metadata. A second ingester gets the same series one by one. Both hold the same
// samples.
func TestShuffledSendersAreUnderstood(t *testing.T) {
	ctx := context.Background()
	rng := rand.New(rand.NewPCG(1, 40))
	together := openRig(t, vfs.NewMem(), ingesttest.NewClock(), nil)
	apart := openRig(t, vfs.NewMem(), ingesttest.NewClock(), nil)
	known, lost := 400, 0
	for round := range 40 {
		req := &prompb.WriteRequest{}
		for n := range known {
			ts := numbered(n, sample(startMs+int64(round), float64(round*n+1)))
			switch rng.IntN(2 + 100*(round%3)) {
			case 0:
				ts.Samples = append(ts.Samples, sample(startMs+1000+int64(round), 7))
			case 1:
				ts.Samples[0].Timestamp = startMs * 2
			}
			req.Timeseries = append(req.Timeseries, ts)
		}
		known += rng.IntN(2) * rng.IntN(5)
		rng.Shuffle(len(req.Timeseries), func(i, j int) {
			req.Timeseries[i], req.Timeseries[j] = req.Timeseries[j], req.Timeseries[i]
		})
		// A series that occurs twice in a request: the later sample wins.
		again := req.Timeseries[0]
		again.Samples = []prompb.Sample{sample(startMs+int64(round), -1)}
		req.Timeseries = append(req.Timeseries, again)
		req.Metadata = []prompb.MetricMetadata{{Type: prompb.MetricMetadata_GAUGE, MetricFamilyName: "m1", Help: "h"}}
		got, err := together.Write(ctx, Input{Body: body(t, req)})
		require.NoError(t, err)
		var want Result
		for _, ts := range req.Timeseries {
			result, err := apart.Write(ctx, Input{Body: body(t, &prompb.WriteRequest{Timeseries: []prompb.TimeSeries{ts}})})
			require.NoError(t, err)
			want.Accepted, want.Rejected = want.Accepted+result.Accepted, want.Rejected+result.Rejected
		}
		require.Equal(t, want.Accepted, got.Accepted)
		require.Equal(t, want.Rejected, got.Rejected)
		require.Equal(t, apart.rejected(ReasonTooFarAhead), together.rejected(ReasonTooFarAhead))
		probe, err := together.Begin(ctx, SamplesInput(nil))
		require.NoError(t, err)
		probe.chooseRegistry()
		for range 3 {
			for _, n := range rng.Perm(len(req.Timeseries))[:20] {
				builder := labels.NewScratchBuilder(4)
				fields := appendFields(t, req.Timeseries[n].ToLabels(&builder, nil))
				probe.cursor.Find(together.registry.Hash(fields))
			}
		}
		if probe.cursor.Lost() {
			lost++
		}
		probe.Release()
	}
	require.Greater(t, lost, 20, "the order must be unknown for the test to mean something")
	for n := range known {
		builder := labels.NewScratchBuilder(4)
		ts := numbered(n)
		ls := ts.ToLabels(&builder, nil)
		want, err := apart.read(ls)
		require.NoError(t, err)
		together.requireSeries(ls, want)
	}
	apart.close()
	together.close()
}

func appendFields(t *testing.T, ls labels.Labels) []byte {
	t.Helper()
	var fields []byte
	ls.Range(func(l labels.Label) {
		pair, err := (&prompb.Label{Name: l.Name, Value: l.Value}).Marshal()
		require.NoError(t, err)
		fields = append(append(fields, 1<<3|2, byte(len(pair))), pair...)
	})
	return fields
}
