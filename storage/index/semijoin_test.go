package index

import (
	"context"
	"fmt"
	"testing"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/stretchr/testify/require"
)

// TestPartners compares selections of series for a join with all matching series. No series with a partner is missing.
// If the caller keeps duplicates, the result has all duplicates.
func TestPartners(t *testing.T) {
	left := 0
	for seed := range seedCount(t, 4) {
		w := newWorld(t, 1000+seed)
		for range 60 {
			w.step()
			for range 5 {
				left += w.checkPartners()
			}
		}
	}
	require.Positive(t, left, "no series was ever left out")
}

// checkPartners makes one selection and returns the number of omitted series.
func (w *world) checkPartners() int {
	mint, maxt := w.window()
	if w.rng.IntN(2) == 0 {
		mint, maxt = w.now().UnixMilli(), w.now().UnixMilli()
	}
	ms := []*labels.Matcher{labels.MustNewMatcher(labels.MatchEqual, model.MetricNameLabel, w.pick("m1", "m1", "m2", "up"))}
	if w.rng.IntN(3) == 0 {
		ms = append(ms, w.matcher())
	}
	p := &JoinKeys{On: w.rng.IntN(2) == 0, Alike: w.rng.IntN(2) == 0}
	for _, name := range []string{model.MetricNameLabel, "A", "b", "c", "z", "nope"} {
		if w.rng.IntN(3) == 0 {
			p.Names = append(p.Names, name)
		}
	}
	for range w.rng.IntN(4) {
		p.Labels = append(p.Labels, w.randomLabels())
	}
	all, err := w.x.Select(context.Background(), nil, mint, maxt, ms...)
	require.NoError(w.t, err)
	some, left, err := w.x.SelectJoin(context.Background(), nil, p, mint, maxt, ms...)
	require.NoError(w.t, err)
	require.GreaterOrEqual(w.t, left, len(all)-len(some))

	partners, like := map[string]bool{}, map[string]int{}
	for _, ls := range p.Labels {
		partners[joinKeyOf(p, ls)] = true
	}
	for _, s := range all {
		like[joinKeyOf(p, s.Labels)]++
	}
	found, known := map[string]bool{}, map[string]bool{}
	for _, s := range some {
		found[s.Labels.String()] = true
	}
	for _, s := range all {
		known[s.Labels.String()] = true
		if kind := joinKeyOf(p, s.Labels); partners[kind] || p.Alike && like[kind] > 1 {
			require.True(w.t, found[s.Labels.String()], "%s is missing; %+v, matchers %v", s.Labels, p, ms)
		}
	}
	for key := range found {
		require.True(w.t, known[key], "%s does not match %v", key, ms)
	}
	return left
}

// joinKeyOf returns the key that partners share.
func joinKeyOf(p *JoinKeys, ls labels.Labels) string {
	b := labels.NewBuilder(ls)
	if p.On {
		b.Keep(p.Names...)
	} else {
		b.Del(append([]string{model.MetricNameLabel}, p.Names...)...)
	}
	return fmt.Sprint(b.Labels())
}
