package principal

import (
	"context"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/stretchr/testify/require"
)

func TestScopes(t *testing.T) {
	s, err := ParseScopes([]string{"admin", "read"})
	require.NoError(t, err)
	require.Equal(t, Read|Admin, s)
	require.Equal(t, "read,admin", s.String())
	require.True(t, s.Has(Admin))
	require.False(t, s.Has(Admin|Write))
	require.Equal(t, "none", Scopes(0).String())
	for _, bad := range [][]string{nil, {"Read"}, {"read", "read"}, {"all"}} {
		_, err := ParseScopes(bad)
		require.Error(t, err, bad)
	}
}

// TestRestrict: principals with equal matchers share a key, and no selector is changed in place.
func TestRestrict(t *testing.T) {
	a := labels.MustNewMatcher(labels.MatchEqual, "a", "1")
	b := labels.MustNewMatcher(labels.MatchRegexp, "b", "2|3")
	one, other := &Principal{Match: []*labels.Matcher{a, b}}, &Principal{Match: []*labels.Matcher{b, a}}
	require.Equal(t, `{a="1",b=~"2|3"}`, one.CacheKey())
	require.Equal(t, one.CacheKey(), other.CacheKey())
	require.Empty(t, (&Principal{}).CacheKey())

	selector := append(make([]*labels.Matcher, 0, 8), labels.MustNewMatcher(labels.MatchEqual, "x", ""))
	require.Len(t, one.Restrict(selector), 3)
	require.Nil(t, selector[:2][1], "the array behind the selector stays as it was")
	require.Equal(t, one.Match, one.Restrict(nil))

	var nobody *Principal
	require.False(t, nobody.Restricted())
	require.Equal(t, selector, nobody.Restrict(selector))
	require.Nil(t, From(context.Background()))
	require.Same(t, one, From(With(t.Context(), one)))
}
