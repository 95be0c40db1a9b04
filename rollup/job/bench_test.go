package job

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"halite/keyschema"
	"halite/keyschema/chunk"
	"halite/rollup"
	"halite/rollup/store"
	"halite/storage"
)

const (
	benchSeries   = 500
	benchInterval = 15_000
	benchSamples  = dayMs / benchInterval
)

// fleetValue is the next value of one of several kinds of series: half counters, a third gauges, the rest constant.
func fleetValue(rng *rand.Rand, kind int, at float64) float64 {
	switch kind % 6 {
	case 0, 1, 2:
		return at + math.Floor(1000*rng.Float64())
	case 3, 4:
		return math.Round(at + (rng.Float64()*2-1)*50 + (3000-at)*0.02)
	}
	return at
}

// benchRig opens a rig with some days of a fleet.
func benchRig(b *testing.B, days int64) (*rig, [][]byte) {
	b.Helper()
	r := openRig(b, vfs.NewMem(), newClock(firstDay+days), nil)
	rng := rand.New(rand.NewPCG(1, 2))
	all := make([]*series, benchSeries)
	at := make([]float64, benchSeries)
	for i := range all {
		all[i] = newSeries(i)
		at[i] = 3000
	}
	sortSeries(all)
	var encoder chunk.Encoder
	for day := int64(firstDay); day < firstDay+days; day++ {
		var muts []storage.RowMutation
		for i, s := range all {
			rows := make([]storage.RowMutation, 0, keyschema.DayHours)
			for h := range int64(keyschema.DayHours) {
				rows = append(rows, benchRow(b, rng, &encoder, s, day*keyschema.DayHours+h, i, &at[i]))
			}
			for h := len(rows) - 1; h >= 0; h-- {
				muts = append(muts, rows[h])
			}
		}
		if err := r.raw.Load(context.Background(), muts); err != nil {
			b.Fatal(err)
		}
	}
	return r, prefixes(all)
}

func benchRow(
	b *testing.B, rng *rand.Rand, encoder *chunk.Encoder, s *series, hour int64, kind int, at *float64,
) storage.RowMutation {
	var tsMs []int64
	var values []float64
	for ts := keyschema.HourStartMs(hour) + int64(kind); ts < keyschema.HourStartMs(hour+1); ts += benchInterval {
		*at = fleetValue(rng, kind, *at)
		tsMs, values = append(tsMs, ts), append(values, *at/float64([]int{1, 1, 100}[kind%3]))
	}
	packed, err := encoder.Append(nil, keyschema.HourStartMs(hour), tsMs, values)
	if err != nil {
		b.Fatal(err)
	}
	return storage.RowMutation{Key: keyschema.AppendHour(bytes.Clone(s.prefix), hour), Entries: []storage.Entry{{
		Kind: storage.SetCell, Family: storage.FamilySamples, TsMs: keyschema.HourCellMs(hour),
		Qualifier: keyschema.AppendChunkQualifier(nil, 1), Value: packed,
	}}}
}

// cpu returns the processor time of this process.
func cpu(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkDayClose runs the job over one day. It reports processor time, bytes of cells and bytes of the table per raw
// sample. The table includes keys and the days of the month, and is compressed less than after a compaction.
func BenchmarkDayClose(b *testing.B) {
	r, _ := benchRig(b, 1)
	defer r.close(b)
	r.clock.Add(40 * dayMs) // the month is over, too
	if err := r.Rebuild(context.Background(), firstDay, firstDay); err != nil {
		b.Fatal(err)
	}
	table := uint64(0)
	tablets, err := r.Table.Tablets(context.Background())
	if err != nil {
		b.Fatal(err)
	}
	for _, tablet := range tablets {
		table += tablet.SizeBytes
	}
	before := cpu(b)
	for b.Loop() {
		r.planDay(b, firstDay)
		if err := r.computeDay(context.Background(), firstDay); err != nil {
			b.Fatal(err)
		}
	}
	samples := float64(b.N) * benchSeries * benchSamples
	b.ReportMetric(float64((cpu(b)-before).Nanoseconds())/samples, "cpu-ns/sample")
	b.ReportMetric(float64(table)/(benchSeries*benchSamples), "table-B/sample")
	size := 0
	it := r.Table.ReadRows(context.Background(), allRows(), storage.ReadOptions{})
	for it.Next() {
		for _, c := range it.Row().Cells {
			size += len(c.Value)
		}
	}
	if err := it.Close(); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(size)/(benchSeries*benchSamples), "B/sample")
}

// BenchmarkRead7d answers functions over m[7d] from states: it reads, decodes, joins and evaluates them for each series.
func BenchmarkRead7d(b *testing.B) {
	r, all := benchRig(b, 8)
	defer r.close(b)
	r.clock.Add(keyschema.HourMs)
	if err := r.Rebuild(context.Background(), firstDay, firstDay+8); err != nil {
		b.Fatal(err)
	}
	endMs := int64(firstDay+8)*dayMs - 30*60_000
	startMs := endMs - 7*dayMs
	for _, f := range []rollup.Func{rollup.MaxOverTime, rollup.AvgOverTime, rollup.Increase} {
		b.Run(f.String(), func(b *testing.B) {
			req := store.Request{Prefixes: all, From: startMs / keyschema.HourMs, To: endMs / keyschema.HourMs, Fields: f.Fields()}
			before, sum := cpu(b), 0.0
			for b.Loop() {
				err := r.Read(context.Background(), req, func(_ int, c *rollup.Columns) error {
					i, j := c.Inside(startMs, endMs)
					state := c.Join(i, j)
					v, has, _ := f.Eval(&state, startMs, endMs)
					if !has || j-i != 7*24-1 {
						return fmt.Errorf("%d hours, value %v", j-i, has)
					}
					sum += v
					return nil
				})
				if err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64((cpu(b)-before).Microseconds())/float64(b.N)/benchSeries, "cpu-µs/series")
		})
	}
}
