package transfer

import (
	"encoding/binary"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/stretchr/testify/require"
)

// TestReadWholeRefuses: a response without frames that is too large, or is not snappy, is an error that says which.
func TestReadWholeRefuses(t *testing.T) {
	for body, want := range map[string]string{
		string(binary.AppendUvarint(nil, frameBytesMax+1)): "larger than 268435456 bytes: read a shorter time",
		strings.Repeat("\xff", 10):                         "is not snappy: ",
		"\x05\x01":                                         "is not snappy: ",
	} {
		err := readWhole(strings.NewReader(body), func(labels.Labels, chunkenc.Iterator) error { return nil })
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), "%!")
	}
}
