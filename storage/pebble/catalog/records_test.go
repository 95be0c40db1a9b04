package catalog

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzRecords parses copies of table records. Parsed records survive a round trip.
func FuzzRecords(f *testing.F) {
	records, err := appendRecords(nil, []Table{{ID: 1, Name: "data", HourKeys: true}})
	require.NoError(f, err)
	f.Add(records)
	f.Fuzz(func(t *testing.T, src []byte) {
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
