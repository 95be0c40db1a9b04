package read_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/stretchr/testify/require"

	"halite/keyschema"
	"halite/query/column"
	"halite/query/read"
	"halite/query/read/readtest"
)

// valuesWorld is a World whose index lists the values of labels.
type valuesWorld struct{ *readtest.World }

func (w valuesWorld) LabelValues(ctx context.Context, name string, mint, maxt int64, limit int, matchers ...*labels.Matcher,
) ([]string, error) {
	series, err := w.Select(ctx, nil, mint, maxt, matchers...)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, s := range series {
		if v := s.Labels.Get(name); v != "" && !slices.Contains(out, v) {
			out = append(out, v)
		}
	}
	slices.Sort(out)
	if limit > 0 {
		out = out[:min(limit, len(out))]
	}
	return out, nil
}

var roadRule = keyschema.Rule{Pattern: "speed", Salts: 16, Promoted: []string{"road", "mile"}, Basis: keyschema.BasisPromoted,
	SaltTags: 1}

// roads returns two roads of 30 miles with two lanes each, and a sample every 20 minutes for two days. The first road also has
// a mile 0130 next to 013, and a series without a mile.
func roads(t testing.TB, rule keyschema.Rule) *readtest.World {
	w := readtest.NewWorld(t, rule)
	add := func(pairs ...string) {
		s := w.Add(labels.FromStrings(append([]string{"__name__", "speed"}, pairs...)...))
		for ts := base; ts < base+2*day; ts += 1_200_000 {
			s.Table[ts] = float64(ts%1000) + float64(len(w.Series))
		}
	}
	for _, road := range []string{"A1", "A20"} {
		for mile := range 30 {
			for _, lane := range []string{"1", "2"} {
				add("road", road, "mile", fmt.Sprintf("%03d", mile), "lane", lane, "dir", fmt.Sprint(mile%3))
			}
		}
	}
	add("road", "A1", "mile", "0130", "lane", "1")
	add("road", "A1", "lane", "1")
	w.Store(rand.New(rand.NewPCG(1, 1)))
	return w
}

// readAll reads all matching series, compares them with the truth, and returns the figures of the read.
func readAll(w *readtest.World, t testing.TB, win column.TimeRange, matchers ...*labels.Matcher) read.Figures {
	t.Helper()
	q := w.Reader(func(o *read.Options) { o.Index = valuesWorld{w} })
	session := q.Session()
	windows := read.Windows{FirstEndMs: win.MaxMs, RangeMs: win.MaxMs - win.MinMs + 1, Steps: 1}
	sel, err := session.Select(t.Context(), windows, matchers...)
	require.NoError(t, err)
	defer sel.Close()
	i := 0
	for b := range sel.Batches() {
		batch, err := sel.Read(t.Context(), b)
		require.NoError(t, err)
		for _, c := range batch.Columns {
			for _, s := range w.Series {
				if labels.Equal(s.Labels, sel.Labels(i)) {
					want := s.Truth(win)
					require.Equal(t, want, readtest.AllOf(&c), "%s", s.Labels)
				}
			}
			i++
		}
		batch.Release()
	}
	return session.Figures()
}

func match(typ labels.MatchType, name, value string) *labels.Matcher {
	return labels.MustNewMatcher(typ, name, value)
}

