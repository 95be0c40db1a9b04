package query_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	promengine "github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/stretchr/testify/require"

	"halite/ingest"
	"halite/query"
	"halite/storage/aliases"
	"halite/storage/index/restricted"
	"halite/storage/principal"
	"halite/storage/storagetest/seeds"
)

// infoFrom is the time from which info_old has the name info.
const infoFrom = dataFrom + 3*hourMs

// testAliases returns aliases of the data of newDataset: a chain of metrics, a label, and values of one label and of all
// labels.
func testAliases() []aliases.Alias {
	return []aliases.Alias{
		{Kind: aliases.Metric, Old: "c_older_total", New: "c_old_total"},
		{Kind: aliases.Metric, Old: "c_old_total", New: "c_total"},
		{Kind: aliases.Metric, Old: "g_old", New: "g"},
		{Kind: aliases.Metric, Old: "info_old", New: "info", FromMs: infoFrom},
		{Kind: aliases.LabelName, Old: "machine", New: "inst"},
		{Kind: aliases.LabelValue, Old: "zero", New: "0"},
		{Kind: aliases.LabelValue, Label: "zone", Old: "aa", New: "a"},
	}
}

// oldNames returns a metric, label or value with its possible stored names.
func oldNames(label, name string) []string {
	switch {
	case label == "__name__" && name == "c_total":
		return []string{"c_total", "c_old_total", "c_older_total"}
	case label == "__name__" && (name == "g" || name == "info"):
		return []string{name, name + "_old"}
	case label != "__name__" && name == "0":
		return []string{"0", "zero"}
	case label == "zone" && name == "a":
		return []string{"a", "aa"}
	}
	return []string{name}
}

// storedAs returns labels and replaces some names by old ones.
func storedAs(rng *rand.Rand, ls labels.Labels) labels.Labels {
	b := labels.NewBuilder(labels.EmptyLabels())
	ls.Range(func(l labels.Label) {
		names, label := oldNames(l.Name, l.Value), l.Name
		if label == "inst" && rng.IntN(2) == 0 {
			label = "machine"
		}
		b.Set(label, names[rng.IntN(len(names))])
	})
	return b.Labels()
}

// renamedData divides the samples of a dataset among series with old and new names. model has only new names.
func renamedData(rng *rand.Rand, d dataset) (stored, model dataset) {
	parts, whole := map[string]*dataSeries{}, map[string]*dataSeries{}
	add := func(to map[string]*dataSeries, ls labels.Labels, ts int64, v float64) {
		s := to[ls.String()]
		if s == nil {
			s = &dataSeries{labels: ls}
			to[ls.String()] = s
		}
		s.tsMs, s.values = append(s.tsMs, ts), append(s.values, v)
	}
	for _, s := range d {
		variants := []labels.Labels{s.labels, storedAs(rng, s.labels), storedAs(rng, s.labels)}
		current, hour := variants[0], int64(0)
		for i, ts := range s.tsMs {
			if ts/hourMs != hour {
				current, hour = variants[rng.IntN(len(variants))], ts/hourMs
			}
			as := current
			if rng.IntN(20) == 0 {
				as = variants[rng.IntN(len(variants))]
			}
			add(parts, as, ts, s.values[i])
			shown := s.labels
			if as.Get("__name__") == "info_old" && ts < infoFrom {
				shown = labels.NewBuilder(shown).Set("__name__", "info_old").Labels()
			}
			add(whole, shown, ts, s.values[i])
			if old := variants[1]; labels.Equal(as, s.labels) && !labels.Equal(old, as) && ts >= infoFrom && rng.IntN(30) == 0 {
				add(parts, old, ts, s.values[i]+1) // the sample of the new name wins
			}
		}
	}
	list := func(of map[string]*dataSeries) (out dataset) {
		for _, s := range of {
			out = append(out, *s)
		}
		slices.SortFunc(out, func(a, b dataSeries) int { return labels.Compare(a.labels, b.labels) })
		return out
	}
	return list(parts), list(whole)
}

