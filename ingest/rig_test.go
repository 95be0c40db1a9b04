package ingest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/klauspost/compress/snappy"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/prompb"
	"github.com/stretchr/testify/require"

	"halite/ingest/ingesttest"
	"halite/keyschema"
	"halite/keyschema/chunk"
	"halite/storage"
	"halite/storage/index"
	"halite/storage/pebble"
)

// startMs is the rig's clock at the beginning: 20 minutes into an hour.
const startMs = ingesttest.StartMs

// rig is an ingester with engine and index on one file system. Background jobs are off: tests call step.
type rig struct {
	t      testing.TB
	fs     vfs.FS
	clock  *ingesttest.Clock
	store  storage.Store
	index  *index.Index
	schema *keyschema.Schema
	reg    *prometheus.Registry
	*Ingester
}

// openRig opens everything on fs; tweak may change the options.
func openRig(t testing.TB, fs vfs.FS, c *ingesttest.Clock, tweak func(*Options)) *rig {
	t.Helper()
	r, err := tryRig(t, fs, c, tweak)
	require.NoError(t, err)
	return r
}

func tryRig(t testing.TB, fs vfs.FS, c *ingesttest.Clock, tweak func(*Options)) (*rig, error) {
	ctx := context.Background()
	store, err := pebble.Open(pebble.Options{
		Dir: "/db/data", FS: fs, CacheBytes: 1 << 20, MemtableBytes: 256 << 10, Now: c.Now,
	})
	if err != nil {
		return nil, fmt.Errorf("open the engine: %w", err)
	}
	r, err := rigOn(ctx, t, fs, c, store, tweak)
	if err != nil {
		return nil, errors.Join(err, store.Close())
	}
	return r, nil
}

func rigOn(
	ctx context.Context, t testing.TB, fs vfs.FS, c *ingesttest.Clock, store storage.Store, tweak func(*Options),
) (*rig, error) {
	r := &rig{t: t, fs: fs, clock: c, store: store, reg: prometheus.NewRegistry()}
	var err error
	if r.schema, err = keyschema.NewSchema(nil); err != nil {
		return nil, err
	}
	opts := Options{
		Dir: "/db/wal", FS: fs, Store: store, Schema: r.schema, Now: c.Now, Registerer: r.reg, WALCommitDelay: -1,
		Head: HeadOptions{Stripes: 4, FlushInterval: -1},
	}
	if tweak != nil {
		tweak(&opts)
	}
	r.index, err = index.Open(ctx, index.Options{
		Store: store, Schema: r.schema, Retention: opts.Retention, Now: c.Now, CacheBytesMax: 1 << 20,
	})
	if err != nil {
		return nil, fmt.Errorf("open the index: %w", err)
	}
	if opts.Store != store {
		r.store = opts.Store
	}
	opts.Index = r.index
	if r.Ingester, err = Open(ctx, opts); err != nil {
		return nil, err
	}
	return r, nil
}

func (r *rig) close() {
	r.t.Helper()
	require.NoError(r.t, r.Close(context.Background()))
	require.NoError(r.t, r.store.Close())
}

// reopen closes everything in order and opens it again.
func (r *rig) reopen(tweak func(*Options)) *rig {
	r.t.Helper()
	r.close()
	return openRig(r.t, r.fs, r.clock, tweak)
}

func (r *rig) flush() {
	r.t.Helper()
	require.NoError(r.t, r.Flush(context.Background()))
}

func (r *rig) doStep() {
	r.t.Helper()
	require.NoError(r.t, r.flusher.Step(context.Background()))
}

// column is what a series holds: bits by time.
type column map[int64]uint64

// read returns a series' samples as a query does: index, then head, then table, the head winning.
func (r *rig) read(ls labels.Labels) (column, error) {
	all := column{}
	err := r.find(ls, func(ctx context.Context, s index.Series, tags []keyschema.Tag) error {
		return r.readSeries(ctx, s, tags, all)
	})
	if err != nil {
		return nil, err
	}
	return all, nil
}

