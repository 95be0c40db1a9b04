package journal

import (
	"bytes"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"halite/keyschema"
	"halite/storage"
	"halite/storage/index/envelope"
	"halite/storage/index/segment"
	"halite/storage/index/valueid"
)

// TestCursor: a scan reads the records after a gap again, until two scans have found the gap.
func TestCursor(t *testing.T) {
	c := newCursor()
	writer := segment.NewWriter()
	in := func(seq uint32) bool {
		key := string(segment.WriterRecordKey(5, writer, seq))
		return slices.ContainsFunc(c.unread(), func(r storage.RowRange) bool {
			return key >= string(r.Start) && key < string(r.End)
		})
	}
	c.add(5, writer, 0)
	c.add(5, writer, 2)
	c.endScan()
	require.False(t, in(0))
	require.True(t, in(1))
	require.True(t, in(2))
	c.add(5, writer, 1)
	c.add(5, writer, 2)
	c.endScan()
	require.False(t, in(1))
	require.False(t, in(2))
	c.add(5, writer, 4)
	c.endScan()
	require.True(t, in(3))
	c.add(5, writer, 4)
	c.endScan()
	require.False(t, in(3))
	require.False(t, in(4))
	require.True(t, in(5))
	require.True(t, len(c.unread()) == 2)
}

// exampleRecord is the payload of a record with two series behind three others.
func exampleRecord() []byte {
	return appendRecord(nil, &record{
		base: 3, rows: 2, names: []recordName{{name: "job", values: []string{"web", "node"}}},
		metrics: []recordMetric{{metric: "up", rows: 2, columns: []recordColumn{{ids: valueid.Pack([]uint32{1, 2})}}}},
		runs:    []hourRun{{row: 0, count: 1, hours: 1}, {row: 3, count: 2, hours: 6}},
	})
}

// FuzzRecord parses arbitrary bytes. An accepted record survives a round trip.
func FuzzRecord(f *testing.F) {
	f.Add(exampleRecord())
	f.Fuzz(func(t *testing.T, payload []byte) {
		r, err := parseRecord(payload)
		if err != nil {
			return
		}
		_, err = parseRecord(appendRecord(nil, r))
		require.NoError(t, err)
	})
}

// FuzzLabelSet parses arbitrary bytes as a label set. An accepted label set survives a round trip.
func FuzzLabelSet(f *testing.F) {
	payload := func(tags []keyschema.Tag) []byte {
		value := LabelSetMutation("", tags).Entries[0].Value
		return value[1 : len(value)-4]
	}
	f.Add(payload([]keyschema.Tag{{Name: "code", Value: "200"}, {Name: "job", Value: "web"}}))
	f.Fuzz(func(t *testing.T, data []byte) {
		tags, err := parseLabelSet(data)
		if err != nil {
			return
		}
		again, err := parseLabelSet(payload(tags))
		require.NoError(t, err)
		require.Equal(t, tags, again)
	})
}

// FuzzPacker: compressed bytes survive a round trip. Arbitrary bytes do not panic and do not decompress beyond the bound.
func FuzzPacker(f *testing.F) {
	f.Add(bytes.Repeat(exampleRecord(), 20))
	f.Add([]byte("\x05\x28\xb5\x2f\xfd\x04\x00\x29\x00\x00hello"))
	f.Fuzz(func(t *testing.T, data []byte) {
		var k packer
		defer k.close()
		if out, err := k.payload(data, envelope.FormatV2); err == nil {
			_, _ = parseRecord(out)
		}
		blob, err := k.blob(data)
		require.NoError(t, err)
		require.LessOrEqual(t, len(blob), len(data)+envelope.OverheadBytes)
		back, err := k.payload(blob[1:], blob[0])
		require.NoError(t, err)
		require.Equal(t, string(data), string(back))
	})
}
