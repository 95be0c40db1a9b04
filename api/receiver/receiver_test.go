package receiver

import (
	"bytes"
	"io"
	"strconv"
	"testing"

	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zlib"
	"github.com/stretchr/testify/require"

	"halite/api/remote"
)

// TestCrashLoopsAreBounded: repeated panics do not fill the memory.
func TestCrashLoopsAreBounded(t *testing.T) {
	var p CrashLoops
	for i := range 10 * crashLoopsMax {
		p.Add([]byte(strconv.Itoa(i)))
	}
	require.LessOrEqual(t, len(p.panics), crashLoopsMax)
}

func TestDecoder(t *testing.T) {
	var d Decoder
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, err := z.Write(bytes.Repeat([]byte("up 1\n"), 1000))
	require.NoError(t, err)
	require.NoError(t, z.Close())
	read := func(encoding string, body []byte, bytesMax int64) ([]byte, error) {
		r, done, err := d.Open(encoding, bytes.NewReader(body), bytesMax)
		if err != nil {
			return nil, err
		}
		defer done()
		return io.ReadAll(r)
	}
	for range 2 { // the second one reuses the reader of the first
		for _, encoding := range []string{"GZIP", "x-gzip"} {
			got, err := read(encoding, packed.Bytes(), 1000)
			require.NoError(t, err)
			require.Len(t, got, 5000)
		}
	}
	got, err := read("", []byte("up 1\n"), 1000)
	require.NoError(t, err)
	require.Equal(t, "up 1\n", string(got))
	_, err = read("gzip", packed.Bytes(), 20)
	require.ErrorIs(t, err, remote.ErrBodyTooLarge)
	_, err = read("gzip", packed.Bytes()[:30], 1000)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	_, err = read("gzip", []byte("up 1 and no gzip"), 1000)
	require.Error(t, err)
	_, err = read("br", nil, 1000)
	require.ErrorIs(t, err, ErrEncoding)
}

// TestDecoderDeflate: deflate has zlib's header, or none.
func TestDecoderDeflate(t *testing.T) {
	text := bytes.Repeat([]byte("up 1\n"), 1000)
	var raw, withHeader bytes.Buffer
	f, err := flate.NewWriter(&raw, flate.DefaultCompression)
	require.NoError(t, err)
	for z, packed := range map[io.WriteCloser]*bytes.Buffer{f: &raw, zlib.NewWriter(&withHeader): &withHeader} {
		_, err := z.Write(text)
		require.NoError(t, err)
		require.NoError(t, z.Close())
		read := func(encoding string, body []byte, bytesMax int64) ([]byte, error) {
			r, done, err := new(Decoder).Open(encoding, bytes.NewReader(body), bytesMax)
			if err != nil {
				return nil, err
			}
			defer done()
			return io.ReadAll(r)
		}
		for _, encoding := range []string{"deflate", "Deflate", "x-deflate"} {
			got, err := read(encoding, packed.Bytes(), 1000)
			require.NoError(t, err)
			require.Equal(t, text, got)
		}
		_, err = read("deflate", packed.Bytes(), int64(packed.Len()-1))
		require.ErrorIs(t, err, remote.ErrBodyTooLarge)
		_, err = read("deflate", packed.Bytes()[:packed.Len()-1], 1000)
		require.ErrorIs(t, err, io.ErrUnexpectedEOF)
		_, err = read("deflate", nil, 1000)
		require.Error(t, err)
	}
	corrupt := bytes.Clone(withHeader.Bytes())
	corrupt[len(corrupt)-1]++
	r, done, err := new(Decoder).Open("deflate", bytes.NewReader(corrupt), 1000)
	require.NoError(t, err)
	defer done()
	_, err = io.ReadAll(r)
	require.ErrorIs(t, err, zlib.ErrChecksum)
}