func TestPromotedRowsAreOneRange(t *testing.T) {
	const eq, re = labels.MatchEqual, labels.MatchRegexp
	name := match(eq, "__name__", "speed")
	noon := column.TimeRange{MinMs: base + day + 12*keyschema.HourMs, MaxMs: base + day + 14*keyschema.HourMs - 1}
	for _, c := range []struct {
		what     string
		matchers []*labels.Matcher
		series   int64
		ranges   int64 // of a day
	}{
		{"one mile", []*labels.Matcher{match(eq, "road", "A1"), match(eq, "mile", "007")}, 2, 1},
		{"between two miles", []*labels.Matcher{match(eq, "road", "A20"), match(re, "mile", "00[5-9]|01[0-9]|02[0-3]")}, 38, 1},
		{"all miles of a road", []*labels.Matcher{match(eq, "road", "A20"), match(re, "mile", ".+")}, 60, 1},
		{"a road", []*labels.Matcher{match(eq, "road", "A20")}, 60, 1},
		{"a road with more than it seems", []*labels.Matcher{match(eq, "road", "A1")}, 62, 1},
		{"a mile that is not selected lies between", []*labels.Matcher{match(eq, "road", "A1"), match(re, "mile", "01[0-9]")}, 20, 2},
		{"every other mile", []*labels.Matcher{match(eq, "road", "A20"), match(re, "mile", "00[02468]")}, 10, 5},
		{"two roads", []*labels.Matcher{match(re, "road", "A1|A20"), match(eq, "mile", "003")}, 4, 2},
		{"another label decides too", []*labels.Matcher{match(eq, "road", "A20"), match(eq, "lane", "2")}, 30, 30},
	} {
		w := roads(t, roadRule)
		f := readAll(w, t, noon, append(c.matchers, name)...)
		require.Equal(t, c.series, f.Series, c.what)
		require.Equal(t, c.ranges, f.Ranges, c.what)
		require.Equal(t, 2*c.series, f.Rows, "%s: two hours of each series", c.what)
		require.Equal(t, f.Rows, f.RowsUsed, c.what)
		require.Len(t, f.Scans, 1, c.what)
		require.Equal(t, keyschema.HourOf(noon.MaxMs), f.Scans[0].FirstHour, c.what)
		require.Equal(t, keyschema.HourOf(noon.MinMs), f.Scans[0].LastHour, c.what)

		f = readAll(w, t, column.TimeRange{MinMs: base, MaxMs: base + 2*day - 1}, append(c.matchers, name)...)
		if c.series*48 <= 1024 { // read at once
			require.Equal(t, 2*c.ranges, f.Ranges, c.what)
		}
		require.Equal(t, f.Rows, f.RowsUsed, c.what)
	}
}

// TestCoalescedReads compares random selections with the truth, under random rules. If the matchers use only promoted tags,
// each read uses all rows.
func TestCoalescedReads(t *testing.T) {
	rng := readtest.NewRand(t)
	for range 60 {
		rule := keyschema.Rule{Pattern: "speed", Salts: 1 + rng.IntN(4), Promoted: []string{"road", "mile"}}
		if rng.IntN(2) == 0 {
			rule.Basis, rule.SaltTags = keyschema.BasisPromoted, rng.IntN(3)
		}
		if rng.IntN(4) == 0 {
			rule.FromHour = keyschema.HourOf(base) + rng.Int64N(24)
		}
		mile := func() string { return fmt.Sprintf("%0*d", 1+rng.IntN(2), rng.IntN(14)) }
		if rng.IntN(3) == 0 { // miles are hosts
			rule.ReversedDomains = []string{"mile"}
			mile = func() string {
				return fmt.Sprintf("%d%s", rng.IntN(7), []string{".example.com", ".example.org", ".net", "", ".b.example.com"}[rng.IntN(5)])
			}
		}
		w := readtest.NewWorld(t, rule)
		seen := map[string]bool{}
		for range 20 + rng.IntN(40) {
			pairs := []string{"__name__", "speed", "road", fmt.Sprintf("A%d", rng.IntN(3)), "a", fmt.Sprint(rng.IntN(3))}
			if rng.IntN(8) > 0 {
				pairs = append(pairs, "mile", mile())
			}
			ls := labels.FromStrings(pairs...)
			if seen[ls.String()] {
				continue
			}
			seen[ls.String()] = true
			s := w.Add(ls)
			for range 1 + rng.IntN(30) {
				ts := base + rng.Int64N(2*day)
				s.Table[ts] = rng.Float64()
			}
		}
		w.Store(rng)
		matchers := []*labels.Matcher{match(labels.MatchEqual, "__name__", "speed")}
		values := []string{"A1", "A[01]", "A.*", "0?[1-6]", "1.*", "7", "", ".*", `.+\.example\.com`, ".+[.]com"}
		for _, name := range []string{"road", "mile"} {
			if rng.IntN(3) > 0 {
				matchers = append(matchers, match(labels.MatchType(rng.IntN(4)), name, values[rng.IntN(len(values))]))
			}
		}
		other := rng.IntN(4) == 0
		if other {
			matchers = append(matchers, match(labels.MatchEqual, "a", "1"))
		}
		from := base + rng.Int64N(2*day)
		f := readAll(w, t, column.TimeRange{MinMs: from, MaxMs: from + rng.Int64N(day)}, matchers...)
		require.LessOrEqual(t, f.RowsUsed, f.Rows)
		read := int64(0)
		for _, s := range f.Scans {
			read += int64(s.Rows)
		}
		require.Equal(t, f.Rows, read)
	}
}
