package tools

import (
	"testing"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/stretchr/testify/require"

	"halite/keyschema"
	"halite/keyschema/chunk"
	"halite/keyschema/exemplar"
	"halite/keyschema/histchunk"
	"halite/storage"
)

// TestDescribeSamples shows a cell of each family, and finds its damage.
func TestDescribeSamples(t *testing.T) {
	const hour = int64(480_000)
	ts := keyschema.HourStartMs(hour) + 60_000
	schema, err := keyschema.NewSchema(nil)
	require.NoError(t, err)
	tags := []keyschema.Tag{{Name: "job", Value: "a"}}
	key := keyschema.AppendHour(schema.RuleAt("m", hour).AppendPrefix(nil, "m", tags), hour)
	h := &histogram.Histogram{
		Count: 3, Sum: 4.5, PositiveSpans: []histogram.Span{{Length: 1}}, PositiveBuckets: []int64{3},
	}
	histograms, err := new(histchunk.Encoder).Append(nil, ts-60_000, []histchunk.Sample{{TsMs: ts, H: h}})
	require.NoError(t, err)
	exemplars, err := new(exemplar.Encoder).Append(nil, ts-60_000, []exemplar.Exemplar{
		{TsMs: ts, Value: 1.5, Labels: labels.FromStrings("trace_id", "x")},
	})
	require.NoError(t, err)
	starts, err := chunk.Append(nil, ts-60_000, []int64{ts}, []float64{float64(ts - 1000)})
	require.NoError(t, err)
	for family, c := range map[string]struct {
		value []byte
		says  []string
	}{
		storage.FamilySamples:    {starts, []string{"chunk 7: 1 samples, ", "1.728000059e+12"}},
		storage.FamilyStartTimes: {starts, []string{"chunk 7: 1 start timestamps, ", "started at 1728000059000 ms"}},
		storage.FamilyHistograms: {histograms, []string{"chunk 7: 1 histograms, ", h.String()}},
		storage.FamilyExemplars:  {exemplars, []string{"chunk 7: 1 exemplars, ", `1.5 {trace_id="x"}`}},
	} {
		cell := storage.Cell{Family: family, Qualifier: keyschema.AppendChunkQualifier(nil, 7), Value: c.value}
		text, err := describeSamples(key, cell, true)
		require.NoError(t, err, family)
		for _, part := range c.says {
			require.Contains(t, text, part)
		}
		cell.Value = cell.Value[:len(cell.Value)-1]
		_, err = describeSamples(key, cell, false)
		require.Error(t, err, family)
		cell.Qualifier, cell.Value = keyschema.AppendSampleQualifier(nil, 5), []byte{1}
		_, err = describeSamples(key, cell, false)
		require.Error(t, err, family)
	}
}
