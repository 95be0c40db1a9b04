package pebble

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzSmallFiles parses the small files beside the tree. What parses is written again as it was read.
func FuzzSmallFiles(f *testing.F) {
	records, err := appendRecords(nil, []tableRecord{{ID: 1, Name: "data", HourKeys: true}})
	require.NoError(f, err)
	f.Add(records)
	f.Add(manifestNote{name: "MANIFEST-000001", sizeBytes: 4711}.append(nil))
	f.Fuzz(func(t *testing.T, src []byte) {
		if n, err := parseNote(src); err == nil {
			require.Equal(t, src, n.append(nil))
		}
		recs, err := parseRecords(src)
		if err != nil {
			return
		}
		again, err := appendRecords(nil, recs)
		require.NoError(t, err)
		recs2, err := parseRecords(again)
		require.NoError(t, err)
		require.Len(t, recs2, len(recs))
	})
}
