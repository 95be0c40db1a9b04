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

// TestPrometheusFiles runs all of Prometheus's own PromQL tests over the whole stack.
func TestPrometheusFiles(t *testing.T) {
	if testing.Short() {
		t.Skip("single-threaded: the run without -short covers it")
	}
	for _, mode := range flushModes {
		t.Run(string(mode), func(t *testing.T) {
			engine := query.NewTallied(filesEngine())
			t.Cleanup(func() { require.NoError(t, engine.Close()) })
			var files []string
			promqltest.RunBuiltinTestsWithStorage(t, engine, func(tb testing.TB) promstorage.Storage {
				file := path.Base(tb.Name())
				if !slices.Contains(files, file) {
					files = append(files, file)
				}
				return &adapter{stack: newStack(tb), mode: mode, columns: true}
			})
			require.Len(t, files, 21)
			t.Logf("%d files; %d queries columnar, %d mixed, %d given up, %d by the engine",
				len(files), engine.Whole.Load(), engine.Mixed.Load(), engine.Undecided.Load(), engine.Tally.Engine.Load())
			require.Greater(t, engine.Whole.Load(), int64(8000), "the files test our operators")
		})
	}
}

// filesEngine returns the options of the test files: delayed removal of names and all experimental features.
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
		return &adapter{stack: newStack(tb), mode: inBoth}
	})
}
