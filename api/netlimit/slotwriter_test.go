package netlimit

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"halite/storage/principal"
)

// TestSlotWriter: a response arrives whole, and its pieces are sent while another request of the tenant can have the slot.
func TestSlotWriter(t *testing.T) {
	activity := principal.NewActivity(time.Now, 1)
	who := activity.For(&principal.Principal{Tenants: []string{"acme"}})
	ctx := principal.With(t.Context(), who)
	var got bytes.Buffer
	pieces := 0
	send := func(p []byte) (int, error) {
		slot, err := who.AcquireCPU(ctx) // hangs if the response holds the only slot
		require.NoError(t, err)
		slot.Release()
		pieces++
		return got.Write(p)
	}
	require.Nil(t, NewSlotWriter(ctx, send), "no other tenant is active")
	activity.For(&principal.Principal{Tenants: []string{"beta"}})
	who = activity.For(who)

	response := strings.Repeat("0123456789", 20_000)
	w := NewSlotWriter(ctx, send)
	require.NotNil(t, w)
	_, err := io.CopyBuffer(struct{ io.Writer }{w}, struct{ io.Reader }{strings.NewReader(response)}, make([]byte, 1000))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	require.Equal(t, response, got.String())
	require.Equal(t, 7, pieces)

	gone := errors.New("the client is gone")
	w = NewSlotWriter(ctx, func([]byte) (int, error) { return 0, gone })
	_, err = w.Write(make([]byte, sendBytes))
	require.ErrorIs(t, err, gone)
	require.NoError(t, w.Close())
	next := NewSlotWriter(ctx, send)
	require.NotNil(t, next, "the slot is free again")
	require.NoError(t, next.Close())
	var none *SlotWriter
	require.NoError(t, none.Close())
}
