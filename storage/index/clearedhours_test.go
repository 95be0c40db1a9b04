package index

import (
	"context"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/stretchr/testify/require"

	"halite/keyschema"
	"halite/storage/index/memory"
	"halite/storage/index/presence"
	"halite/storage/storagetest"
)

// TestClearedBeforeItWasWritten: if hours are touched and cleared before the journal has them, the journal stays readable. The
// day has no rows to rebuild it from.
func TestClearedBeforeItWasWritten(t *testing.T) {
	ctx, now := context.Background(), func() time.Time { return time.UnixMilli(baseDay * 24 * keyschema.HourMs) }
	store := storagetest.NewModel(now)
	schema, err := keyschema.NewSchema(nil)
	require.NoError(t, err)
	opts := Options{Store: store, Schema: schema, Now: now}
	x, err := Open(ctx, opts)
	require.NoError(t, err)
	var refs []memory.Ref
	for _, v := range []string{"a", "b"} {
		ref, _, err := x.Add(labels.FromStrings("__name__", "m", "x", v))
		require.NoError(t, err)
		x.MarkActive(ref, baseDay*24+1)
		refs = append(refs, ref)
	}
	drop := x.StartDrop()
	drop.Clear(refs[:1], baseDay*24, baseDay*24+5)
	drop.Close()
	require.NoError(t, x.Persist(ctx))
	x.MarkActive(refs[0], baseDay*24+3)
	require.NoError(t, x.Persist(ctx))

	x, err = Open(ctx, opts)
	require.NoError(t, err)
	found, err := x.Select(ctx, nil, 0, 1<<50)
	require.NoError(t, err)
	require.Len(t, found, 2)
	require.Equal(t, []presence.Span{{First: baseDay*24 + 3, Last: baseDay*24 + 3}}, found[0].Hours)
	require.Equal(t, []presence.Span{{First: baseDay*24 + 1, Last: baseDay*24 + 1}}, found[1].Hours)
}