// find visits the entries of a series in the index.
func (r *rig) find(ls labels.Labels, visit func(ctx context.Context, s index.Series, tags []keyschema.Tag) error) error {
	ctx := context.Background()
	matchers := []*labels.Matcher{}
	var tags []keyschema.Tag
	ls.Range(func(l labels.Label) {
		matchers = append(matchers, labels.MustNewMatcher(labels.MatchEqual, l.Name, l.Value))
		if l.Name != model.MetricNameLabel {
			tags = append(tags, keyschema.Tag{Name: l.Name, Value: l.Value})
		}
	})
	found, err := r.index.Select(ctx, nil, 0, math.MaxInt64/2, matchers...)
	if err != nil {
		return err
	}
	for _, s := range found {
		if !labels.Equal(s.Labels, ls) {
			continue
		}
		if err := visit(ctx, s, tags); err != nil {
			return err
		}
	}
	return nil
}

func (r *rig) readSeries(ctx context.Context, s index.Series, tags []keyschema.Tag, into column) error {
	inHead, err := r.readHead(s.Ref)
	if err != nil {
		return err
	}
	data, err := r.store.Table(ctx, storage.TableData)
	if err != nil {
		return err
	}
	metric := s.Labels.Get(model.MetricNameLabel)
	var set storage.RowSet
	for _, span := range s.Hours {
		for hour := span.First; hour <= span.Last; hour++ {
			prefix := r.schema.RuleAt(metric, hour).AppendPrefix(nil, metric, tags)
			set.Keys = append(set.Keys, keyschema.AppendHour(prefix, hour))
		}
	}
	rows := data.ReadRows(ctx, set, storage.ReadOptions{Filter: storage.Filter{Families: []string{storage.FamilySamples}}})
	var fold chunk.Row
	for rows.Next() {
		key, err := keyschema.ParseRowKey(rows.Row().Key)
		if err != nil {
			return err
		}
		fold.Reset(keyschema.HourStartMs(key.Hour))
		for _, cell := range rows.Row().Cells {
			if err := fold.Add(cell.Qualifier, cell.Value); err != nil {
				return err
			}
		}
		tsMs, values := fold.Columns()
		for i, at := range tsMs {
			into[at] = math.Float64bits(values[i])
		}
	}
	if err := rows.Err(); err != nil {
		return err
	}
	maps.Copy(into, inHead)
	return rows.Close()
}

func (r *rig) readHead(ref index.Ref) (column, error) {
	c := column{}
	if ref == 0 {
		return c, nil
	}
	tsMs, values, err := r.AppendSamples(ref, 0, math.MaxInt64, nil, nil)
	for i, at := range tsMs {
		if i > 0 && tsMs[i-1] >= at {
			return nil, fmt.Errorf("head samples not ascending at %d", at)
		}
		c[at] = math.Float64bits(values[i])
	}
	return c, err
}

// requireSeries checks that a series holds exactly these samples.
func (r *rig) requireSeries(ls labels.Labels, want column) {
	r.t.Helper()
	got, err := r.read(ls)
	require.NoError(r.t, err)
	require.Equal(r.t, want, got, "series %s", ls)
}

// rejected returns the count of a reason.
func (r *rig) rejected(reason string) float64 {
	return r.counter("tsdb_ingest_rejected_total", "reason", reason)
}

func (r *rig) counter(name, label, value string) float64 {
	r.t.Helper()
	families, err := r.reg.Gather()
	require.NoError(r.t, err)
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			if label == "" || len(m.GetLabel()) == 1 && m.GetLabel()[0].GetValue() == value {
				return m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	return 0
}

// body encodes a request as Prometheus does.
func body(t testing.TB, req *prompb.WriteRequest) []byte {
	t.Helper()
	b, err := req.Marshal()
	require.NoError(t, err)
	return snappy.Encode(nil, b)
}

// series builds a TimeSeries from labels as "name", "value", … and samples of (time, value).
func series(names []string, samples ...prompb.Sample) prompb.TimeSeries {
	ts := prompb.TimeSeries{Samples: samples}
	for n := range slices.Chunk(names, 2) {
		ts.Labels = append(ts.Labels, prompb.Label{Name: n[0], Value: n[1]})
	}
	return ts
}

func sample(tsMs int64, value float64) prompb.Sample {
	return prompb.Sample{Timestamp: tsMs, Value: value}
}

// write sends series as one body and requires that all is accepted.
func (r *rig) write(all ...prompb.TimeSeries) {
	r.t.Helper()
	result, err := r.Write(context.Background(), Input{Body: body(r.t, &prompb.WriteRequest{Timeseries: all})})
	require.NoError(r.t, err)
	require.Zero(r.t, result.Rejected, result.First)
}
