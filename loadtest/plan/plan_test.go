package plan

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// roundCosts are round numbers, so that the expected results are easy to compute.
func roundCosts() Costs {
	return Costs{RowBytes: 100, RowSampleBytes: 1, RowWireBytes: 10, CellBytes: 200, CellStoredBytes: 20, CellWireBytes: 50,
		IndexBytes: 4, HoursBytes: 300, DaysBytes: monthDays * 30}
}

func roundLimits() Limits {
	return Limits{RowWritesPerSecond: 10_000, RowReadsPerSecond: 20_000, RowBytes: 1000, ScanBytesPerSecond: 100e6,
		StorageBytes: 1e12, Utilization: 0.5, TabletBytes: 1e9, RequestRows: 10_000, RequestBytes: 1e6, RequestsInFlight: 2}
}

func TestMake(t *testing.T) {
	p, err := Make(Load{Series: 3_600_000, Interval: 36 * time.Second, Raw: 23 * day, FlushWindow: 15 * time.Minute},
		roundCosts(), roundLimits(), Prices{NodeHour: 2, GBMonth: 0.5})
	require.NoError(t, err)
	require.InDelta(t, 100_000, p.SamplesPerSecond, 1e-6)
	require.InDelta(t, 200, p.RowBytes, 1e-6, "100 samples an hour")
	require.InDelta(t, 1e9/(200*24*23), p.TabletSeries, 1e-6)
	indexBytesPerSecond := 3.6e6 * 4 / 86400
	sampleBytes, indexBytes := 3.6e6*24*200*30, 3.6e6*4*30.0

	b := p.Modes[0]
	require.Equal(t, Buffered, b.Name)
	require.InDelta(t, 1000, b.RowsPerSecond, 1e-6, "each series has a row an hour")
	require.InDelta(t, 1000, b.CellsPerSecond, 1e-6)
	require.InDelta(t, 4000, b.PeakRowsPerSecond, 1e-6, "an hour's rows in a quarter")
	require.InDelta(t, 200_000+indexBytesPerSecond, b.BytesPerSecond, 1e-6)
	require.InDelta(t, 210_000+indexBytesPerSecond, b.WireBytesPerSecond, 1e-6)
	require.InDelta(t, sampleBytes, b.Storage.SampleBytes, 1, "a week more than 23 days")
	require.InDelta(t, indexBytes, b.Storage.IndexBytes, 1)
	require.InDelta(t, sampleBytes+indexBytes, b.Storage.TotalBytes, 1)
	require.Equal(t, Nodes{Writing: 1, Reading: 0, Storing: 2, Cluster: 2, Total: 2}, b.Nodes)
	require.InDelta(t, 2*monthHours*2+b.Storage.TotalBytes/1e9*0.5, b.MonthlyCost, 1e-6)
	// 5,000 rows of 200 bytes are a request, 9,058 series a tablet.
	require.InDelta(t, 2*(5000/p.TabletSeries+1), b.FlushTablets, 1e-6)

	c := p.Modes[1]
	require.Equal(t, Direct, c.Name)
	require.InDelta(t, 101_000, c.RowsPerSecond, 1e-6, "each sample, and each row again when it is packed")
	require.InDelta(t, 101_000, c.PeakRowsPerSecond, 1e-6)
	require.InDelta(t, 100_000*200+200_000+indexBytesPerSecond, c.BytesPerSecond, 1e-6)
	require.InDelta(t, 100_000*250+210_000+indexBytesPerSecond, c.WireBytesPerSecond, 1e-6)
	require.InDelta(t, 1000, c.ReadRowsPerSecond, 1e-6)
	require.InDelta(t, 100_000*2*3600*20, c.Storage.UnpackedBytes, 1)
	require.Equal(t, 21, c.Nodes.Writing, "5,000 a second and node")
	require.Equal(t, 1, c.Nodes.Reading)
	require.Equal(t, 21, c.Nodes.Cluster, "the last writing node has capacity left for the reads")
	require.Equal(t, p.Modes[1:], p.OnlyMode(Direct))
}

