package batchtest

import (
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/prompb"
	"github.com/stretchr/testify/require"

	"halite/ingest/batch"
	"halite/ingest/remotewrite"
)

// New returns an empty batch with room for the samples of a test.
func New() *batch.Batch {
	b := &batch.Batch{}
	b.Reset(batch.Bounds{ItemsMax: 1 << 20})
	return b
}

// Labels returns the labels of the current series, as the writer gets them.
func Labels(t testing.TB, b *batch.Batch) labels.Labels {
	t.Helper()
	fields, err := b.AppendFields(nil, b.Series().Key)
	require.NoError(t, err)
	pairs, err := remotewrite.AppendLabels(nil, fields)
	require.NoError(t, err)
	builder := labels.NewScratchBuilder(len(pairs))
	return (&prompb.TimeSeries{Labels: pairs}).ToLabels(&builder, nil)
}
