package storage

import (
	"testing"

	"github.com/stretchr/testify/require"

	"halite/keyschema"
)

// TestSampleFamilies checks that every kind of sample has its own family in the data table.
func TestSampleFamilies(t *testing.T) {
	var families, declared []string
	for kind := range keyschema.SampleKind(keyschema.SampleKinds) {
		families = append(families, SampleFamily(kind))
	}
	for _, f := range DataSchema(0).Families {
		declared = append(declared, f.Name)
	}
	require.Equal(t, []string{"s", "h", "x", "t"}, families)
	require.ElementsMatch(t, families, declared)
}
