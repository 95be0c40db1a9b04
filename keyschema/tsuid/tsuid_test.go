package tsuid

import (
	"strings"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/stretchr/testify/require"
)

// TestStable: clients keep UIDs, so these never change.
func TestStable(t *testing.T) {
	t.Parallel()
	require.Equal(t, "31EA60465773CB6B", Derive(Metric, "sys.cpu.user").String())
	series := labels.FromStrings("__name__", "sys.cpu.user", "host", "web01", "cpu", "0")
	require.Equal(t, "31EA60465773CB6B05EECDE29078ED6CBECE7E25EC65E49597B29445556EC37F9498EA551A8F3EDA", Text(series))
	require.NotEqual(t, Derive(Key, "host"), Derive(Value, "host"))
}

func TestParse(t *testing.T) {
	t.Parallel()
	series := labels.FromStrings("__name__", "m", "a", "1", "b", "2")
	s, err := ParseSeries(strings.ToLower(Text(series)))
	require.NoError(t, err)
	require.Equal(t, Derive(Metric, "m"), s.Metric)
	require.ElementsMatch(t, []UID{Derive(Key, "a"), Derive(Key, "b")}, s.Keys)
	require.ElementsMatch(t, []UID{Derive(Value, "1"), Derive(Value, "2")}, s.Values)
	for n, key := range s.Keys {
		require.Equal(t, key == Derive(Key, "a"), s.Values[n] == Derive(Value, "1"))
		require.Equal(t, key, Derive(Key, Keys(series)[n]))
	}
	for _, bad := range []string{"", "00", Text(series)[2:], strings.Repeat("g", 16)} {
		_, err := ParseSeries(bad)
		require.Error(t, err, bad)
		_, err = Parse(bad)
		require.Error(t, err, bad)
	}
}

// FuzzParseSeries: a text that parses is a tsuid whose length matches the number of its tags.
func FuzzParseSeries(f *testing.F) {
	f.Add(Text(labels.FromStrings("__name__", "m", "a", "1")))
	f.Fuzz(func(t *testing.T, text string) {
		s, err := ParseSeries(text)
		if err == nil {
			require.Equal(t, len(text), 2*Width*(1+len(s.Keys)+len(s.Values)))
			require.Equal(t, len(s.Keys), len(s.Values))
		}
	})
}
