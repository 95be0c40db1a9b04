package record

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/stretchr/testify/require"
)

func inColumns(series []seriesRecord) []byte {
	c := NewSeriesColumns()
	for _, s := range series {
		c.Add(s.ref, s.ls)
	}
	return c.Append(nil)
}

func parseColumns(payload []byte) (series []seriesRecord, err error) {
	err = ParseSeriesColumns(payload, func(ref uint32, ls []labels.Label) error {
		series = append(series, seriesRecord{ref, labels.New(ls...)})
		return nil
	})
	return series, err
}

func TestSeriesColumnsComeBack(t *testing.T) {
	for seed := range uint64(50) {
		rng := rand.New(rand.NewPCG(seed, 1))
		var series []seriesRecord
		for range rng.IntN(100) {
			b := labels.NewScratchBuilder(4)
			for i := range rng.IntN(5) {
				b.Add(fmt.Sprintf("n%02d", i*3+rng.IntN(3)), fmt.Sprint("value", rng.IntN(1+rng.IntN(1000))))
			}
			series = append(series, seriesRecord{rng.Uint32() >> rng.IntN(32), b.Labels()})
		}
		got, err := parseColumns(inColumns(series))
		require.NoError(t, err, "seed %d", seed)
		require.Equal(t, series, got, "seed %d", seed)
	}
}

// TestSeriesColumnsBytes holds the example of FORMAT.md.
func TestSeriesColumnsBytes(t *testing.T) {
	payload := inColumns([]seriesRecord{
		{7, labels.FromStrings("__name__", "up", "job", "node")},
		{8, labels.FromStrings("__name__", "up", "job", "db")},
		{2, labels.EmptyLabels()},
	})
	require.Equal(t, "\x03\x0e\x02\x0b"+"\x02\x02\x08__name__\x03job\x00"+"\x00\x00\x01"+
		"\x01\x02up\x00\x00"+"\x02\x04node\x02db\x00\x01", string(payload))
}

// TestSeriesColumnsPack compares with the label sets one after the other.
func TestSeriesColumnsPack(t *testing.T) {
	p, err := NewSeriesPacker()
	require.NoError(t, err)
	defer p.Close()
	var payload []byte
	c := NewSeriesColumns()
	for n := range 10_000 {
		host := n / 100
		ls := labels.FromStrings("__name__", fmt.Sprintf("metric_%d_total", n%100/4), "datacenter", fmt.Sprint("dc-", host%7),
			"device", fmt.Sprint("disk", n%4), "instance", fmt.Sprintf("host-%05d.example.net:9100", host),
			"job", "node", "rack", fmt.Sprint("rack-", host/3))
		payload = AppendSeries(payload, uint32(n+1), ls)
		c.Add(uint32(n+1), ls)
	}
	require.GreaterOrEqual(t, c.SizeBytes(), len(payload))
	packed := len(p.Pack(payload))
	columns := bytes.Clone(p.Pack(c.Append(nil)))
	t.Logf("%d series: %d bytes, packed %d, in columns %d", 10_000, len(payload), packed, len(columns))
	require.Less(t, len(columns)*4, packed)
	got, err := p.Unpack(columns)
	require.NoError(t, err)
	count := 0
	require.NoError(t, ParseSeriesColumns(got, func(uint32, []labels.Label) error { count++; return nil }))
	require.Equal(t, 10_000, count)
}

func TestSeriesColumnsRefuse(t *testing.T) {
	for name, payload := range map[string]string{
		"nothing":                    "",
		"more series than bytes":     "\x7f",
		"number below 0":             "\x01\x01\x01\x00\x00",
		"number of more than 4 byte": "\x01\xfe\xff\xff\xff\xff\x00\x01\x00\x00",
		"names not ascending":        "\x01\x02\x01\x02\x01b\x01a\x00\x01\x01x\x00\x01\x01x\x00",
		"no such shape":              "\x01\x02\x01\x00\x01",
		"no such value":              "\x01\x02\x01\x01\x01a\x00\x01\x01x\x01",
		"more values than series":    "\x01\x02\x01\x01\x01a\x00\x02\x01x\x01y\x00",
		"cells missing":              "\x02\x02\x02\x01\x01\x01a\x00\x00\x01\x01x\x00",
		"something left":             "\x01\x02\x01\x01\x01a\x00\x01\x01x\x00\x00",
	} {
		_, err := parseColumns([]byte(payload))
		require.ErrorIs(t, err, ErrMalformed, name)
	}
	long := labels.FromStrings("a", string(make([]byte, BytesMax/2)))
	_, err := parseColumns(inColumns([]seriesRecord{{1, long}, {2, long}, {math.MaxUint32, long}}))
	require.ErrorIs(t, err, ErrMalformed, "a small payload of series too long for a payload")
}

// FuzzSeriesColumns: what parses survives encoding and parsing again.
func FuzzSeriesColumns(f *testing.F) {
	f.Add(inColumns([]seriesRecord{
		{1, labels.FromStrings("a", "b", "c", "")}, {9, labels.EmptyLabels()}, {3, labels.FromStrings("c", "b")},
	}))
	f.Add([]byte("\x01\x02\x01\x01\x01a\x00\x01\x01x\x00"))
	f.Fuzz(func(t *testing.T, payload []byte) {
		series, err := parseColumns(payload)
		if err != nil {
			require.ErrorIs(t, err, ErrMalformed)
			return
		}
		again, err := parseColumns(inColumns(series))
		require.NoError(t, err)
		require.Equal(t, series, again)
	})
}