// aliased returns an engine over the same data with aliases.
func (s *stack) aliased(t *testing.T, opts query.Options, list []aliases.Alias) (*query.Engine, *aliases.Registry) {
	known, err := aliases.Open(t.Context(), aliases.Options{Store: s.store})
	require.NoError(t, err)
	for _, a := range list {
		require.NoError(t, known.Add(t.Context(), a))
	}
	options := s.options
	options.Index = restricted.New(options.Index.(restricted.Source), known)
	options.Watch, options.RowCacheBytes = s.watch, 1<<20
	q, err := newSource(options)
	require.NoError(t, err)
	opts.Queryable, opts.Rollups, opts.Experimental, opts.Columnar = q, q.rollups, true, query.On
	e, err := newEngine(opts)
	require.NoError(t, err)
	return e, known
}

// byOldNames replaces names in the selectors of an expression by old ones that have aliases for all times.
func byOldNames(t *testing.T, rng *rand.Rand, p parser.Parser, text string) string {
	e, err := p.ParseExpr(text)
	require.NoError(t, err)
	parser.Inspect(e, func(n parser.Node, _ []parser.Node) error {
		vs, ok := n.(*parser.VectorSelector)
		if !ok || vs.Name == "info" {
			return nil
		}
		for i, m := range vs.LabelMatchers {
			label, value := m.Name, m.Value
			if m.Type == labels.MatchEqual || m.Type == labels.MatchNotEqual {
				if names := oldNames(label, value); !strings.HasPrefix(names[len(names)-1], "info") {
					value = names[rng.IntN(len(names))]
				}
			}
			if label == "inst" && rng.IntN(2) == 0 {
				label = "machine"
			}
			if label == "__name__" && vs.Name != "" {
				vs.Name = value
			}
			vs.LabelMatchers[i] = labels.MustNewMatcher(m.Type, label, value)
		}
		return nil
	})
	return e.String()
}

// plain returns a result without annotations, because those have positions in the text.
func plain(a response) response {
	a.warnings, a.infos = nil, nil
	return a
}

// TestAliasesAreRenames sends the same queries, by new and by old names, to a database with aliases and to one with renamed
// series.
func TestAliasesAreRenames(t *testing.T) {
	rng := newRandOf(t)
	for _, mode := range flushModes {
		t.Run(string(mode), func(t *testing.T) {
			stored, model := renamedData(rng, newDataset(rng))
			s, want := newStack(t), newStack(t)
			defer func() { require.NoError(t, s.Close()) }()
			defer func() { require.NoError(t, want.Close()) }()
			s.fill(stored.history(rng), mode)
			want.fill(model.history(rng), mode)
			ours, _ := s.aliased(t, query.Options{}, testAliases())
			theirs := newQueryEngine(t, want.source, query.On)
			g := exprs{Rand: rng}
			filled := 0
			for i := range 120 {
				text := g.vector(1 + g.IntN(2))
				run, seed := instantCase, g.Uint64()
				if i%2 == 0 {
					run = rangeCase
				}
				fixed := func() exprs { return exprs{Rand: rand.New(rand.NewPCG(seed, 1))} }
				expected := plain(run(fixed(), text)(theirs))
				for range 2 {
					renamed := byOldNames(t, rng, ours.Parser(), text)
					if strings.Contains(text, "absent") {
						renamed = text // the result has the labels of the selector
					}
					if diff := difference(expected, plain(run(fixed(), renamed)(ours))); diff != nil &&
						!disagrees(expected, func() response { return plain(run(fixed(), text)(theirs)) }) {
						t.Fatalf("%s, queried as %s:\n%v", text, renamed, diff)
					}
				}
				if len(expected.points) > 0 {
					filled++
				}
			}
			require.Greater(t, filled, 35)
		})
	}
}

