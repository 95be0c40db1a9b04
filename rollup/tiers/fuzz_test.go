package tiers

import (
	"context"
	"testing"
	"time"

	"halite/keyschema"
	"halite/rollup"
	"halite/storage"
	"halite/storage/storagetest"
)

// fuzzed is a process among several over tables in which two cells of a row are arbitrary.
func fuzzed(t *testing.T, table, row string, family storage.TableSchema, cells ...storage.Entry) *Tiers {
	now := func() time.Time { return time.UnixMilli((firstDay + 40) * dayMs) }
	store := storagetest.NewModel(now)
	to, err := store.EnsureTable(t.Context(), family)
	if err != nil {
		t.Fatal(err)
	}
	if to.Apply(t.Context(), []storage.RowMutation{{Key: []byte(row), Entries: cells}}) != nil {
		t.Skip("no row that table " + table + " takes")
	}
	p, err := Open(t.Context(), Options{Store: store, Now: now, Share: 1, Settle: -1, Raw: 90 * 24 * time.Hour, Shared: &Shared{
		Turn: func() bool { return true }, Margin: time.Hour, Fresh: func(context.Context) error { return nil },
	}})
	if err != nil {
		return nil
	}
	return p
}

// FuzzLedger: whatever the ledger's row says is refused, or is looked at and worked on within bounds.
func FuzzLedger(f *testing.F) {
	f.Add([]byte(`{"closed":19750,"closed_month":647,"days":{"19745":"part"},"months":{"647":true},"deleted":3}`),
		noted{firstDay + 1, workWhole}.qualifier(), int64(firstDay*dayMs))
	f.Add([]byte(`{"closed":9223372036854775807,"closed_month":9223372036854775807}`), []byte("t12345678"), int64(0))
	f.Add([]byte(`{"closed":-9,"closed_month":5,"days":{"-7":"x","9223372036854775807":"whole"}}`),
		[]byte("n\xff\xff\xff\xffw"), int64(1)<<50)
	f.Add([]byte(`{"closed":null,"days":null}`), []byte{}, int64(-1))
	f.Fuzz(func(t *testing.T, ledger, qualifier []byte, tsMs int64) {
		p := fuzzed(t, storage.TableMeta, ledgerRow, storage.MetaSchema(),
			storage.Entry{Kind: storage.SetCell, Family: storage.FamilyMeta, Qualifier: []byte(ledgerQualifier), Value: ledger},
			storage.Entry{Kind: storage.SetCell, Family: storage.FamilyMeta, Qualifier: qualifier, TsMs: tsMs})
		if p == nil {
			return
		}
		_, _ = p.Needed(keyschema.Hours)
		_ = lag(p.ledger, &p.opts)
		for range 3 {
			if worked, err := p.Step(t.Context()); !worked || err != nil {
				return
			}
		}
	})
}

// FuzzStates: rows of states with any cells, of one process and of several, are read, verified and worked on.
func FuzzStates(f *testing.F) {
	mark := append(markQualifier(20, 3), make([]byte, timedMarkBytes-markBytes)...)
	f.Add(true, statesQualifier(20), []byte{1, 2, 3}, hoursAsOfQualifier(20), asOfValue(7))
	f.Add(true, mark, []byte{markLive}, markQualifier(200, 23), []byte{})
	f.Add(false, daysQualifier(), []byte{0}, daysAsOfQualifier(), []byte{0xff})
	f.Add(false, dayMarkQualifier(31), []byte{markLive}, []byte{kindMark, 255}, []byte{markDone})
	f.Fuzz(func(t *testing.T, hours bool, q1, v1, q2, v2 []byte) {
		family, ts := storage.FamilyHours, dayCellMs(firstDay)
		if !hours {
			family, ts = storage.FamilyDays, monthCellMs(MonthOfDay(firstDay))
		}
		cell := func(q, v []byte) storage.Entry {
			return storage.Entry{Kind: storage.SetCell, Family: family, Qualifier: q, Value: v, TsMs: ts}
		}
		prefix := sharedPrefix(0)
		p := fuzzed(t, storage.TableRollup, string(appendKey(nil, prefix, MonthOfDay(firstDay))), storage.RollupSchema(0, 0),
			cell(q1, v1), cell(q2, v2))
		p.ledger.record = record{Closed: firstDay + 30, ClosedMonth: MonthOfDay(firstDay),
			Days: map[int64]work{firstDay: workPart}, Months: map[int64]bool{}}
		if err := p.ledger.save(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := p.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, unit := range []Unit{Hours, Days} {
			first := int64(firstDay-19) * dayMs / unit.Ms()
			err := p.Read(t.Context(), Request{Prefixes: [][]byte{prefix}, Unit: unit, From: first, To: first + 24*31,
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
