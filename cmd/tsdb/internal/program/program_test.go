package program

import (
	"bytes"
	"testing"
	"time"

	"github.com/alecthomas/kingpin/v2"
	"github.com/stretchr/testify/require"
)

func TestBytes(t *testing.T) {
	for text, want := range map[string]int64{
		"0": 0, "1000": 1000, "1B": 1, "1KB": 1024, "1KiB": 1024, "64MB": 64 << 20, "1.5GB": 3 << 29, "2TB": 2 << 40,
	} {
		var got int64
		require.NoError(t, Bytes(&got).Set(text), text)
		require.Equal(t, want, got, text)
		require.NoError(t, Bytes(&got).Set(Bytes(&got).String()), "a value reads its own text")
		require.Equal(t, want, got, text)
	}
	for _, text := range []string{"", "abc", "-1", "-1MB", "64M", "64 MB", "0x10", "99999999999999999999"} {
		got := int64(7)
		require.Error(t, Bytes(&got).Set(text), text)
		require.EqualValues(t, 7, got, text)
	}
}

func newApp(name string) *kingpin.Application {
	app := kingpin.New(name, "")
	app.Terminate(nil)
	serve := app.Command("serve", "Serve. See tsdb verify and tsdb_build_info.")
	serve.Flag("head-bytes", "").Default("1GB").SetValue(Bytes(new(int64)))
	serve.Flag("timeout", "").Default("2m").Duration()
	serve.Flag("hosts", "").Int()
	app.Command("verify", "Verify.")
	return app
}

func TestErrorsNameTheFlag(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"serve", "--head-bytes=many"}, `--head-bytes=many: "many" is not a number of bytes`},
		{[]string{"serve", "--head-bytes=many"}, "an example is --head-bytes=1GB"},
		{[]string{"serve", "--head-bytes=1", "--timeout", "5"}, "--timeout=5: "},
		{[]string{"serve", "--hosts", "x"}, "--hosts=x: "},
		{[]string{"serve", "--nope"}, "--nope"},
		{[]string{"dance"}, "dance"},
	} {
		_, err := Parse(newApp("halite"), c.args)
		require.ErrorContains(t, err, c.want)
		require.ErrorContains(t, err, "halite --help")
	}
	command, err := Parse(newApp("halite"), []string{"serve", "--timeout=5s"})
	require.NoError(t, err)
	require.Equal(t, "serve", command)
}

func TestName(t *testing.T) {
	for called, want := range map[string]string{
		"/usr/bin/halite": "halite", "./tsdb": "tsdb", "halite.exe": "halite", "": "tsdb", "/": "tsdb",
	} {
		require.Equal(t, want, Name(called), called)
	}
}

func TestRenamer(t *testing.T) {
	r := NewRenamer(newApp("halite"))
	require.Equal(t, "run halite verify, then halite serve; tsdb_build_info of tsdb dance stays",
		r.Text("run tsdb verify, then tsdb serve; tsdb_build_info of tsdb dance stays"))
	var out bytes.Buffer
	n, err := r.Writer(&out).Write([]byte("tsdb --help\n"))
	require.NoError(t, err)
	require.Equal(t, len("tsdb --help\n"), n)
	require.Equal(t, "halite --help\n", out.String())
	require.Equal(t, "tsdb verify", NewRenamer(newApp("tsdb")).Text("tsdb verify"))
}

func TestParseTime(t *testing.T) {
	now := time.Date(2026, 5, 6, 7, 8, 9, 10, time.UTC)
	for text, want := range map[string]time.Time{
		"now": now, "now-90m": now.Add(-90 * time.Minute), "2h": now.Add(-2 * time.Hour), "7d": now.Add(-7 * 24 * time.Hour),
		"2026-05-01": time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC), "0": time.Unix(0, 0),
		"1777777777.125":            time.UnixMilli(1777777777125),
		"2026-05-01T10:00:00+02:00": time.Date(2026, 5, 1, 8, 0, 0, 0, time.UTC),
	} {
		got, err := ParseTime(text, now)
		require.NoError(t, err, text)
		require.Equal(t, want.UnixMilli(), got.UnixMilli(), text)
	}
	for _, text := range []string{"", "yesterday", "now-", "now+1h", "1e300", "NaN", "2026-13-01", "-2h"} {
		_, err := ParseTime(text, now)
		require.ErrorContains(t, err, "is not a time: give", text)
	}
}
