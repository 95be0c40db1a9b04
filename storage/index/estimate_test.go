package index

import (
	"fmt"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/stretchr/testify/require"
)

// TestEstimate: an estimate is never below the number of active series that match, and exact for named values.
func TestEstimate(t *testing.T) {
	w := newWorld(t, 1)
	for i := range 1000 {
		ls := labels.FromStrings("__name__", fmt.Sprintf("estimated_%d", i%2), "job", fmt.Sprint(i%10), "i", fmt.Sprint(i))
		_, _, err := w.x.Add(ls)
		require.NoError(t, err)
	}
	eq, re, ne := labels.MatchEqual, labels.MatchRegexp, labels.MatchNotEqual
	name := labels.MustNewMatcher(eq, "__name__", "estimated_0")
	for _, c := range []struct {
		matchers []*labels.Matcher
		want     int
	}{
		{nil, 1000},
		{[]*labels.Matcher{name}, 500},
		{[]*labels.Matcher{labels.MustNewMatcher(eq, "__name__", "missing")}, 0},
		{[]*labels.Matcher{labels.MustNewMatcher(re, "__name__", "estimated_.*")}, 1000},
		{[]*labels.Matcher{labels.MustNewMatcher(re, "__name__", "estimated_0|estimated_1")}, 1000},
		{[]*labels.Matcher{name, labels.MustNewMatcher(eq, "job", "2")}, 100},
		{[]*labels.Matcher{name, labels.MustNewMatcher(re, "job", "2|4")}, 200},
		{[]*labels.Matcher{name, labels.MustNewMatcher(re, "i", "1.*")}, 500},
		{[]*labels.Matcher{name, labels.MustNewMatcher(ne, "job", "2")}, 500},
		{[]*labels.Matcher{labels.MustNewMatcher(eq, "i", "7")}, 1},
		{[]*labels.Matcher{labels.MustNewMatcher(eq, "absent", "7")}, 0},
	} {
		n, err := w.x.Estimate(t.Context(), c.matchers...)
		require.NoError(t, err)
		require.Equal(t, c.want, n, "%v", c.matchers)
	}
}
