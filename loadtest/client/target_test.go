package client

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParseTarget(t *testing.T) {
	got, err := ParseTarget("name=a b; write=http://h:1/w;query=http://h:1/;pid=12;dir=/d;flush=http://h:1/f;params=nocache=1&x=2")
	require.NoError(t, err)
	require.Equal(t, "a b", got.Name)
	require.Equal(t, "http://h:1", got.QueryURL)
	require.Equal(t, 12, got.PID)
	require.Equal(t, "1", got.Params.Get("nocache"))
	for _, bad := range []string{"", "write=http://h/w", "write=ftp://h;query=http://h", "write=http://h;query=http://h;colour=red",
		"write=http://h;query=http://h;pid=x", "write=http://h;query=http://h;pid=-1"} {
		_, err := ParseTarget(bad)
		require.ErrorIs(t, err, ErrTarget, bad)
	}
}

func FuzzParseTarget(f *testing.F) {
	f.Add("name=a;write=http://h:1/w;query=http://h:1;pid=12;dir=/d;flush=http://h:1/f;params=nocache=1")
	f.Fuzz(func(t *testing.T, text string) {
		if target, err := ParseTarget(text); err == nil && target.Validate() != nil {
			t.Errorf("%q is accepted once, then refused", text)
		}
	})
}
