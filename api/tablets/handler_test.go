package tablets

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"halite/storage"
	"halite/storage/keyviz"
	"halite/storage/keyviz/heat"
	"halite/storage/storagetest"
	"halite/storage/tabletevents"
)

// divided is a store whose table data has three tablets.
type divided struct{ storage.Store }

type dividedTable struct{ storage.Table }

func (s divided) Tables(ctx context.Context) ([]storage.TableSchema, error) {
	return s.Store.Tables(ctx)
}

func (s divided) Table(ctx context.Context, name string) (storage.Table, error) {
	table, err := s.Store.Table(ctx, name)
	if name == storage.TableData {
		table = dividedTable{table}
	}
	return table, err
}

func (dividedTable) Tablets(context.Context) (out []storage.Tablet, err error) {
	for _, bounds := range [][2]string{{"", "b"}, {"b", "c"}, {"c", ""}} {
		out = append(out, storage.Tablet{
			Range: storage.RowRange{Start: []byte(bounds[0]), End: []byte(bounds[1])}, SizeBytes: 7, RowsWritten: 1,
		})
	}
	return out, nil
}

// sum adds up the loads of table data. Other tables have none.
func sum(t *testing.T, a *Response) (rows, written float64) {
	for _, table := range a.Tables {
		for _, tablet := range table.Tablets {
			if table.Name != storage.TableData {
				require.Nil(t, tablet.Load)
				continue
			}
			rows += tablet.Load.RowsWritten
			written += tablet.Load.BytesWritten
			if tablet.Series == nil {
				continue
			}
			// The series of a tablet add up to its load.
			require.Len(t, tablet.Series.RowsWritten, len(a.TimesMs)-1)
			inSeries := Load{}
			for i := range tablet.Series.RowsWritten {
				inSeries.CellsWritten += tablet.Series.CellsWritten[i]
				inSeries.RowsWritten += tablet.Series.RowsWritten[i]
				inSeries.BytesWritten += tablet.Series.BytesWritten[i]
				inSeries.RowsRead += tablet.Series.RowsRead[i]
				inSeries.BytesRead += tablet.Series.BytesRead[i]
				inSeries.ReadSeconds += tablet.Series.ReadSeconds[i]
				inSeries.Errors += tablet.Series.Errors[i]
			}
			require.InDelta(t, tablet.Load.RowsWritten, inSeries.RowsWritten, 1e-6)
			require.InDelta(t, tablet.Load.BytesWritten, inSeries.BytesWritten, 1e-6)
			require.InDelta(t, tablet.Load.RowsRead, inSeries.RowsRead, 1e-6)
			require.InDelta(t, tablet.Load.BytesRead, inSeries.BytesRead, 1e-6)
			require.InDelta(t, tablet.Load.ReadSeconds, inSeries.ReadSeconds, 1e-9)
			require.InDelta(t, tablet.Load.CellsWritten+tablet.Load.Errors, inSeries.CellsWritten+inSeries.Errors, 1e-6)
		}
	}
	return rows, written
}

// read reads the rows from a key on.
func read(t *testing.T, table storage.Table, from string) {
	it := table.ReadRows(t.Context(), storage.RowSet{Ranges: []storage.RowRange{{Start: []byte(from)}}}, storage.ReadOptions{})
	for it.Next() {
		require.NotEmpty(t, it.Row().Key)
	}
	require.NoError(t, it.Err())
	require.NoError(t, it.Close())
}

// rig answers requests about a store whose load a collector counts.
type rig struct {
	now       time.Time
	handler   *Handler
	collector *keyviz.Collector
	events    *tabletevents.Log
	data      storage.Table
}

func newRig(t *testing.T) *rig {
	r := &rig{now: time.Unix(1_763_000_000, 0)}
	clock := func() time.Time { return r.now }
	store := storagetest.NewModel(clock)
	meta, err := store.EnsureTable(t.Context(), storage.MetaSchema())
	require.NoError(t, err)
	r.collector, err = keyviz.Open(t.Context(), keyviz.Options{Meta: meta, Now: clock})
	require.NoError(t, err)
	r.data, err = r.collector.Store(store).EnsureTable(t.Context(), storage.DataSchema(0))
	require.NoError(t, err)
	r.events, err = tabletevents.New(tabletevents.Options{Now: clock})
	require.NoError(t, err)
	r.handler = New(Options{
		Source: divided{store}, Keyviz: r.collector, Events: r.events, Now: clock, SeriesMax: 2,
		KeyText: func(key []byte) string { return string(key) },
		ParseTime: func(text string) (time.Time, error) {
			seconds, err := strconv.ParseInt(text, 10, 64)
			return time.Unix(seconds, 0), err
		},
	})
	return r
}

