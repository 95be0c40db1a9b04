package treefs

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzNote parses notes. Each note has only one encoding.
func FuzzNote(f *testing.F) {
	f.Add(SyncedNote{Name: "MANIFEST-000001", SizeBytes: 4711}.append(nil))
	f.Fuzz(func(t *testing.T, src []byte) {
		if n, err := parseNote(src); err == nil {
			require.Equal(t, src, n.append(nil))
		}
	})
}
