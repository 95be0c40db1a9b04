package daycells

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func FuzzDayChunkValue(f *testing.F) {
	codec := &Codec{Name: "x", Append: func(dst []byte, values [][]byte) []byte {
		for _, v := range values {
			dst = append(dst, v...)
		}
		return dst
	}}
	var c Builder
	for h := range uint8(DayHours) {
		c.Bytes = append(c.Bytes, h)
		c.Add(h, []byte{'r', 0, 0, 1, 24 - h})
		f.Add(c.AppendValue(nil, codec))
	}
	c.Add(DayHours-1, []byte("s"))
	f.Add(c.AppendValue(nil, codec))
	f.Fuzz(func(t *testing.T, value []byte) {
		b := Reader{Codec: codec}
		if b.Open(value) != nil {
			return
		}
		var again Builder
		for i, hour := range b.Hours {
			again.Add(hour, b.Qualifier(i))
		}
		again.Bytes = b.blob
		again.valTo[len(again.valTo)-1] = len(b.blob)
		o := Reader{Codec: codec}
		require.NoError(t, o.Open(again.AppendValue(nil, codec)))
		require.Equal(t, b.Hours, o.Hours)
		require.Equal(t, b.quals, o.quals)
		require.Equal(t, b.qualTo, o.qualTo)
		require.Equal(t, string(b.blob), string(o.blob))
	})
}