func TestMakeWithRollups(t *testing.T) {
	plain, err := Make(Load{Series: 1000, ChurnPercent: 10}, roundCosts(), roundLimits(), Prices{})
	require.NoError(t, err)
	p, err := Make(Load{Series: 1000, ChurnPercent: 10, Hours: 93 * day, Days: 193 * day, Replicas: 3, ReadRowsPerSecond: 50_000},
		roundCosts(), roundLimits(), Prices{})
	require.NoError(t, err)
	b := p.Modes[0]
	require.InDelta(t, 1100*300*100, b.Storage.HoursBytes, 1e-3, "1,100 series a day for 93 days and a week")
	require.InDelta(t, 1100*30*200, b.Storage.DaysBytes, 1e-3)
	require.InDelta(t, 1100*4*200, b.Storage.IndexBytes, 1e-3, "as long as the longest rollup")
	require.InDelta(t, plain.Modes[0].RowsPerSecond+1100*(1+1/monthDays)/86400, b.RowsPerSecond, 1e-9)
	require.InDelta(t, 1000*(24+0.1)/86400, plain.Modes[0].RowsPerSecond, 1e-9, "a replacement splits an hour into two rows")
	require.Equal(t, 6, b.Nodes.Reading, "five for queries, one that computes rollups")
	require.Equal(t, 3*b.Nodes.Cluster, b.Nodes.Total)
	require.Zero(t, b.MonthlyCost)
}

// A series with less than a sample an hour has fewer rows.
func TestRareSamples(t *testing.T) {
	l := Load{Series: 10, Interval: 4 * time.Hour}
	require.InDelta(t, 60, l.rowsPerDay(), 1e-9)
	require.InDelta(t, 1, l.samplesPerHour(), 1e-9)
}

func TestMakeRefuses(t *testing.T) {
	for want, l := range map[string]Load{
		"series":               {},
		"interval":             {Series: 1, Interval: time.Microsecond},
		"retention of samples": {Series: 1, Raw: time.Hour},
		"retention of hours":   {Series: 1, Hours: day},
		"which are off":        {Series: 1, Days: 40 * day},
		"retention of days":    {Series: 1, Hours: 60 * day, Days: 40 * day},
		"churn":                {Series: 1, ChurnPercent: -1},
		"replicas":             {Series: 1, Replicas: -1},
		"flush window":         {Series: 1, FlushWindow: 2 * time.Hour},
		"read rows":            {Series: 1, ReadRowsPerSecond: -1},
	} {
		_, err := Make(l, MeasuredCosts(), ServiceLimits(), Prices{})
		require.ErrorContains(t, err, want)
	}
	bad := ServiceLimits()
	bad.Utilization = 1.5
	_, err := Make(Load{Series: 1}, MeasuredCosts(), bad, Prices{})
	require.ErrorContains(t, err, "utilization")
	bad = ServiceLimits()
	bad.StorageBytes = 0
	_, err = Make(Load{Series: 1}, MeasuredCosts(), bad, Prices{})
	require.ErrorContains(t, err, "storage bytes")
	_, err = Make(Load{Series: 1}, MeasuredCosts(), ServiceLimits(), Prices{NodeHour: -1})
	require.ErrorContains(t, err, "price")
}

func TestWriteText(t *testing.T) {
	p, err := Make(Load{Series: 100_000_000}, MeasuredCosts(), ServiceLimits(), Prices{})
	require.NoError(t, err)
	var b strings.Builder
	require.NoError(t, p.WriteText(&b))
	for _, want := range []string{"100,000,000 series", "6,666,667 samples/s", "buffered", "direct", "46.7 TB", "526 bytes"} {
		require.Contains(t, b.String(), want)
	}
	require.NotContains(t, b.String(), "cost per month")
	text, err := json.Marshal(p)
	require.NoError(t, err)
	require.Contains(t, string(text), `"rows_per_second":27777.`)
	for v, want := range map[float64]string{
		0: "-", 1: "1.00 B", 999.4: "999 B", 999.6: "1.00 kB", 12345: "12.3 kB", 4.6e13: "46.0 TB",
	} {
		require.Equal(t, want, bytes(v))
	}
	for v, want := range map[float64]string{0: "-", 7: "7", 0.5: "0.50", 999: "999", 1000: "1,000", 123456789: "123,456,789"} {
		require.Equal(t, want, count(v))
	}
}
