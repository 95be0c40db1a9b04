package plan_test

import (
	"context"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/stretchr/testify/require"

	"halite/ingest"
	"halite/keyschema"
	"halite/keyschema/chunk"
	"halite/loadtest/fleet"
	"halite/loadtest/plan"
	"halite/rollup/job"
	rollupstore "halite/rollup/store"
	"halite/storage"
	"halite/storage/bigtable"
	"halite/storage/bigtable/emulator"
	"halite/storage/index"
	"halite/storage/pebble"
)

// measureFromMs is the time of the first sample: the first hour of a month.
const measureFromMs = 1_727_740_800_000

// world is a database whose samples are all in the past.
type world struct {
	t        *testing.T
	store    storage.Store
	index    *index.Index
	ingester *ingest.Ingester
	registry *prometheus.Registry
}

// now returns a time long after all samples.
func now() time.Time { return time.UnixMilli(measureFromMs).Add(70 * 24 * time.Hour) }

// newWorld opens a database in an emulator.
func newWorld(t *testing.T) *world {
	server, err := emulator.Start(emulator.Options{})
	require.NoError(t, err)
	t.Cleanup(server.Close)
	registry := prometheus.NewRegistry()
	store, err := bigtable.Open(context.Background(), bigtable.Options{Project: "test-project", Instance: "test-instance",
		EmulatorHost: server.Addr(), Now: now, Registerer: registry})
	require.NoError(t, err)
	return worldOn(t, store, registry)
}

func worldOn(t *testing.T, store storage.Store, registry *prometheus.Registry) *world {
	ctx := context.Background()
	w := &world{t: t, store: store, registry: registry}
	schema, err := keyschema.NewSchema(nil)
	require.NoError(t, err)
	w.index, err = index.Open(ctx, index.Options{Store: w.store, Schema: schema, Now: now})
	require.NoError(t, err)
	w.ingester, err = ingest.Open(ctx, ingest.Options{Dir: "wal", FS: vfs.NewMem(), Store: w.store, Index: w.index,
		Schema: schema, FreeBytesMin: -1, Now: now, Head: ingest.HeadOptions{FlushInterval: -1}})
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, w.ingester.Close(ctx))
		require.NoError(t, w.store.Close())
	})
	return w
}

// fill writes and flushes the samples of a fleet; it returns the number of series.
func (w *world) fill(opts fleet.Options, step, span time.Duration) (series int) {
	opts.StepSeconds = step.Seconds()
	f, err := fleet.New(opts)
	require.NoError(w.t, err)
	for u := range f.Units() {
		unit := f.Unit(u)
		var names []labels.Labels
		for _, s := range unit.Series() {
			b := labels.NewBuilder(labels.FromStrings("__name__", s.Metric))
			for _, tag := range s.Tags {
				b.Set(tag.Name, tag.Value)
			}
			names = append(names, b.Labels())
		}
		series += len(names)
		var batch []ingest.Sample
		for n := range int(span / step) {
			values, _ := unit.Step()
			for i, v := range values {
				batch = append(batch, ingest.Sample{Labels: names[i], TsMs: measureFromMs + int64(n)*step.Milliseconds(), Value: v})
			}
			if len(batch) < 5000 && n+1 < int(span/step) {
				continue
			}
			_, err := w.ingester.Write(context.Background(), ingest.SamplesInput(batch))
			require.NoError(w.t, err)
			batch = batch[:0]
		}
	}
	require.NoError(w.t, w.ingester.Flush(context.Background()))
	return series
}

// stored counts rows, cells and bytes of keys, qualifiers and values of a family.
func (w *world) stored(name, family string) (rows, cells, sizeBytes float64) {
	table, err := w.store.Table(context.Background(), name)
	require.NoError(w.t, err)
	it := table.ReadRows(context.Background(), storage.RowSet{Ranges: []storage.RowRange{{}}}, storage.ReadOptions{
		Filter: storage.Filter{Families: []string{family}}})
	for it.Next() {
		rows++
		sizeBytes += float64(len(it.Row().Key))
		for _, c := range it.Row().Cells {
			cells++
			sizeBytes += float64(len(c.Qualifier) + len(c.Value))
		}
	}
	require.NoError(w.t, it.Err())
	require.NoError(w.t, it.Close())
	return rows, cells, sizeBytes
}

// metric returns the sum of a counter or histogram over all label sets, without the label sets of other methods.
func (w *world) metric(name, method string) (sum float64) {
	families, err := w.registry.Gather()
	require.NoError(w.t, err)
	for _, f := range families {
		for _, m := range f.Metric {
			if f.GetName() == name && (method == "" || m.Label[0].GetValue() == method) {
				sum += m.GetCounter().GetValue() + m.GetHistogram().GetSampleSum()
			}
		}
	}
	return sum
}

// overhead returns the bytes that requests have sent in addition to their rows.
func (w *world) overhead() float64 {
	return w.metric("tsdb_bigtable_sent_bytes_total", "MutateRows") - w.metric("tsdb_bigtable_write_request_bytes", "")
}

