package keyviz_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"halite/keyschema"
	"halite/storage"
	"halite/storage/keyviz"
	"halite/storage/keyviz/heat"
	"halite/storage/keyviz/ranges"
	"halite/storage/storagetest"
)

const minute = int64(60_000)

// rig is a collector with its own clock.
type rig struct {
	*keyviz.Collector
	t     *testing.T
	store storage.Store
	opts  keyviz.Options
	now   time.Time
}

func newRig(t *testing.T, change func(o *keyviz.Options)) *rig {
	r := &rig{t: t, now: time.UnixMilli(1_790_000_000_000 / (600_000) * 600_000)}
	r.store = storagetest.NewModel(func() time.Time { return r.now })
	meta, err := r.store.EnsureTable(t.Context(), storage.MetaSchema())
	require.NoError(t, err)
	r.opts = keyviz.Options{Meta: meta, Now: func() time.Time { return r.now }}
	if change != nil {
		change(&r.opts)
	}
	r.open()
	return r
}

func (r *rig) open() {
	var err error
	r.Collector, err = keyviz.Open(r.t.Context(), r.opts)
	require.NoError(r.t, err)
	r.Start(func(dst []byte, ref uint32, hour int64) []byte {
		return keyschema.AppendHour(fmt.Appendf(dst, "up#%02d#instance=%05d#", ref%4, ref), hour)
	}, 0)
}

type written struct {
	Ref   uint32
	TsMs  int64
	Value float64
}

func (r *rig) write(ref uint32, tsMs int64, samples int) {
	b := r.Begin(1)
	for range samples {
		ranges.Add(b, []written{{Ref: ref, TsMs: tsMs}})
	}
	r.End(b)
}

func (r *rig) heatmap(q keyviz.Request) *keyviz.Map {
	r.t.Helper()
	m, err := r.Map(r.t.Context(), q)
	require.NoError(r.t, err)
	return m
}

func total(m *keyviz.Map) (sum float64) {
	for _, column := range m.Values {
		for _, n := range column {
			sum += n
		}
	}
	return sum
}

// TestTotals: a map of any size, level and metric has the same total.
func TestTotals(t *testing.T) {
	r := newRig(t, nil)
	want := 0
	for at := range int64(60) {
		for ref := range uint32(300) {
			n := int(ref+uint32(at))%7 + 1
			r.write(ref, r.now.UnixMilli(), n)
			want += n
		}
		r.Tick(t.Context())
		r.now = r.now.Add(time.Minute)
	}
	nowMs := r.now.UnixMilli()
	for _, q := range []keyviz.Request{
		{}, {Rows: 7}, {Rows: 1, Columns: 1}, {Columns: 13}, {FromMs: nowMs - 24*60*minute}, {FromMs: nowMs - 7*24*60*minute, Rows: 3},
	} {
		m := r.heatmap(q)
		require.InEpsilon(t, want, total(m), 1e-6, "%+v", q)
		require.LessOrEqual(t, len(m.Values), max(q.Columns, keyviz.ColumnsDefault))
	}
	// The maps of two halves of the keys add up to the whole.
	below, above := r.heatmap(keyviz.Request{End: "up#02#"}), r.heatmap(keyviz.Request{Start: "up#02#"})
	require.InEpsilon(t, want, total(below)+total(above), 1e-6)
	require.InEpsilon(t, want/2, total(below), 0.02)
	require.Equal(t, "up#02#", above.Starts[0])
	require.Less(t, below.Starts[len(below.Starts)-1], "up#02#")
}

// TestNewRule: if a rule changes the keys from an hour on, the samples of that hour count at the new keys.
func TestNewRule(t *testing.T) {
	const series = 300
	r := newRig(t, nil)
	next := keyschema.HourOf(r.now.UnixMilli()) + 1
	r.Start(func(dst []byte, ref uint32, hour int64) []byte {
		if hour < next {
			return keyschema.AppendHour(fmt.Appendf(dst, "up#%02d#instance=%05d#", ref%4, ref), hour)
		}
		return keyschema.AppendHour(fmt.Appendf(dst, "moved#00#instance=%05d#", ref), hour)
	}, 0)
	write := func() {
		for ref := range uint32(series) {
			r.write(ref, r.now.UnixMilli(), 2)
		}
		r.Tick(t.Context())
	}
	for range 5 {
		write()
		r.now = r.now.Add(time.Minute)
	}
	r.now = time.UnixMilli(keyschema.HourStartMs(next))
	r.Tick(t.Context())
	for range 5 { // the ranges divide at the new keys
		r.now = r.now.Add(time.Minute)
		write()
	}
	nowMs := r.now.UnixMilli()
	m := r.heatmap(keyviz.Request{FromMs: nowMs - minute, ToMs: nowMs, Start: "moved#", End: "moved#9"})
	require.InEpsilon(t, 2*series, total(m), 0.1)
}

