package storagetest

import (
	"testing"
	"time"

	"halite/storage"
)

// Run checks the engine that open returns. The suite closes the stores.
func Run(t *testing.T, open func(t testing.TB, now func() time.Time) storage.Store, caps Caps) {
	s := &suite{open: open, caps: caps}
	for _, theme := range []struct {
		name string
		run  func(*testing.T, *suite)
	}{
		{"tables", testTables}, {"rows", testRows}, {"families", testFamilies}, {"versions", testVersions},
		{"aggregates", testAggregates}, {"gc", testGC}, {"conditional", testConditional}, {"scans", testScans},
		{"limits", testLimits}, {"load", testLoad}, {"drop", testDrop}, {"spans", testSpans}, {"tablets", testTablets},
		{"durability", testDurability}, {"concurrency", testConcurrency}, {"metamorphic", testMetamorphic},
	} {
		t.Run(theme.name, func(t *testing.T) { theme.run(t, s) })
	}
}
