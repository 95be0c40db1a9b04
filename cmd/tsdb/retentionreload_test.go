package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/stretchr/testify/require"

	"halite/ingest"
	"halite/keyschema"
	"halite/query"
)

const (
	reloadedRules = `retention_rules: [{pattern: hot_*, raw: %s}]`
	reloadedLong  = 12 * 24 * time.Hour
	reloadedShort = 2 * 24 * time.Hour
)

// reloaded is a database whose retention changes under load.
type reloaded struct {
	*growing
	rng *rand.Rand
	// must has the samples that have been within the retention ever since they were acknowledged, by time.
	must map[int64]float64
}

// send writes samples of any age. The server must refuse exactly those beyond age; 0 stands for an age that changes meanwhile.
func (r *reloaded) send(age time.Duration) {
	cutoffMs, youngMs := r.nowMs.Load()-age.Milliseconds(), r.nowMs.Load()-reloadedShort.Milliseconds()
	var batch []ingest.Sample
	refused, acknowledged := 0, map[int64]float64{}
	for range 50 {
		s := ingest.Sample{Labels: r.labels[0], TsMs: r.nowMs.Load() - r.rng.Int64N((reloadedLong + 48*time.Hour).Milliseconds()),
			Value: r.rng.Float64()}
		if _, again := acknowledged[s.TsMs]; again {
			continue
		}
		batch = append(batch, s)
		switch {
		case s.TsMs < cutoffMs:
			refused++
		case age > 0 || s.TsMs >= youngMs:
			acknowledged[s.TsMs] = s.Value
		}
	}
	result, err := r.db.ingester.Write(context.Background(), ingest.SamplesInput(batch))
	require.NoError(r.t, err)
	if age > 0 {
		require.Equal(r.t, refused, result.Reasons[ingest.ReasonBeforeRetention])
		require.Equal(r.t, refused, result.Rejected, "%+v", result)
	}
	for tsMs, value := range acknowledged {
		r.must[tsMs] = value
	}
}

// reload applies an age while samples arrive.
func (r *reloaded) reload(text string, age time.Duration) {
	r.putRules(reloadedRules, text)
	done := make(chan error)
	go func() { done <- r.rules.Reload(context.Background()) }()
	for reloading := true; reloading; {
		select {
		case err := <-done:
			require.NoError(r.t, err)
			reloading = false
		default:
			r.send(0)
		}
	}
	for tsMs := range r.must {
		if tsMs < r.nowMs.Load()-age.Milliseconds() {
			delete(r.must, tsMs)
		}
	}
}

// compare demands the samples that must be there, and none older than age.
func (r *reloaded) compare(age time.Duration) {
	r.t.Helper()
	result, err := r.runQuery("hot_total[30d]")
	require.NoError(r.t, err)
	defer result.Close()
	found := map[int64]float64{}
	for _, s := range result.Value.(promql.Matrix) {
		for _, p := range s.Floats {
			found[p.T] = p.F
			require.GreaterOrEqual(r.t, p.T, r.nowMs.Load()-age.Milliseconds())
		}
	}
	for tsMs, value := range r.must {
		require.Equal(r.t, value, found[tsMs], "at %d", tsMs)
	}
}

// TestRetentionChangesUnderLoad shortens and lengthens a retention by reloads, during writes, flushes, sweeps and queries. Each
// time the new retention holds at once, and nothing is lost that it keeps.
func TestRetentionChangesUnderLoad(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "halite.yml"), fmt.Appendf(nil, reloadedRules, "12d"), 0o600))
	r := &reloaded{growing: openGrowing(t, dir, time.Now()), rng: rand.New(rand.NewPCG(1, 2)), must: map[int64]float64{}}
	ending := make(chan struct{})
	var background sync.WaitGroup
	background.Go(func() { r.flushUntil(ending) })
	for _, work := range []func() error{
		func() error { _, err := r.db.sweeper.Sweep(context.Background()); return err },
		func() error { return r.db.store.CollectGarbage(context.Background()) },
		func() error { return r.db.index.Maintain(context.Background()) },
		func() error { result, err := r.runQuery("count_over_time(hot_total[14d])"); result.Close(); return err },
	} {
		background.Go(func() {
			for {
				select {
				case <-ending:
					return
				case <-time.After(10 * time.Millisecond):
				}
				if err := work(); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for range 2 {
		for range 4 {
			r.send(reloadedLong)
		}
		r.compare(reloadedLong)
		r.reload("2d", reloadedShort)
		r.compare(reloadedShort)
		for range 4 {
			r.send(reloadedShort)
		}
		r.compare(reloadedShort)
		r.reload("12d", reloadedLong)
	}
	for range 4 {
		r.send(reloadedLong)
	}
	r.compare(reloadedLong)
	close(ending)
	background.Wait()
	require.NoError(t, r.db.close(t.Context()))
	r.open()
	r.compare(reloadedLong)
	require.NoError(t, r.db.close(t.Context()))
}

// TestFaultyRetentionIsRefused reloads files with faults: the retention stays. Then it reloads a valid file: the server
// does not use results that it cached under the previous retention.
func TestFaultyRetentionIsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "halite.yml"), fmt.Appendf(nil, reloadedRules, "12d"), 0o600))
	g := openGrowing(t, dir, time.Now())
	defer func() { require.NoError(t, g.db.close(context.Background())) }()
	old := g.nowMs.Load() - (4 * 24 * time.Hour).Milliseconds()
	_, err := g.db.ingester.Write(t.Context(), ingest.SamplesInput([]ingest.Sample{
		{Labels: labels.FromStrings("__name__", "hot_total"), TsMs: old, Value: 3},
	}))
	require.NoError(t, err)
	steps := func() int {
		request := query.RangeRequest{Query: "hot_total", Start: time.UnixMilli(old - keyschema.HourMs),
			End:  time.UnixMilli(old + keyschema.HourMs),
			Step: time.Minute}
		result, err := g.db.engine.Range(t.Context(), request)
		require.NoError(t, err)
		defer result.Close()
		found := 0
		for _, s := range result.Value.(promql.Matrix) {
			found += len(s.Floats)
		}
		return found
	}
	for range 3 {
		require.Equal(t, 5, steps())
	}
	for text, want := range map[string]string{
		`retention_rules: [{pattern: hot_*, raw: 2h}]`:                         "shorter than 1d",
		`retention_rules: [{pattern: hot_*, raw: 9d, hours: 3d}]`:              "[0].hours: retention.hours is 3d, shorter",
		`retention_rules: [{pattern: hot_*, raw: 2d}, {pattern: hot_*, x: 1}]`: "unknown",
	} {
		g.putRules("%s", text)
		require.ErrorContains(t, g.rules.Reload(t.Context()), want)
		require.Equal(t, keyschema.Age(reloadedLong), g.db.retention.Load().ForMetric("hot_total")[keyschema.Raw])
		require.Equal(t, 5, steps())
	}
	g.putRules(reloadedRules, "2d")
	require.NoError(t, g.rules.Reload(t.Context()))
	require.Zero(t, steps())
	g.putRules(reloadedRules, "12d")
	require.NoError(t, g.rules.Reload(t.Context()))
	require.Equal(t, 5, steps(), "nothing has swept it")
}