// TestPastSamples: samples with past timestamps count in the columns of their time, also after a restart.
func TestPastSamples(t *testing.T) {
	r := newRig(t, nil)
	nowMs := r.now.UnixMilli()
	r.write(1, nowMs-60*minute, 5)
	r.Tick(t.Context())
	r.write(2, nowMs-60*minute, 7)
	r.write(2, nowMs-10*24*60*minute, 11) // older than the columns of ten minutes
	r.write(2, nowMs-100*24*60*minute, 13)
	r.Close(t.Context())
	for range 2 {
		m := r.heatmap(keyviz.Request{})
		require.InEpsilon(t, 12, total(m), 1e-6)
		at := 0
		for m.TimesMs[at+1] <= nowMs-60*minute {
			at++
		}
		require.False(t, m.Missing[at])
		require.True(t, m.Missing[at+1])
		require.InEpsilon(t, 23, total(r.heatmap(keyviz.Request{FromMs: nowMs - 20*24*60*minute})), 1e-6)
		r.open()
	}
}

// TestRestart: columns and ranges survive a restart, expired columns leave table meta, and servers keep their own rows.
func TestRestart(t *testing.T) {
	r := newRig(t, func(o *keyviz.Options) { o.Server = "a" })
	for ref := range uint32(1000) {
		r.write(ref, r.now.UnixMilli(), 3)
	}
	r.Tick(t.Context())
	for ref := range uint32(1000) {
		r.write(ref, r.now.UnixMilli(), 3)
	}
	r.Tick(t.Context())
	// A column is stored as float32. Rounding may move the borders of merged rows, so this map has a row for each range.
	each := keyviz.Request{Rows: keyviz.RowsMax}
	m := r.heatmap(each)
	require.Greater(t, len(m.Starts), 100)
	require.Less(t, len(m.Starts), keyviz.RowsMax)
	r.Close(t.Context())
	r.open()
	again := r.heatmap(each)
	require.Equal(t, m.Starts, again.Starts)
	require.InDeltaSlice(t, m.Values[len(m.Values)-1], again.Values[len(m.Values)-1], 1e-4)

	other := r.opts
	other.Server, other.Shared = "b", true
	b, err := keyviz.Open(t.Context(), other)
	require.NoError(t, err)
	both, err := b.Map(t.Context(), keyviz.Request{})
	require.NoError(t, err)
	require.InEpsilon(t, 6000, total(both), 1e-6, "a shared server shows the others, too")
	other.Shared = false
	b, err = keyviz.Open(t.Context(), other)
	require.NoError(t, err)
	both, err = b.Map(t.Context(), keyviz.Request{})
	require.NoError(t, err)
	require.Zero(t, total(both))

	shared := r.opts
	shared.Server, shared.Shared, shared.Now = "c", true, func() time.Time { return r.now.Add(7 * time.Hour) }
	cleaner, err := keyviz.Open(t.Context(), shared)
	require.NoError(t, err)
	require.Equal(t, 3, r.rows("keyviz#a#"))
	cleaner.Tick(t.Context())
	require.Equal(t, 2, r.rows("keyviz#a#"), "another server removes expired columns of a server that has ended")
	r.now = r.now.Add(7 * time.Hour)
	r.Tick(t.Context())
	require.Equal(t, 2, r.rows("keyviz#a#"), "the minute expires")
	r.now = r.now.Add(40 * 24 * time.Hour)
	r.Tick(t.Context())
	require.Zero(t, r.rows("keyviz#a#"))
}

func (r *rig) rows(prefix string) (n int) {
	it := r.opts.Meta.ReadRows(r.t.Context(), storage.RowSet{Ranges: []storage.RowRange{{
		Start: []byte(prefix), End: []byte(prefix[:len(prefix)-1] + "$"),
	}}}, storage.ReadOptions{})
	for it.Next() {
		n++
	}
	require.NoError(r.t, errors.Join(it.Err(), it.Close()))
	return n
}

