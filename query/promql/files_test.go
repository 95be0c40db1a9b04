package promql_test

import (
	"path"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/prometheus/promql/promqltest"
	promstorage "github.com/prometheus/prometheus/storage"
	"github.com/stretchr/testify/require"
)

// openFiles are Prometheus' test files that load samples which Halite does not store yet, and which. In them those
// samples are kept by Prometheus' storage beside ours, while all plain float samples go through ours; all other files
// run on our storage alone.
var openFiles = map[string]string{
	"aggregators.test":       "native histograms",
	"extended_vectors.test":  "native histograms",
	"functions.test":         "native histograms",
	"histograms.test":        "native histograms",
	"info.test":              "native histograms",
	"limit.test":             "native histograms",
	"native_histograms.test": "native histograms",
	"operators.test":         "native histograms",
	"range_queries.test":     "native histograms",
	"start_timestamps.test":  "start timestamps",
	"subquery.test":          "native histograms",
}

// TestPrometheusFiles runs all of Prometheus' own PromQL tests over the whole stack.
func TestPrometheusFiles(t *testing.T) {
	for _, mode := range flushModes {
		t.Run(string(mode), func(t *testing.T) {
			if testing.Short() && mode != inBoth {
				t.Skip("one mode is enough for a short run")
			}
			engine := promqltest.NewTestEngine(t, false, 5*time.Minute, promqltest.DefaultMaxSamplesPerQuery)
			diverted := map[string]int{}
			var files []string
			promqltest.RunBuiltinTestsWithStorage(t, engine, func(tb testing.TB) promstorage.Storage {
				file := path.Base(tb.Name())
				if !slices.Contains(files, file) {
					files = append(files, file)
				}
				return &adapter{stack: newStack(tb), mode: mode, diverted: func() { diverted[file]++ }}
			})
			alone := 0
			for _, file := range files {
				if reason, open := openFiles[file]; open {
					require.NotZero(t, diverted[file], "%s does not need %s: it is not open any more", file, reason)
					continue
				}
				require.Zero(t, diverted[file], "%s needs what is not stored", file)
				alone++
			}
			require.Len(t, files, alone+len(openFiles), "every open file exists")
			t.Logf("%d files, %d of them on our storage alone", len(files), alone)
		})
	}
}
