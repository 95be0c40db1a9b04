package remote

import (
	"bytes"
	"io"
	"testing"

	"github.com/prometheus/prometheus/prompb"
	"github.com/stretchr/testify/require"
)

// FuzzFrames reads damaged streams. The decoder fails or returns frames, within its memory limit.
func FuzzFrames(f *testing.F) {
	e := NewFrameEncoder()
	var stream []byte
	for n := range 3 {
		frame, err := e.Encode(&prompb.ChunkedReadResponse{QueryIndex: int64(n), ChunkedSeries: []*prompb.ChunkedSeries{{
			Labels: []prompb.Label{{Name: "a", Value: "b"}}, Chunks: []prompb.Chunk{{MinTimeMs: 1, Data: []byte{0, 1, 2}}},
		}}})
		require.NoError(f, err)
		stream = append(stream, frame...)
	}
	f.Add(stream)
	f.Fuzz(func(t *testing.T, stream []byte) {
		const bytesMax = 1 << 16
		d := NewFrameDecoder(bytes.NewReader(stream), bytesMax)
		for {
			var m prompb.ChunkedReadResponse
			err := d.Decode(&m)
			require.LessOrEqual(t, cap(d.buf), 2*bytesMax)
			if err != nil {
				return
			}
		}
	})
}

// TestFrames reads back what the encoder writes, and finds damage.
func TestFrames(t *testing.T) {
	e := NewFrameEncoder()
	frame, err := e.Encode(&prompb.ChunkedReadResponse{QueryIndex: 7})
	require.NoError(t, err)
	var m prompb.ChunkedReadResponse
	d := NewFrameDecoder(bytes.NewReader(frame), 100)
	require.NoError(t, d.Decode(&m))
	require.EqualValues(t, 7, m.QueryIndex)
	require.ErrorIs(t, d.Decode(&m), io.EOF)
	frame[len(frame)-1]++
	require.ErrorContains(t, NewFrameDecoder(bytes.NewReader(frame), 100).Decode(&m), "its checksum is wrong")
	require.ErrorIs(t, NewFrameDecoder(bytes.NewReader(frame[:3]), 100).Decode(&m), ErrFrame)
	require.ErrorContains(t, NewFrameDecoder(bytes.NewReader(frame), 1).Decode(&m), "more than the limit of 1")
}