// starts lists the starts of all ranges of all columns in table meta.
func (r *rig) starts() (all []string) {
	codec, err := heat.NewCodec()
	require.NoError(r.t, err)
	it := r.opts.Meta.ReadRows(r.t.Context(), storage.RowSet{Ranges: []storage.RowRange{{}}}, storage.ReadOptions{})
	for it.Next() {
		row := it.Row()
		column, err := codec.Parse(row.Cells[0].Value)
		require.NoError(r.t, err)
		all = append(all, column.Starts...)
	}
	require.NoError(r.t, errors.Join(it.Err(), it.Close()))
	return all
}

// TestDropTenant: no column and no range names a dropped tenant, even if one of its requests ran during the drop. The counts
// of others stay. The map counts the tenant again if it comes back.
func TestDropTenant(t *testing.T) {
	r := newRig(t, nil)
	tenants := []string{"", "&acme&", "&acmecorp&", "&beta&"}
	keys := func(dst []byte, ref uint32, hour int64) []byte {
		return keyschema.AppendHour(fmt.Appendf(dst, "%sup#00#instance=%05d#", tenants[ref%4], ref), hour)
	}
	r.Start(keys, 0)
	fill := func() {
		for range 5 {
			for ref := range uint32(400) {
				r.write(ref, r.now.UnixMilli(), 10)
			}
			r.Tick(t.Context())
			r.now = r.now.Add(time.Minute)
		}
	}
	of := func(tenant string) (n int) {
		for _, start := range r.starts() {
			if strings.HasPrefix(start, tenant) {
				n++
			}
		}
		return n
	}
	fill()
	for _, tenant := range tenants[1:] {
		require.NotZero(t, of(tenant), tenant)
	}
	underWay := r.Begin(1)
	ranges.Add(underWay, []written{{Ref: 1, TsMs: r.now.UnixMilli()}})
	require.NoError(t, r.DropTenant(t.Context(), "acme"))
	require.Zero(t, of("&acme&"))
	r.End(underWay)
	for range 3 {
		r.Tick(t.Context())
		require.Zero(t, of("&acme&"))
	}
	require.NotZero(t, of("&acmecorp&"))
	require.InDelta(t, 3*5*100*10, total(r.heatmap(keyviz.Request{})), 1000)
	require.NoError(t, r.DropTenant(t.Context(), "acme"))

	// Without an interruption the columns of a new collector are the same.
	r.Close(t.Context())
	r.open()
	r.Start(keys, 0)
	require.Zero(t, of("&acme&"))
	require.InDelta(t, 3*5*100*10, total(r.heatmap(keyviz.Request{})), 1000)
	fill()
	require.NotZero(t, of("&acme&"), "it came back")
	require.NoError(t, (*keyviz.Collector)(nil).DropTenant(t.Context(), "acme"))
}

// TestDamagedColumn: the map omits an unreadable row.
func TestDamagedColumn(t *testing.T) {
	r := newRig(t, nil)
	r.write(1, r.now.UnixMilli(), 5)
	r.Close(t.Context())
	bad := storage.Entry{
		Kind: storage.SetCell, Family: storage.FamilyMeta, Qualifier: []byte("column"), Value: []byte("nonsense"),
	}
	key := fmt.Appendf(nil, "keyviz#local#m#%012d", r.now.Add(-time.Minute).Unix())
	require.NoError(t, r.opts.Meta.Apply(t.Context(), []storage.RowMutation{{Key: key, Entries: []storage.Entry{bad}}}))
	r.open()
	require.InEpsilon(t, 5, total(r.heatmap(keyviz.Request{})), 1e-6)
}

// TestMemory: with little memory, old columns lose ranges but no counts.
func TestMemory(t *testing.T) {
	r := newRig(t, func(o *keyviz.Options) { o.MemoryBytesMax = keyviz.MemoryBytesMin })
	for ref := range uint32(2000) {
		r.write(ref, r.now.UnixMilli(), int(ref%50)+1)
	}
	r.Tick(t.Context())
	want := total(r.heatmap(keyviz.Request{}))
	for range 400 {
		r.now = r.now.Add(time.Minute)
		for ref := range uint32(500) {
			r.write(ref*4+uint32(r.now.Minute())%4, r.now.UnixMilli(), int(ref)%9+1)
			want += float64(int(ref)%9 + 1)
		}
		r.Tick(t.Context())
	}
	m := r.heatmap(keyviz.Request{FromMs: r.now.UnixMilli() - 24*60*minute})
	require.InEpsilon(t, want, total(m), 1e-5)
	require.LessOrEqual(t, r.SizeBytes(), int64(keyviz.MemoryBytesMin+64<<10))
}