// TestAliasesAndResultCache: the next result reflects an added or removed alias, and EXPLAIN names the stored
// selectors.
func TestAliasesAndResultCache(t *testing.T) {
	rng := newRandOf(t)
	s := newStack(t)
	defer func() { require.NoError(t, s.Close()) }()
	s.fill(newDataset(rng).history(rng), inTables)
	e, known := s.aliased(t, query.Options{Changes: s.ingester}, nil)
	count := func(text string) (series int, outcome string, stored []string) {
		res, err := runQuery(e, text, dataFrom, dataTo, time.Minute, query.Params{Explain: true})
		require.NoError(t, err)
		defer res.Close()
		return len(points(res.Value)), res.Explain.Cache.Outcome, res.Explain.Selectors[0].Stored
	}
	for _, text := range []string{"newer", "newer", "g"} {
		series, outcome, stored := count(text)
		require.Equal(t, map[string]int{"newer": 0, "g": 10}[text], series, outcome)
		require.Empty(t, stored)
	}
	a := aliases.Alias{Kind: aliases.Metric, Old: "g", New: "newer", FromMs: dataFrom + 2*hourMs}
	require.NoError(t, known.Add(t.Context(), a))
	series, _, stored := count("newer")
	require.Equal(t, 10, series)
	require.Equal(t, []string{
		`{__name__="newer"} from 2024-10-04T20:55:00.001Z to 2024-10-04T22:59:59.999Z`,
		`{__name__=~"g|newer"} from 2024-10-04T23:00:00.000Z to 2024-10-05T04:00:00.000Z`,
	}, stored)
	series, _, _ = count("g")
	require.Greater(t, series, 15, "before and after the hour")
	_, err := known.Remove(t.Context(), a)
	require.NoError(t, err)
	series, _, _ = count("newer")
	require.Zero(t, series)
	series, _, _ = count("g")
	require.Equal(t, 10, series)
}

// TestAliasedLookUps compares names, values and series for many selectors and restrictions with an index of renamed series.
func TestAliasedLookUps(t *testing.T) {
	rng := newRandOf(t)
	stored, model := renamedData(rng, newDataset(rng))
	s, want := newStack(t), newStack(t)
	defer func() { require.NoError(t, s.Close()) }()
	defer func() { require.NoError(t, want.Close()) }()
	s.fill(stored.history(rng), inTables)
	want.fill(model.history(rng), inTables)
	known, err := aliases.Open(t.Context(), aliases.Options{Store: s.store})
	require.NoError(t, err)
	require.NoError(t, known.Configure(t.Context(), testAliases()))
	ours, theirs := restricted.New(s.options.Index.(restricted.Source), known),
		restricted.New(want.options.Index.(restricted.Source), nil)
	g := exprs{Rand: rng}
	matcher := func() *labels.Matcher {
		kind := labels.MatchType(rng.IntN(4))
		name := pick(g, "__name__", "job", "inst", "zone", "version", "none")
		value := pick(g, "0", "1", "", "a", ".*", ".+", "[0-4]", "0|3", "g|c_total", "g", "info.*", "(?i)A|b", "c_.*")
		return labels.MustNewMatcher(kind, name, value)
	}
	some := func() (out []*labels.Matcher) {
		for range rng.IntN(3) {
			out = append(out, matcher())
		}
		return out
	}
	for range 800 {
		who := &principal.Principal{Name: "someone", Scopes: principal.Read}
		if rng.IntN(2) == 0 {
			who.Match = some()
		}
		ctx, ms := principal.With(t.Context(), who), some()
		from := dataFrom + rng.Int64N(8)*hourMs - hourMs
		to := from + rng.Int64N(8)*hourMs
		limit := pick(g, 0, 0, 1, 3)
		wantNames, err := theirs.LabelNames(ctx, from, to, limit, ms...)
		require.NoError(t, err)
		names, err := ours.LabelNames(ctx, from, to, limit, ms...)
		require.NoError(t, err)
		require.Equal(t, append([]string{}, wantNames...), append([]string{}, names...), "names of %v for %v", ms, who.Match)
		label := pick(g, "__name__", "job", "inst", "zone", "le", "none")
		wantValues, err := theirs.LabelValues(ctx, label, from, to, limit, ms...)
		require.NoError(t, err)
		if label == "inst" && rng.IntN(2) == 0 {
			label = "machine"
		}
		values, err := ours.LabelValues(ctx, label, from, to, limit, ms...)
		require.NoError(t, err)
		require.Equal(t, append([]string{}, wantValues...), append([]string{}, values...),
			"values of %s of %v for %v", label, ms, who.Match)
		wantSeries, err := theirs.Select(ctx, nil, from, to, ms...)
		require.NoError(t, err)
		series, err := ours.Select(ctx, nil, from, to, ms...)
		require.NoError(t, err)
		require.Len(t, series, len(wantSeries), "series of %v for %v", ms, who.Match)
		for i := range series {
			require.Equal(t, wantSeries[i].Labels.String(), series[i].Labels.String())
			require.Equal(t, wantSeries[i].Hours, series[i].Hours)
		}
	}
}

