package api

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestBufferPool: large buffers are not kept.
func TestBufferPool(t *testing.T) {
	p := bufferPool{bytesMax: 100}
	b := p.get()
	require.Empty(t, *b)
	*b = append(*b, "0123456789"...)
	p.put(b)
	require.Empty(t, *b)
	big := make([]byte, 1000)
	p.put(&big)
	require.Len(t, big, 1000)
}
