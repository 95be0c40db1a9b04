package read

import (
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/stretchr/testify/require"

	"halite/query/lastread"
	"halite/storage/index"
	"halite/storage/principal"
)

// TestNoteReads: a query notes the metrics that it finds, under their stored names.
func TestNoteReads(t *testing.T) {
	tracker, err := lastread.New(lastread.Options{})
	require.NoError(t, err)
	r := &Reader{opts: Options{LastReads: tracker}}
	found := func(prefix string, names ...string) (out []index.Series) {
		for _, name := range names {
			out = append(out, index.Series{Labels: labels.FromStrings("__name__", name), Tenant: &index.Tenant{Prefix: prefix}})
		}
		return out
	}
	one := labels.MustNewMatcher(labels.MatchEqual, "__name__", "one")
	r.noteReads(t.Context(), []*labels.Matcher{one}, nil)
	require.Zero(t, tracker.Last("one"), "there is no such series")
	r.noteReads(t.Context(), []*labels.Matcher{one}, found("", "one"))
	r.noteReads(t.Context(), nil, found("", "two", "two", "three"))
	tenant := principal.With(t.Context(), &principal.Principal{Tenants: []string{"a"}})
	r.noteReads(tenant, []*labels.Matcher{one}, found("&a&", "four"))
	for _, metric := range []string{"one", "two", "three", "&a&four"} {
		require.NotZero(t, tracker.Last(metric), metric)
	}
	require.Zero(t, tracker.Last("four"))
}