// TestCostsAreTrue measures the costs of the plan again.
func TestCostsAreTrue(t *testing.T) {
	want, got := plan.MeasuredCosts(), plan.Costs{}
	hosts := fleet.Options{Hosts: 10}

	dense, sparse := newWorld(t), newWorld(t)
	dense.fill(hosts, 15*time.Second, time.Hour)
	denseRows, _, denseBytes := dense.stored(storage.TableData, storage.FamilySamples)
	got.RowWireBytes = dense.overhead() / denseRows
	sparse.fill(hosts, time.Minute, time.Hour)
	sparseRows, _, sparseBytes := sparse.stored(storage.TableData, storage.FamilySamples)
	got.RowSampleBytes = (denseBytes/denseRows - sparseBytes/sparseRows) / 180
	got.RowBytes = sparseBytes/sparseRows - 60*got.RowSampleBytes
	got.CellBytes, got.CellStoredBytes, got.CellWireBytes = measureCells(t, dense)

	world := newWorld(t)
	series := world.fill(fleet.Options{Hosts: 20}, 6*time.Hour, 3*24*time.Hour)
	require.NoError(t, world.index.Maintain(context.Background()))
	for table, family := range map[string]string{storage.TableSeries: storage.FamilyIndex,
		storage.TableLabels: storage.FamilyIndex, storage.TableMeta: storage.FamilyMeta} {
		_, _, sizeBytes := world.stored(table, family)
		got.IndexBytes += sizeBytes / float64(series*3)
	}

	got.HoursBytes, got.DaysBytes = measureRollups(t)
	t.Logf("measured: %+v", got)
	for name, pair := range map[string][2]float64{
		"RowBytes": {want.RowBytes, got.RowBytes}, "RowSampleBytes": {want.RowSampleBytes, got.RowSampleBytes},
		"RowWireBytes": {want.RowWireBytes, got.RowWireBytes}, "CellBytes": {want.CellBytes, got.CellBytes},
		"CellStoredBytes": {want.CellStoredBytes, got.CellStoredBytes}, "CellWireBytes": {want.CellWireBytes, got.CellWireBytes},
		"IndexBytes": {want.IndexBytes, got.IndexBytes}, "HoursBytes": {want.HoursBytes, got.HoursBytes},
		"DaysBytes": {want.DaysBytes, got.DaysBytes},
	} {
		require.InEpsilon(t, pair[0], pair[1], 0.1, "%s: the plan reckons with %g, measured are %g", name, pair[0], pair[1])
	}
}

// measureCells writes one sample of each series as a separate cell.
func measureCells(t *testing.T, w *world) (cellBytes, restBytes, wireBytes float64) {
	table, err := w.store.Table(context.Background(), storage.TableData)
	require.NoError(t, err)
	f, err := fleet.New(fleet.Options{Hosts: 10})
	require.NoError(t, err)
	rule := keyschema.DefaultRule()
	var muts []storage.RowMutation
	sizeBytes, valueBytes := 0, 0
	hour := keyschema.HourOf(measureFromMs) + 1
	for u := range f.Units() {
		for _, s := range f.SeriesOf(u, 0) {
			e := storage.Entry{Kind: storage.SetCell, Family: storage.FamilySamples, TsMs: keyschema.HourCellMs(hour),
				Qualifier: keyschema.AppendSampleQualifier(nil, 1234), Value: chunk.AppendSampleValue(nil, 0.5)}
			m := storage.RowMutation{Key: keyschema.AppendHour(rule.AppendPrefix(nil, s.Metric, s.Tags), hour),
				Entries: []storage.Entry{e}}
			valueBytes = len(e.Qualifier) + len(e.Value)
			sizeBytes += len(m.Key) + valueBytes
			muts = append(muts, m)
		}
	}
	before := w.overhead()
	require.NoError(t, table.Apply(context.Background(), muts))
	const timestampBytes = 8
	n := float64(len(muts))
	return float64(sizeBytes) / n, float64(valueBytes + timestampBytes), (w.overhead() - before) / n
}

// measureRollups computes the rollups of a month on the embedded engine. Its cells have the same bytes, and the emulator
// would read all rows for each day.
func measureRollups(t *testing.T) (hoursBytes, daysBytes float64) {
	store, err := pebble.Open(pebble.Options{Dir: "tables", FS: vfs.NewMem(), Now: now})
	require.NoError(t, err)
	w := worldOn(t, store, nil)
	w.fill(fleet.Options{Hosts: 1, Services: 1}, 10*time.Minute, 31*24*time.Hour)
	kept := keyschema.NewRetention(keyschema.KeepFor(3650 * 24 * time.Hour).Load())
	all, err := job.Open(context.Background(), rollupstore.Options{Tables: w.store, Retention: kept, Now: now},
		job.Options{Settle: -1, Share: 1})
	require.NoError(t, err)
	for worked := true; worked; {
		worked, err = all.Step(context.Background())
		require.NoError(t, err)
	}
	_, hours, sizeBytes := w.stored(storage.TableRollup, storage.FamilyHours)
	hoursBytes = sizeBytes / hours
	_, months, sizeBytes := w.stored(storage.TableRollup, storage.FamilyDays)
	return hoursBytes, sizeBytes / months
}
