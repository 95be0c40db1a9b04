package query_test

import (
	"path"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"
	promstorage "github.com/prometheus/prometheus/storage"
	"github.com/stretchr/testify/require"

	"halite/query"
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
	if testing.Short() {
		t.Skip("single-threaded: the run without -short covers it")
	}
	for _, mode := range flushModes {
		t.Run(string(mode), func(t *testing.T) {
			engine := query.NewTallied(filesEngine())
			t.Cleanup(func() { require.NoError(t, engine.Close()) })
			diverted := map[string]int{}
			var files []string
			promqltest.RunBuiltinTestsWithStorage(t, engine, func(tb testing.TB) promstorage.Storage {
				file := path.Base(tb.Name())
				if !slices.Contains(files, file) {
					files = append(files, file)
				}
				return &adapter{stack: newStack(tb), mode: mode, diverted: func() { diverted[file]++ }, columns: true}
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
			t.Logf("%d files, %d of them on our storage alone; %d queries columnar, %d mixed, %d given up, %d by the engine",
				len(files), alone, engine.Whole.Load(), engine.Mixed.Load(), engine.Undecided.Load(), engine.Tally.Engine.Load())
			require.Greater(t, engine.Whole.Load(), int64(8000), "the files test our operators")
		})
	}
}

// filesEngine has what the test files need: names dropped at the end, and all that is experimental.
func filesEngine() promql.EngineOpts {
	return promql.EngineOpts{
		MaxSamples: promqltest.DefaultMaxSamplesPerQuery, Timeout: 100 * time.Second, LookbackDelta: 5 * time.Minute,
		NoStepSubqueryIntervalFn: func(int64) int64 { return time.Minute.Milliseconds() },
		EnableAtModifier:         true, EnableNegativeOffset: true, EnableDelayedNameRemoval: true, UseStartTimestamps: true,
		Parser: parser.NewParser(promqltest.TestParserOpts),
	}
}

// TestPrometheusFilesWithoutOperators runs the files on the engine alone, over our storage.
func TestPrometheusFilesWithoutOperators(t *testing.T) {
	if testing.Short() {
		t.Skip("single-threaded: the run without -short covers it")
	}
	engine := promqltest.NewTestEngine(t, false, 5*time.Minute, promqltest.DefaultMaxSamplesPerQuery)
	promqltest.RunBuiltinTestsWithStorage(t, engine, func(tb testing.TB) promstorage.Storage {
		return &adapter{stack: newStack(tb), mode: inBoth, diverted: func() {}}
	})
}
