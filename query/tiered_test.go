package query_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	promengine "github.com/prometheus/prometheus/promql"
	"github.com/stretchr/testify/require"

	"halite/ingest"
	"halite/keyschema"
	"halite/query"
	"halite/storage/storagetest/seeds"
)

// tieredSeeds is the number of random databases; HALITE_SEEDS replaces it. Each answers tieredWindows queries.
const (
	tieredSeeds   = 4
	tieredWindows = 2600
)

// tieredFrom is 20 January 2024, so that the data extends over the ends of months.
const tieredFrom = 19_742 * dayMs

// tieredWorld has random series of several months, and changes that make states stale.
type tieredWorld struct {
	*rand.Rand
	*stack
	from, to int64
	names    []string
}

func newTieredWorld(t *testing.T, seed uint64) *tieredWorld {
	rng := rand.New(rand.NewPCG(seed, 7))
	days := int64(3 + rng.IntN(60))
	clock := new(atomic.Int64)
	clock.Store(tieredFrom + days*dayMs + rng.Int64N(dayMs))
	opts := stackOptions{tiers: true, clock: clock}
	if rng.IntN(3) == 0 { // row keys change in the middle of a day
		opts.rules = []keyschema.Rule{{
			Pattern: "m*", FromHour: tieredFrom/hourMs + rng.Int64N(days*24), Salts: 5, Promoted: []string{"job"},
		}}
	}
	w := &tieredWorld{Rand: rng, stack: openStackWith(t, vfs.NewMem(), opts), from: tieredFrom, to: clock.Load()}
	for i := range 6 + rng.IntN(6) {
		w.names = append(w.names, fmt.Sprintf("m%d", i))
	}
	for _, name := range w.names {
		w.write(w.history(name))
		if w.IntN(4) == 0 {
			w.flush()
		}
	}
	w.flush()
	w.rollUp()
	w.disturb()
	return w
}

// history returns the samples of a random series.
func (w *tieredWorld) history(name string) []ingest.Sample {
	ls := labels.FromStrings("__name__", name, "job", fmt.Sprint(w.IntN(3)))
	interval := []int64{60_000, 300_000, 600_000, 3_600_000, 4_000_123}[w.IntN(5)]
	if w.to-w.from > 20*dayMs {
		interval = max(interval, 300_000)
	}
	offset := []int64{0, 1, w.Int64N(interval), 3_599_999 % interval}[w.IntN(4)]
	next := w.values()
	var out []ingest.Sample
	for ts := w.from + offset; ts < w.to; ts += interval {
		switch w.IntN(400) {
		case 0:
			ts += w.Int64N(40*hourMs) / interval * interval // a gap
		case 1:
			out = append(out, ingest.Sample{Labels: ls, TsMs: ts, Value: math.Float64frombits(value.StaleNaN)})
			continue
		}
		at := ts
		if w.IntN(20) == 0 {
			at += w.Int64N(interval)
		}
		out = append(out, ingest.Sample{Labels: ls, TsMs: min(at, w.to), Value: next()})
	}
	return out
}

// values returns a generator of values.
func (w *tieredWorld) values() func() float64 {
	at, kind := 0.0, w.IntN(7)
	return func() float64 {
		switch kind {
		case 0: // a counter
			if at += float64(w.IntN(50)); w.IntN(200) == 0 {
				at = float64(w.IntN(5))
			}
		case 1: // a counter of fractions with many resets
			if at += w.Float64() * 1e6; w.IntN(5) == 0 {
				at = w.Float64()
			}
		case 2:
			return math.Round(w.NormFloat64()*1e4) / 100
		case 3:
			return w.NormFloat64() * math.Pow(10, float64(w.IntN(12)))
		case 4:
			if w.IntN(300) == 0 {
				at++
			}
		case 5:
			special := []float64{math.NaN(), math.Inf(1), math.Inf(-1), math.Copysign(0, -1), 0, 1e308, -1e308}
			if w.IntN(50) == 0 {
				return special[w.IntN(len(special))]
			}
			return float64(w.IntN(3))
		default:
			return 3e9 + w.Float64()
		}
		return at
	}
}

// disturb writes late samples and other values for the same times, and deletes samples. It recomputes some states, flushes
// some rows, and leaves the others in the head.
func (w *tieredWorld) disturb() {
	for range w.IntN(4) {
		var late []ingest.Sample
		for range 1 + w.IntN(30) {
			name := w.names[w.IntN(len(w.names))]
			ts := w.from + w.Int64N(w.to-w.from)
			if w.IntN(2) == 0 {
				ts -= ts % 60_000
			}
			late = append(late, ingest.Sample{
				Labels: labels.FromStrings("__name__", name, "job", fmt.Sprint(w.IntN(3))), TsMs: ts, Value: float64(w.IntN(100)),
			})
		}
		w.write(late)
		if w.IntN(2) == 0 {
			w.flush()
		}
		if w.IntN(2) == 0 {
			from := w.from + w.Int64N(w.to-w.from)
			name := w.names[w.IntN(len(w.names))]
			w.delete(from, from+w.Int64N(3*dayMs), labels.MustNewMatcher(labels.MatchEqual, "__name__", name))
		}
		if w.IntN(6) == 0 {
			_, err := w.ingester.CleanTombstones(context.Background())
			require.NoError(w.tb, err)
		}
		if w.IntN(3) == 0 {
			w.rollUp()
		}
	}
}

