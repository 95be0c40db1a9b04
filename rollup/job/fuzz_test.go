package job

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"halite/keyschema"
	"halite/rollup"
	"halite/rollup/store"
	"halite/storage"
	"halite/storage/storagetest"
)

// fuzzed opens one of several processes over tables with arbitrary cells in one row.
func fuzzed(t *testing.T, table, row string, family storage.TableSchema, cells ...storage.Entry) *Rollups {
	now := func() time.Time { return time.UnixMilli((firstDay + 40) * dayMs) }
	tables := storagetest.NewModel(now)
	to, err := tables.EnsureTable(t.Context(), family)
	if err != nil {
		t.Fatal(err)
	}
	if to.Apply(t.Context(), []storage.RowMutation{{Key: []byte(row), Entries: cells}}) != nil {
		t.Skip("table " + table + " rejects the row")
	}
	kept := keyschema.NewRetention(keyschema.KeepFor(90 * 24 * time.Hour).Load())
	p, err := Open(t.Context(), store.Options{Tables: tables, Now: now, Retention: kept, Shared: &store.Shared{
		HoldsLease: func() bool { return true }, Margin: time.Hour, Fresh: func(context.Context) error { return nil },
	}, Registerer: prometheus.NewRegistry()}, Options{Share: 1, Settle: -1})
	if err != nil {
		return nil
	}
	return p
}

// Where the manifest is stored.
const (
	manifestRow       = "rollup"
	manifestQualifier = "manifest"
)

// storeManifest stores a record as the manifest and makes a node use it.
func storeManifest(t *testing.T, n *Rollups, r store.Record) {
	t.Helper()
	meta, err := n.Options().Tables.EnsureTable(t.Context(), storage.MetaSchema())
	require.NoError(t, err)
	value, err := json.Marshal(r)
	require.NoError(t, err)
	require.NoError(t, meta.Apply(t.Context(), []storage.RowMutation{{Key: []byte(manifestRow), Entries: []storage.Entry{{
		Kind: storage.SetCell, Family: storage.FamilyMeta, Qualifier: []byte(manifestQualifier), Value: value,
	}}}}))
	require.NoError(t, n.Refresh(t.Context()))
}

// FuzzManifest: Open rejects an arbitrary manifest, or the job works with it within bounds.
func FuzzManifest(f *testing.F) {
	f.Add([]byte(`{"closed":19750,"closed_month":647,"days":{"19745":"part"},"months":{"647":true},"deletion_horizon":3}`),
		[]byte("n\x00\x00\x4d\x1fw"), int64(firstDay*dayMs))
	f.Add([]byte(`{"closed":9223372036854775807,"closed_month":9223372036854775807}`), []byte("t12345678"), int64(0))
	f.Add([]byte(`{"closed":-9,"closed_month":5,"days":{"-7":"x","9223372036854775807":"whole"}}`),
		[]byte("n\xff\xff\xff\xffw"), int64(1)<<50)
	f.Add([]byte(`{"closed":null,"days":null}`), []byte{}, int64(-1))
	f.Fuzz(func(t *testing.T, manifest, qualifier []byte, tsMs int64) {
		p := fuzzed(t, storage.TableMeta, manifestRow, storage.MetaSchema(),
			storage.Entry{Kind: storage.SetCell, Family: storage.FamilyMeta, Qualifier: []byte(manifestQualifier), Value: manifest},
			storage.Entry{Kind: storage.SetCell, Family: storage.FamilyMeta, Qualifier: qualifier, TsMs: tsMs})
		if p == nil {
			return
		}
		_, _ = p.OldestNeeded(keyschema.Hours)
		for range 3 {
			if worked, err := p.Step(t.Context()); !worked || err != nil {
				return
			}
		}
	})
}

// FuzzStates: rows of states with arbitrary cells are read, verified and computed without a panic.
func FuzzStates(f *testing.F) {
	mark := append(store.MarkQualifier(20, 3), make([]byte, 12)...)
	f.Add(true, store.StatesQualifier(20), []byte{1, 2, 3}, store.HorizonQualifier(20), store.HorizonValue(7))
	f.Add(true, mark, []byte{store.MarkDirty}, store.MarkQualifier(200, 23), []byte{})
	f.Add(false, store.DaysQualifier(), []byte{0}, store.DaysHorizonQualifier(), []byte{0xff})
	f.Add(false, store.DayMarkQualifier(31), []byte{store.MarkDirty}, []byte{'x', 255}, []byte{store.MarkClean})
	f.Fuzz(func(t *testing.T, hours bool, q1, v1, q2, v2 []byte) {
		family, ts := storage.FamilyHours, store.DayCellMs(firstDay)
		if !hours {
			family, ts = storage.FamilyDays, store.MonthCellMs(store.MonthOfDay(firstDay))
		}
		cell := func(q, v []byte) storage.Entry {
			return storage.Entry{Kind: storage.SetCell, Family: family, Qualifier: q, Value: v, TsMs: ts}
		}
		prefix := sharedPrefix(0)
		key := keyschema.AppendMonthKey(nil, prefix, store.MonthOfDay(firstDay))
		p := fuzzed(t, storage.TableRollup, string(key), storage.RollupSchema(0, 0),
			cell(q1, v1), cell(q2, v2))
		storeManifest(t, p, store.Record{Closed: firstDay + 30, ClosedMonth: store.MonthOfDay(firstDay),
			Days: map[int64]store.Work{firstDay: store.WorkPart}})
		for _, unit := range []store.Unit{store.Hours, store.Days} {
			first := int64(firstDay-19) * dayMs / unit.Ms()
			err := p.Read(t.Context(), store.Request{Prefixes: [][]byte{prefix}, Unit: unit, From: first, To: first + 24*31,
				Fields: rollup.FieldsAll}, func(int, *rollup.Columns) error { return nil })
			if err != nil {
				t.Fatal(err)
			}
		}
		if _, err := p.Verify(t.Context(), firstDay-31, firstDay+31, func(Difference) error { return nil }); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if _, err := p.Step(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	})
}
