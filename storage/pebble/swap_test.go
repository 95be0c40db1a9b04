package pebble

import (
	"errors"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"halite/storage/pebble/cellkey"
)

// TestViewWaits starts a read while a swap is under way: only one of that partition waits.
func TestViewWaits(t *testing.T) {
	s, err := Open(Options{Dir: "/data", FS: vfs.NewMem(), CacheBytes: 1 << 20})
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	at, other := cellkey.NewHeader(1, 1, 7), cellkey.NewHeader(1, 1, 8)
	only := func(want cellkey.Header) func(cellkey.Header) bool {
		return func(h cellkey.Header) bool { return h == want }
	}
	var views int
	view := func(h cellkey.Header) {
		it, err := s.newView(only(h))
		require.NoError(t, err)
		require.NoError(t, it.Close())
		views++
	}
	waiting := make(chan struct{})
	over := false
	failed := errors.New("as the tree says")
	err = s.swaps.swap(at, func() error {
		view(other)
		go func() {
			defer close(waiting)
			it, err := s.newView(only(at))
			if err == nil {
				err = it.Close()
			}
			if err != nil || !over {
				t.Errorf("over %t, error %v", over, err)
			}
		}()
		view(other)
		over = true // before the swap's lock is given back, and so before the reader goes on
		return failed
	})
	require.ErrorIs(t, err, failed)
	<-waiting
	view(at)
	require.Equal(t, 3, views)
}

func FuzzDayChunkValue(f *testing.F) {
	codec := &DayChunkCodec{Name: "x", Append: func(dst []byte, values [][]byte) []byte {
		for _, v := range values {
			dst = append(dst, v...)
		}
		return dst
	}}
	var c dayChunkCells
	for h := range uint8(dayHours) {
		c.bytes = append(c.bytes, h)
		c.add(h, []byte{'r', 0, 0, 1, 24 - h})
		f.Add(c.appendValue(nil, codec))
	}
	c.add(dayHours-1, []byte("s"))
	f.Add(c.appendValue(nil, codec))
	f.Fuzz(func(t *testing.T, value []byte) {
		b := dayChunk{codec: codec}
		if b.open(value) != nil {
			return
		}
		var again dayChunkCells
		for i, hour := range b.hours {
			again.add(hour, b.qualifier(i))
		}
		again.bytes = b.blob
		again.valTo[len(again.valTo)-1] = len(b.blob)
		o := dayChunk{codec: codec}
		require.NoError(t, o.open(again.appendValue(nil, codec)))
		require.Equal(t, b.hours, o.hours)
		require.Equal(t, b.quals, o.quals)
		require.Equal(t, b.qualTo, o.qualTo)
		require.Equal(t, string(b.blob), string(o.blob))
	})
}
