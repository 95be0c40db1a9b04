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
func sum(t *testing.T, a *Answer) (rows, written float64) {
	for _, table := range a.Tables {
		for _, tablet := range table.Tablets {
			if table.Name != storage.TableData {
				require.Nil(t, tablet.Load)
				continue
			}
			rows += tablet.Load.RowsWritten
			written += tablet.Load.BytesWritten
		}
	}
	return rows, written
}

// TestAnswer: the loads of the tablets add up to the counts of the heat map, within the time of the request. The events of that
// time come with their reasons.
func TestAnswer(t *testing.T) {
	now := time.Unix(1_763_000_000, 0)
	clock := func() time.Time { return now }
	store := storagetest.NewModel(clock)
	meta, err := store.EnsureTable(t.Context(), storage.MetaSchema())
	require.NoError(t, err)
	collector, err := keyviz.Open(t.Context(), keyviz.Options{Meta: meta, Now: clock})
	require.NoError(t, err)
	data, err := collector.Store(store).EnsureTable(t.Context(), storage.DataSchema(0))
	require.NoError(t, err)
	events, err := tabletevents.New(tabletevents.Options{Now: clock})
	require.NoError(t, err)
	h := New(Options{
		Source: divided{store}, Keyviz: collector, Events: events, Now: clock, KeyText: func(key []byte) string { return string(key) },
		ParseTime: func(text string) (time.Time, error) {
			seconds, err := strconv.ParseInt(text, 10, 64)
			return time.Unix(seconds, 0), err
		},
	})
	began := now
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
		collector.Tick(t.Context())
		now = now.Add(time.Minute)
	}
	ask := func(query string) *Answer {
		r := httptest.NewRequest(http.MethodGet, "/?"+query, nil)
		require.NoError(t, r.ParseForm())
		a, err := h.Answer(r)
		require.NoError(t, err)
		return a.(*Answer)
	}
	a := ask("")
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
	require.Len(t, a.Events, 5)
	require.Equal(t, Event{began.UnixMilli(), "split", "data", "a", "large"}, a.Events[0])
	// The last minutes have ranges at the keys, so each tablet has its own load.
	a = ask("start=" + strconv.FormatInt(began.Unix()+120, 10) + "&end=" + strconv.FormatInt(began.Unix()+180, 10))
	require.Len(t, a.Events, 1)
	require.Equal(t, "c", a.Events[0].Key)
	rows, _ = sum(t, a)
	require.Less(t, rows, 5.0*40)
	require.GreaterOrEqual(t, rows, 40.0)

	for _, query := range []string{"start=x", "end=0", "start=1763000000&end=1762000000"} {
		r := httptest.NewRequest(http.MethodGet, "/?"+query, nil)
		require.NoError(t, r.ParseForm())
		_, err := h.Answer(r)
		require.True(t, errors.Is(err, keyviz.ErrBadRequest), "%s: %v", query, err)
	}
}
