package lookup

import (
	"slices"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/stretchr/testify/require"
)

func TestAlternatives(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		pattern string
		want    []string // nil: the pattern may match other values
	}{
		{`a`, []string{"a"}},
		{`a|b\.c|é-_`, []string{"a", "b.c", "é-_"}},
		{`(10\.0\.0\.1:9100|b)`, []string{"10.0.0.1:9100", "b"}},
		{`a||b`, []string{"a", "", "b"}},
		{`()`, []string{""}},
		{`(a\))`, []string{"a)"}},
		{`\\|\|`, []string{`\`, "|"}},
		{`a.c`, nil}, {`a|b*`, nil}, {`\d`, nil}, {`(a)|(b)`, nil}, {`(?i:a)`, nil}, {`(a|b)c`, nil}, {`^a$`, nil}, {`[ab]`, nil},
		{`a{2}`, nil}, {`\Qa|b\E`, nil},
	} {
		values, ok := alternatives(c.pattern)
		require.Equal(t, c.want != nil, ok, c.pattern)
		require.Equal(t, c.want, values, c.pattern)
		checkAlternatives(t, c.pattern, "a")
	}
}

// FuzzAlternatives: a valid pattern with a list of values matches these values and no other one.
func FuzzAlternatives(f *testing.F) {
	f.Add(`(a\.b|c)`, "a.b")
	f.Add(`a|\|b`, "|b")
	f.Fuzz(checkAlternatives)
}

func checkAlternatives(t *testing.T, pattern, other string) {
	m, err := labels.NewMatcher(labels.MatchRegexp, "name", pattern)
	if err != nil {
		return
	}
	values, ok := alternatives(pattern)
	if !ok {
		return
	}
	for _, value := range values {
		require.True(t, m.Matches(value), "%q in %q", value, pattern)
	}
	require.Equal(t, slices.Contains(values, other), m.Matches(other), "%q in %q", other, pattern)
}