// tieredFunctions says for each function whether states give the same bits as samples.
var tieredFunctions = map[string]bool{
	"count_over_time": true, "present_over_time": true, "absent_over_time": true, "min_over_time": true,
	"max_over_time": true, "last_over_time": true, "first_over_time": true, "resets": true, "changes": true, "delta": true,
	"sum_over_time": false, "avg_over_time": false, "stddev_over_time": false, "stdvar_over_time": false, "rate": false,
	"increase": false,
}

// question returns a random expression with random windows.
func (w *tieredWorld) question(functions []string) (text string, exact bool, start, end, step int64) {
	name := functions[w.IntN(len(functions))]
	units := []int64{hourMs, dayMs, 60_000, 1}
	unit := units[w.IntN(len(units))]
	span := w.to - w.from
	length := 1 + w.Int64N(span*5/4)
	if w.IntN(2) == 0 {
		length = 1 + w.Int64N(3*dayMs)
	}
	length = max(unit, length-length%unit)
	steps := []int64{1, 1, 2, 7, 40}[w.IntN(5)]
	step = max(1, []int64{length, length / 3, hourMs, dayMs, span / steps, 2*length + 1}[w.IntN(6)])
	start = w.from + w.Int64N(span+dayMs)
	start -= start % unit
	end = start + (steps-1)*step
	selector := w.names[w.IntN(len(w.names))]
	if w.IntN(4) == 0 {
		selector = fmt.Sprintf(`m1{job="%d"}`, w.IntN(4))
	}
	text = fmt.Sprintf("%s(%s[%dms])", name, selector, length)
	if w.IntN(5) == 0 {
		text = fmt.Sprintf("%s(%s[%dms] offset %dms)", name, selector, length, w.Int64N(2*hourMs)-hourMs)
	}
	return text, tieredFunctions[name], start, end, step
}

// TestTiersAreExact: results from states equal results from samples.
func TestTiersAreExact(t *testing.T) {
	first, seeds := seeds.Number(t, "HALITE_SEED", defaultSeed), seeds.Number(t, "HALITE_SEEDS", tieredSeeds)
	var functions []string
	for name := range tieredFunctions {
		functions = append(functions, name)
	}
	windows, fromStates, fallbacks := 0, int64(0), int64(0)
	for seed := first; seed < first+seeds; seed++ {
		w := newTieredWorld(t, seed)
		options := w.options
		if w.IntN(2) == 0 {
			options.Watch = w.watch // turns the row cache on
		}
		q, err := newSource(options)
		require.NoError(t, err)
		e := newQueryEngine(t, q, query.On)
		for steps := 0; steps < int(unlessShort(tieredWindows, tieredWindows/8)); {
			text, exact, start, end, step := w.question(functions)
			way := []query.Switch{query.On, query.On, query.Default}[w.IntN(3)]
			stepTime := time.Duration(step) * time.Millisecond
			want, err := runQuery(e, text, start, end, stepTime, query.Params{Tiers: query.Off})
			require.NoError(t, err, "HALITE_SEED=%d %s", seed, text)
			got, err := runQuery(e, text, start, end, stepTime, query.Params{Tiers: way, Explain: true})
			require.NoError(t, err, "HALITE_SEED=%d %s", seed, text)
			require.NoError(t, tieredDifference(want.Value.(promengine.Matrix), got.Value.(promengine.Matrix), exact),
				"HALITE_SEED=%d %s from %d to %d by %s: %s", seed, text, start, end, stepTime, got.Explain)
			for _, u := range got.Explain.Tiers {
				fromStates += u.Days + u.Hours
				fallbacks += u.Fallbacks
			}
			steps += int((end-start)/step) + 1
			windows += int((end-start)/step) + 1
			want.Close()
			got.Close()
		}
		require.NoError(t, w.Close())
	}
	t.Logf("%d windows, %d states, %d series from rows alone", windows, fromStates, fallbacks)
	require.Greater(t, fromStates, int64(windows))
}

// tieredDifference compares results bit for bit if exact is set, otherwise to 1e-12.
func tieredDifference(want, got promengine.Matrix, exact bool) error {
	if len(want) != len(got) {
		return fmt.Errorf("%d series, want %d", len(got), len(want))
	}
	for i, s := range want {
		if !labels.Equal(s.Metric, got[i].Metric) || len(s.Floats) != len(got[i].Floats) {
			return fmt.Errorf("%v, want %v", got[i], s)
		}
		for j, p := range s.Floats {
			g := got[i].Floats[j]
			if p.T != g.T || math.Float64bits(p.F) != math.Float64bits(g.F) && (exact || !near(p.F, g.F)) {
				return fmt.Errorf("%s at %d: %v, want %v", s.Metric, p.T, g.F, p.F)
			}
		}
	}
	return nil
}