// TestTiersOfAliases: results from states of several stored series equal results from their samples.
func TestTiersOfAliases(t *testing.T) {
	first := seeds.Number(t, "HALITE_SEED", defaultSeed)
	var functions []string
	for name := range tieredFunctions {
		functions = append(functions, name)
	}
	slices.Sort(functions)
	fromStates := int64(0)
	for seed := first; seed < first+2; seed++ {
		w := newTieredWorld(t, seed)
		// One sender changes its names at a time, and sends both for up to two hours.
		at := w.from + w.Int64N(w.to-w.from)
		history := w.history("m1")
		old := labels.FromStrings("__name__", "before", "task", history[0].Labels.Get("job"))
		var both []ingest.Sample
		for _, s := range history {
			if s.TsMs < at+w.Int64N(2*hourMs) {
				both = append(both, ingest.Sample{Labels: old, TsMs: s.TsMs, Value: s.Value})
			}
			if s.TsMs >= at {
				s.Labels = labels.NewBuilder(s.Labels).Set("__name__", "after").Labels()
				both = append(both, s)
			}
		}
		w.write(both)
		w.flush()
		w.rollUp()
		w.names = append(w.names, "before", "after", "before")
		e, _ := w.aliased(t, query.Options{}, []aliases.Alias{
			{Kind: aliases.Metric, Old: "before", New: "after"}, {Kind: aliases.LabelName, Old: "task", New: "job"},
			{Kind: aliases.Metric, Old: "m0", New: "m2", FromMs: at - at%hourMs}, {Kind: aliases.LabelValue, Old: "2", New: "1"},
		})
		for range int(unlessShort(300, 60)) {
			text, exact, start, end, step := w.question(functions)
			stepTime := time.Duration(step) * time.Millisecond
			want, err := runQuery(e, text, start, end, stepTime, query.Params{Tiers: query.Off})
			require.NoError(t, err, "HALITE_SEED=%d %s", seed, text)
			got, err := runQuery(e, text, start, end, stepTime, query.Params{Tiers: query.On, Explain: true})
			require.NoError(t, err, "HALITE_SEED=%d %s", seed, text)
			require.NoError(t, tieredDifference(want.Value.(promengine.Matrix), got.Value.(promengine.Matrix), exact),
				"HALITE_SEED=%d %s from %d to %d by %s: %s", seed, text, start, end, stepTime, got.Explain)
			for _, u := range got.Explain.Tiers {
				fromStates += u.Days + u.Hours
			}
			want.Close()
			got.Close()
		}
		require.NoError(t, w.Close())
	}
	require.Positive(t, fromStates)
}