// TestResponse: the loads of the tablets add up to the counts of the heat map, within the time of the request. The events of that
// time come with their reasons.
func TestResponse(t *testing.T) {
	rig := newRig(t)
	h, collector, events, data := rig.handler, rig.collector, rig.events, rig.data
	began := rig.now
	for minute := range 5 {
		var muts []storage.RowMutation
		for n := range 40 {
			key := []byte(string(rune('a'+n%4)) + "#00#n=" + strconv.Itoa(100+n) + "#9500000")
			muts = append(muts, storage.RowMutation{Key: key, Entries: []storage.Entry{{
				Kind: storage.SetCell, Family: storage.FamilySamples, Qualifier: []byte("r0000"), Value: []byte("value"),
			}}})
		}
		require.NoError(t, data.Apply(t.Context(), muts))
		events.Add(storage.TabletChange{Kind: storage.TabletSplit, Table: "data", Key: []byte{'a' + byte(minute)}, Reason: "large"})
		if minute == 3 {
			read(t, data, "c")
		}
		collector.Tick(t.Context())
		rig.now = rig.now.Add(time.Minute)
	}
	get := func(query string) *Response {
		r := httptest.NewRequest(http.MethodGet, "/?"+query, nil)
		require.NoError(t, r.ParseForm())
		a, err := h.Respond(r)
		require.NoError(t, err)
		return a.(*Response)
	}
	a := get("")
	rows, written := sum(t, a)
	require.InDelta(t, 5*40, rows, 1e-6)
	m, err := collector.Map(t.Context(), keyviz.Request{Metric: heat.WriteBytes})
	require.NoError(t, err)
	all := 0.0
	for _, column := range m.Values {
		for _, n := range column {
			all += n
		}
	}
	require.InEpsilon(t, all, written, 1e-6)
	// Two of three tablets have series, minute by minute. The reads lie in the fourth minute, in the last tablet.
	list := a.Tables[0].Tablets
	require.Len(t, list, 3)
	require.NotEqual(t, list[0].Series != nil, list[1].Series != nil)
	require.NotNil(t, list[2].Series)
	minute := int((began.UnixMilli() + 3*60_000 - a.TimesMs[0]) / 60_000)
	require.Equal(t, int64(60_000), a.TimesMs[1]-a.TimesMs[0])
	require.Greater(t, list[2].Series.RowsRead[minute], 10.0)
	require.InDelta(t, list[2].Load.RowsRead, list[2].Series.RowsRead[minute], 1e-6)
	require.Len(t, a.Events, 5)
	require.Equal(t, Event{began.UnixMilli(), "split", "data", "a", "large"}, a.Events[0])
	// The last minutes have ranges at the keys, so each tablet has its own load.
	a = get("start=" + strconv.FormatInt(began.Unix()+120, 10) + "&end=" + strconv.FormatInt(began.Unix()+180, 10))
	require.Len(t, a.Events, 1)
	require.Equal(t, "c", a.Events[0].Key)
	rows, _ = sum(t, a)
	require.Less(t, rows, 5.0*40)
	require.GreaterOrEqual(t, rows, 40.0)

	for _, query := range []string{"start=x", "end=0", "start=1763000000&end=1762000000"} {
		r := httptest.NewRequest(http.MethodGet, "/?"+query, nil)
		require.NoError(t, r.ParseForm())
		_, err := h.Respond(r)
		require.True(t, errors.Is(err, keyviz.ErrBadRequest), "%s: %v", query, err)
	}
}

// TestHotTablets: the response has the hot tablets of its time, or the reason why there are none. It lacks them if the engine
// reports none.
func TestHotTablets(t *testing.T) {
	rig := newRig(t)
	get := func() *Response {
		r := httptest.NewRequest(http.MethodGet, "/?end=1763000000&start=1762990000", nil)
		require.NoError(t, r.ParseForm())
		a, err := rig.handler.Respond(r)
		require.NoError(t, err)
		require.NotEmpty(t, a.(*Response).Tables)
		return a.(*Response)
	}
	require.Nil(t, get().HotTablets)
	var failure error
	rig.handler.opts.HotTablets = func(_ context.Context, fromMs, toMs int64) ([]storage.HotTablet, error) {
		require.Equal(t, []int64{1_762_990_000_000, 1_763_000_000_000}, []int64{fromMs, toMs})
		if failure != nil {
			return nil, failure
		}
		return []storage.HotTablet{{Table: "data", StartKey: []byte("a"), EndKey: []byte("b"), FromMs: fromMs, ToMs: fromMs + 60_000,
			CPUPercent: 71.5}}, nil
	}
	require.Equal(t, &HotTablets{Tablets: []HotTablet{{
		Table: "data", StartKey: "a", EndKey: "b", StartMs: 1_762_990_000_000, EndMs: 1_762_990_060_000, CPUPercent: 71.5,
	}}}, get().HotTablets)
	failure = errors.New("the account lacks a role")
	require.Equal(t, &HotTablets{Tablets: []HotTablet{}, Error: "the account lacks a role"}, get().HotTablets)
}
