package record

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/stretchr/testify/require"
)

func TestPackedSeriesComeBackSmaller(t *testing.T) {
	p, err := NewSeriesPacker()
	require.NoError(t, err)
	defer p.Close()
	var payload []byte
	for n := range uint32(1000) {
		ls := labels.FromStrings("__name__", "up", "instance", fmt.Sprintf("host-%d:80", n), "job", "node")
		payload = AppendSeries(payload, n+1, ls)
	}
	packed := bytes.Clone(p.Pack(payload))
	require.Less(t, len(packed), len(payload)/3)
	got, err := p.Unpack(packed)
	require.NoError(t, err)
	require.Equal(t, payload, got)

	_, err = p.Unpack(packed[:len(packed)/2])
	require.ErrorIs(t, err, ErrMalformed)
	bomb := bytes.Clone(p.Pack(make([]byte, BytesMax+1)))
	_, err = p.Unpack(bomb)
	require.ErrorIs(t, err, ErrMalformed, "a record that unpacks to more than a payload holds")
}

func FuzzUnpackSeries(f *testing.F) {
	p, err := NewSeriesPacker()
	require.NoError(f, err)
	f.Add(bytes.Clone(p.Pack(AppendSeries(nil, 7, labels.FromStrings("__name__", "up")))))
	f.Add([]byte{0x28, 0xb5, 0x2f, 0xfd})
	f.Fuzz(func(t *testing.T, packed []byte) {
		payload, err := p.Unpack(packed)
		if err != nil {
			require.ErrorIs(t, err, ErrMalformed)
			return
		}
		require.LessOrEqual(t, len(payload), BytesMax)
	})
}
