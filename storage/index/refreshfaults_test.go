package index

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/stretchr/testify/require"

	"halite/keyschema"
	"halite/storage"
	"halite/storage/index/segment"
)

// scanStore changes what reads of its tables return.
type scanStore struct {
	storage.Store
	hidden  string // this row does not exist yet
	damaged string // the values of this row are not readable
	fails   func(table string) error
}

func (s *scanStore) EnsureTable(ctx context.Context, schema storage.TableSchema) (storage.Table, error) {
	t, err := s.Store.EnsureTable(ctx, schema)
	return &scanTable{t, s}, err
}

func (s *scanStore) Table(ctx context.Context, name string) (storage.Table, error) {
	t, err := s.Store.Table(ctx, name)
	if err != nil {
		return nil, err
	}
	return &scanTable{t, s}, nil
}

type scanTable struct {
	storage.Table
	s *scanStore
}

func (t *scanTable) ReadRows(ctx context.Context, set storage.RowSet, opts storage.ReadOptions) storage.RowIter {
	it := &scanIter{RowIter: t.Table.ReadRows(ctx, set, opts), s: t.s}
	if t.s.fails != nil {
		it.err = t.s.fails(t.Schema().Name)
	}
	return it
}

type scanIter struct {
	storage.RowIter
	s   *scanStore
	err error
}

func (it *scanIter) Next() bool {
	if it.err != nil {
		return false
	}
	for it.RowIter.Next() {
		if string(it.RowIter.Row().Key) != it.s.hidden {
			return true
		}
	}
	return false
}

func (it *scanIter) Row() storage.Row {
	row := it.RowIter.Row()
	if string(row.Key) == it.s.damaged {
		row.Cells = slices.Clone(row.Cells)
		for i := range row.Cells {
			row.Cells[i].Value = []byte("damaged")
		}
	}
	return row
}

func (it *scanIter) Err() error {
	if it.err != nil {
		return it.err
	}
	return it.RowIter.Err()
}

// newScanWorld returns two processes: a writer with two records in the journal, each with one series and a row of data, and a
// reader whose reads go through a scanStore. It returns the keys of the records.
func newScanWorld(t *testing.T) (w *sharedWorld, reader *Index, scan *scanStore, records []string) {
	w = newSharedWorld(t, 1, 1)
	scan = &scanStore{Store: w.tables}
	reader, err := Open(t.Context(), Options{Store: scan, Schema: w.schema, Now: w.now, Writer: segment.NewWriter()})
	require.NoError(t, err)
	data, err := w.tables.EnsureTable(t.Context(), storage.DataSchema(0))
	require.NoError(t, err)
	writer, hour := w.nodes[0], w.clock.Load()
	for i := range 2 {
		ref, _, err := writer.Add(labels.FromStrings("__name__", "m", "i", fmt.Sprint(i)))
		require.NoError(t, err)
		writer.MarkActive(ref, hour)
		require.NoError(t, writer.Persist(t.Context()))
		require.NoError(t, data.Apply(t.Context(), []storage.RowMutation{{
			Key: writer.AppendRowKey(nil, ref, hour), Entries: []storage.Entry{{
				Kind: storage.SetCell, Family: storage.FamilySamples, Qualifier: []byte{1}, TsMs: keyschema.HourCellMs(hour),
				Value: []byte("x"),
			}},
		}}))
	}
	records = w.journal()
	require.Len(t, records, 2)
	return w, reader, scan, records
}

func (w *sharedWorld) series(x *Index) int {
	found, err := x.Select(context.Background(), nil, 0, keyschema.HourCellMs(w.clock.Load()))
	require.NoError(w.t, err)
	return len(found)
}

// TestRefreshAfterAFailedScan: a scan runs while a record is written, and sees only the next record. The scan after it fails. The
// record is read by the first scan that does not fail.
func TestRefreshAfterAFailedScan(t *testing.T) {
	w, reader, scan, records := newScanWorld(t)
	scan.hidden = records[0]
	require.NoError(t, reader.Refresh(t.Context()))
	require.Equal(t, 1, w.series(reader))
	scan.hidden, scan.fails = "", func(string) error { return storage.ErrUnavailable }
	require.ErrorIs(t, reader.Refresh(t.Context()), storage.ErrUnavailable)
	scan.fails = nil
	require.NoError(t, reader.Refresh(t.Context()))
	require.Equal(t, 2, w.series(reader))
}

// TestRefreshRepairsLater: if the repair of a day with a damaged record fails, the next refresh repairs the day.
func TestRefreshRepairsLater(t *testing.T) {
	w, reader, scan, records := newScanWorld(t)
	scan.damaged = records[1]
	scan.fails = func(table string) error {
		if table == storage.TableData {
			return storage.ErrUnavailable
		}
		return nil
	}
	require.ErrorIs(t, reader.Refresh(t.Context()), storage.ErrUnavailable)
	require.Equal(t, 1, w.series(reader))
	scan.fails = nil
	require.NoError(t, reader.Refresh(t.Context()))
	require.Equal(t, 2, w.series(reader))
}
