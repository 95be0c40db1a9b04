package chunk

import (
	"testing"

	"halite/keyschema/chunktest"
)

// fleetSizes are the rows that TestFleetSizes checks: the first hour of a series in two halves, whole hours, and
// hours of a slow scrape.
var fleetSizes = []struct {
	n, rows    int
	intervalMs int64
	over       float64 // bytes of a chunk above the entropy of its values
}{{120, 2, 15_000, 15}, {240, 3, 15_000, 16}, {60, 12, 60_000, 11}}

// TestFleetSizes checks the size of chunks against the entropy of their values: on average a chunk exceeds it by little
// more than its first value and its header. With -v it prints all sizes.
func TestFleetSizes(t *testing.T) {
	for _, size := range fleetSizes {
		total, bounds, percent := 0.0, 0.0, 0
		for i := range chunktest.Fleet {
			c := &chunktest.Fleet[i]
			hours, bound := chunktest.FleetHours(1, c, 5, size.rows, size.n, size.intervalMs)
			bytes, samples := 0, 0
			for _, h := range hours {
				bytes += len(checkRoundTrip(t, 0, h.TsMs, h.Values))
				samples += len(h.Values)
			}
			sample := float64(bytes) / float64(samples)
			t.Logf("%3d samples %-16s %2d %% %.3f B/sample, entropy %.3f, %.1f B/chunk above it", size.n, c.Name,
				c.Series, sample, bound, (sample-bound)*float64(size.n))
			total += sample * float64(c.Series)
			bounds += bound * float64(c.Series)
			percent += c.Series
		}
		if percent != 100 {
			t.Errorf("the fleet has %d series", percent)
		}
		t.Logf("%3d samples in all %.3f B/sample, entropy %.3f", size.n, total/100, bounds/100)
		if over := (total - bounds) / 100 * float64(size.n); over > size.over {
			t.Errorf("chunks of %d samples take %.1f bytes more than the entropy of their values", size.n, over)
		}
	}
}
