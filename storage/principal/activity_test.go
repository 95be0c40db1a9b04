package principal

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestShares: a tenant shares the server while another one was active within the last 30 seconds.
func TestShares(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	activity := NewActivity(func() time.Time { return now }, 0)
	request := func(tenants ...string) *Principal { return activity.For(&Principal{Tenants: tenants}) }
	a := request("a")
	require.False(t, a.Shares(), "it is alone")
	a = request("a")
	require.False(t, a.Shares())
	b := request("b")
	require.True(t, a.Shares())
	require.True(t, b.Shares())
	now = now.Add(29 * time.Second)
	for range 3 {
		b = request("b")
	}
	require.True(t, b.Shares())
	now = now.Add(time.Second)
	require.False(t, b.Shares(), "the last request of a is too old")
	require.True(t, a.Shares())
	request("b", "c")
	require.True(t, b.Shares(), "several tenants are another sender")

	var nobody *Principal
	require.False(t, nobody.Shares())
	require.False(t, (&Principal{Tenants: []string{"a"}}).Shares())
	server := &Principal{}
	require.Same(t, server, activity.For(server))
	var none *Activity
	require.Same(t, server, none.For(server))
}
