package requestlimits

import (
	"io"
	"testing"

	"github.com/alecthomas/kingpin/v2"
	"github.com/stretchr/testify/require"

	"halite/api/netlimit"
)

func parse(args ...string) (*Flags, error) {
	f := &Flags{}
	app := kingpin.New("test", "").Terminate(nil).UsageWriter(io.Discard).ErrorWriter(io.Discard)
	f.AddFlags(app.Command("serve", ""))
	_, err := app.Parse(append([]string{"serve"}, args...))
	return f, err
}

// TestDefaults checks that the flags have the defaults of the packages that they configure.
func TestDefaults(t *testing.T) {
	t.Parallel()
	f, err := parse()
	require.NoError(t, err)
	var defaults netlimit.Options
	require.NoError(t, defaults.Validate())
	defaults.Logger = nil
	require.Equal(t, defaults, f.Connections)
	for name, value := range f.Positive() {
		require.Positive(t, value, name)
	}
}

// TestFlagsAreSeparate sets one flag after the other. Each changes its own value only.
func TestFlagsAreSeparate(t *testing.T) {
	t.Parallel()
	f, err := parse()
	require.NoError(t, err)
	defaults := f.Positive()
	for name := range defaults {
		f, err := parse("--" + name + "=7")
		if err != nil { // a time needs a unit
			f, err = parse("--" + name + "=7ns")
		}
		require.NoError(t, err)
		values := f.Positive()
		require.EqualValues(t, 7, values[name], name)
		values[name] = defaults[name]
		require.Equal(t, defaults, values, name)
	}
}
