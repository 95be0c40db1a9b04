package aliases_test

import (
	"fmt"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/stretchr/testify/require"

	"halite/keyschema"
	"halite/storage/aliases"
	"halite/storage/pebble"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// TestRegistry: aliases survive a restart, and the file wins over the table. The registry refuses loops, repeated names and
// too many aliases.
func TestRegistry(t *testing.T) {
	fs := vfs.NewMem()
	open := func() (*aliases.Registry, func()) {
		store, err := pebble.Open(pebble.Options{Dir: "store", FS: fs})
		require.NoError(t, err)
		x, err := aliases.Open(t.Context(), aliases.Options{Store: store, Max: 4})
		require.NoError(t, err)
		return x, func() { require.NoError(t, store.Close()) }
	}
	x, stop := open()
	metric := func(from, to string) aliases.Alias { return aliases.Alias{Kind: aliases.Metric, Old: from, New: to} }
	require.Nil(t, x.ForTenant(keyschema.DefaultTenant))
	before := x.Generation()
	require.NoError(t, x.Add(t.Context(), metric("a", "b")))
	require.NotEqual(t, before, x.Generation())
	require.NoError(t, x.Add(t.Context(), metric("b", "c")))
	require.ErrorIs(t, x.Add(t.Context(), metric("c", "a")), aliases.ErrLoop)
	require.ErrorIs(t, x.Add(t.Context(), metric("a", "d")), aliases.ErrExists)
	other := metric("a", "z")
	other.Tenant = "acme"
	require.NoError(t, x.Add(t.Context(), other))
	require.NoError(t, x.Configure(t.Context(), []aliases.Alias{metric("a", "file")}))
	require.ErrorIs(t, x.Configure(t.Context(), []aliases.Alias{metric("c", "b")}), aliases.ErrLoop)
	require.Equal(t, []string{"a", "file"}, x.ForTenant(keyschema.DefaultTenant).Metrics("a"))
	require.NoError(t, x.Add(t.Context(), metric("x", "y")))
	require.ErrorIs(t, x.Add(t.Context(), metric("y", "z")), aliases.ErrTooMany)
	stop()

	x, stop = open()
	defer func() { stop() }()
	require.Equal(t, []string{"a", "b", "c"}, x.ForTenant(keyschema.DefaultTenant).Metrics("b"))
	require.Equal(t, []string{"&acme&a", "&acme&z"}, x.ForTenant("acme").Metrics("&acme&a"))
	list, configured := x.List("acme")
	require.Len(t, list, 1)
	require.False(t, configured[0])
	require.Equal(t, `metric "a" answers as "z"`, list[0].String())
	found, err := x.Remove(t.Context(), metric("b", ""))
	require.NoError(t, err)
	require.True(t, found)
	found, err = x.Remove(t.Context(), metric("b", ""))
	require.NoError(t, err)
	require.False(t, found)
	require.Equal(t, []string{"a", "b"}, x.ForTenant(keyschema.DefaultTenant).Metrics("b"))
	acme := aliases.Alias{Kind: aliases.Metric, Old: "n", New: "o", Tenant: "acmecorp"}
	require.NoError(t, x.Add(t.Context(), acme))
	generation := x.Generation()
	require.NoError(t, x.DropTenant(t.Context(), "acme"))
	require.NotEqual(t, generation, x.Generation())
	require.NoError(t, x.Refresh(t.Context()), "nothing comes back")
	require.Nil(t, x.ForTenant("acme"))
	require.NotNil(t, x.ForTenant("acmecorp"))
	require.NoError(t, x.Configure(t.Context(), []aliases.Alias{metric("f", "g")}))
	_, err = x.Remove(t.Context(), metric("f", ""))
	require.ErrorIs(t, err, aliases.ErrConfigured)
}

func TestCheck(t *testing.T) {
	for i, bad := range []aliases.Alias{
		{Kind: "tag", Old: "a", New: "b"}, {Kind: aliases.Metric, New: "b"}, {Kind: aliases.Metric, Old: "a", New: "a"},
		{Kind: aliases.Metric, Old: "a", New: "&t&b"}, {Kind: aliases.LabelName, Old: "__name__", New: "b"},
		{Kind: aliases.LabelName, Old: "a", New: keyschema.TenantLabel},
		{Kind: aliases.LabelValue, Label: "__name__", Old: "a", New: "b"},
		{Kind: aliases.Metric, Label: "a", Old: "a", New: "b"}, {Kind: aliases.Metric, Old: "a", New: "b", FromMs: 1},
		{Kind: aliases.Metric, Old: "a", New: "b", FromMs: -keyschema.HourMs}, {Kind: aliases.Metric, Old: "a\xff", New: "b"},
		{Kind: aliases.Metric, Old: "a", New: "b", Tenant: "a b"},
	} {
		require.ErrorIs(t, bad.Check(), aliases.ErrBad, fmt.Sprint(i))
	}
	loop := []aliases.Alias{
		{Kind: aliases.LabelValue, Old: "a", New: "b"}, {Kind: aliases.LabelValue, Label: "env", Old: "b", New: "a"},
	}
	require.ErrorIs(t, aliases.CheckTogether(loop), aliases.ErrLoop)
	loop[0].Label = "job"
	require.NoError(t, aliases.CheckTogether(loop))
}

// FuzzSelect: for any regular expression, a widened matcher accepts both names or none, and it accepts other names as
// before.
func FuzzSelect(f *testing.F) {
	for _, value := range []string{"old", "new", "o.*", "(?i)NEW", `\Qnew`, "new|x", "", ".+", "x(?s)."} {
		f.Add(value, uint8(2), "x")
	}
	f.Fuzz(func(t *testing.T, value string, kind uint8, other string) {
		m, err := labels.NewMatcher(labels.MatchType(kind%4), "__name__", value)
		if err != nil || other == "old" || other == "new" {
			t.Skip()
		}
		store, err := pebble.Open(pebble.Options{Dir: "store", FS: vfs.NewMem()})
		require.NoError(t, err)
		defer func() { require.NoError(t, store.Close()) }()
		x, err := aliases.Open(t.Context(), aliases.Options{Store: store})
		require.NoError(t, err)
		require.NoError(t, x.Configure(t.Context(), []aliases.Alias{{Kind: aliases.Metric, Old: "old", New: "new"}}))
		names := x.ForTenant(keyschema.DefaultTenant).Between(0, 1)[0].Names
		wide := names.Select([]*labels.Matcher{m}, nil).Selectors[0][0]
		positive := m.Type == labels.MatchEqual || m.Type == labels.MatchRegexp
		either := m.Matches("old") == positive || m.Matches("new") == positive
		require.Equal(t, either == positive, wide.Matches("old"), wide)
		require.Equal(t, either == positive, wide.Matches("new"), wide)
		require.Equal(t, m.Matches(other), wide.Matches(other), wide)
	})
}