// TestTable counts rows and bytes of the data table, and failures.
func TestTable(t *testing.T) {
	r := newRig(t, nil)
	fails := &failing{Store: r.store}
	data, err := r.Store(fails).EnsureTable(t.Context(), storage.DataSchema(0))
	require.NoError(t, err)
	hour := keyschema.HourOf(r.now.UnixMilli())
	var muts []storage.RowMutation
	for i := range 10 {
		muts = append(muts, storage.RowMutation{
			Key: keyschema.AppendHour(fmt.Appendf(nil, "up#00#instance=%05d#", i), hour),
			Entries: []storage.Entry{{
				Kind: storage.SetCell, Family: storage.FamilySamples, Qualifier: []byte("c"), Value: []byte("12345"),
				TsMs: keyschema.HourCellMs(hour),
			}},
		})
	}
	require.NoError(t, data.Apply(t.Context(), muts[:5]))
	require.NoError(t, data.Load(t.Context(), muts[5:]))
	require.Equal(t, 10, read(t, data))
	fails.err = errors.New("disk on fire")
	require.Error(t, data.Apply(t.Context(), muts))
	for metric, want := range map[heat.Metric]float64{
		heat.WriteRows: 10, heat.WriteBytes: 10 * float64(len(muts[0].Key)+6), heat.ReadRows: 10,
		heat.ReadBytes: 10 * float64(len(muts[0].Key)+6), heat.Errors: 1, heat.WriteCells: 0,
	} {
		require.InDelta(t, want, total(r.heatmap(keyviz.Request{Metric: metric})), 1e-6, metric)
		r.now = r.now.Add(time.Second)
	}
	cell, found := r.Cell(r.now.UnixMilli(), string(muts[3].Key))
	require.True(t, found)
	require.InDelta(t, 10, cell.Counts[heat.WriteRows], 1e-6)
	require.Contains(t, cell.Keys, string(muts[0].Key))
	_, found = r.Cell(r.now.Add(-90*24*time.Hour).UnixMilli(), "up")
	require.False(t, found)

	var off *keyviz.Collector
	require.Same(t, fails, off.Store(fails))
	require.Nil(t, off.Begin(1))
	off.Start(nil, time.Minute)
	off.Close(t.Context())
}

func read(t *testing.T, table storage.Table) (n int) {
	it := table.ReadRows(t.Context(), storage.RowSet{Ranges: []storage.RowRange{{}}}, storage.ReadOptions{})
	for it.Next() {
		n++
	}
	require.NoError(t, errors.Join(it.Err(), it.Close(), it.Close()))
	return n
}

// failing is a store whose data table fails to write.
type failing struct {
	storage.Store
	err error
}

func (s *failing) EnsureTable(ctx context.Context, schema storage.TableSchema) (storage.Table, error) {
	t, err := s.Store.EnsureTable(ctx, schema)
	return &failingTable{t, s}, err
}

type failingTable struct {
	storage.Table
	store *failing
}

func (t *failingTable) Apply(ctx context.Context, muts []storage.RowMutation) error {
	if t.store.err != nil {
		return t.store.err
	}
	return t.Table.Apply(ctx, muts)
}

func TestBadRequests(t *testing.T) {
	r := newRig(t, nil)
	for text, q := range map[string]keyviz.Request{
		"start": {FromMs: 20, ToMs: 10}, "start_key": {Start: "b", End: "a"}, "rows": {Rows: 1025}, "cols": {Columns: -1},
	} {
		_, err := r.Map(t.Context(), q)
		require.ErrorIs(t, err, keyviz.ErrBadRequest)
		require.ErrorContains(t, err, text)
	}
	_, err := keyviz.Open(t.Context(), keyviz.Options{Server: "a#b", MemoryBytesMax: 1})
	require.ErrorContains(t, err, "Meta")
	require.ErrorContains(t, err, "Server")
	require.ErrorContains(t, err, "MemoryBytesMax")
}
