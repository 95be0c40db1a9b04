package journal

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"halite/storage"
	"halite/storage/index/envelope"
	"halite/storage/index/memory"
	"halite/storage/index/presence"
	"halite/storage/index/segment"
)

// Options configure a Journal.
type Options struct {
	// Meta is the table that stores label sets too long for row keys.
	Meta storage.Table
	// Writer is the name of this process if several share the tables, else empty.
	Writer string
	// Collect makes the days record the keys of the records with a writer, so that a compaction can delete the records.
	Collect bool
	Now     func() time.Time
	Logger  *slog.Logger
	// Records and Bytes count the output of Persist. Repairs counts repairs of damage.
	Records, Bytes, Repairs prometheus.Counter
}

// Journal writes and reads the journals of open days. All methods need the lock that serialises the changes of tables.
type Journal struct {
	opts    Options
	active  *memory.Index
	open    *memory.OpenDays
	store   *segment.Store
	cursor  cursor
	written map[int64]uint32 // records that this process has written under its name, by day
}

// New returns the journal of active series and open days. store has the segments of closed days.
func New(active *memory.Index, open *memory.OpenDays, store *segment.Store, opts Options) *Journal {
	return &Journal{opts: opts, active: active, open: open, store: store, cursor: newCursor(), written: map[int64]uint32{}}
}

func (j *Journal) shared() bool { return j.opts.Writer != "" }

// Persist writes those series and hours of the open days that the tables lack.
func (j *Journal) Persist(ctx context.Context) error {
	for _, d := range j.open.All() {
		if err := j.PersistDay(ctx, d); err != nil {
			return fmt.Errorf("persist day %d: %w", d.Day, err)
		}
	}
	return nil
}

// recordsListed is the number of records whose series are in one list. A list of all series of a large day would take
// hundreds of megabytes.
const recordsListed = 16

// PersistDay is Persist for one day.
func (j *Journal) PersistDay(ctx context.Context, d *memory.OpenDay) error {
	if !d.IsDirty() {
		return nil
	}
	if err := j.Locate(ctx, d); err != nil {
		return err
	}
	enc := encoder{active: j.active}
	defer enc.packer.close()
	return d.EachUnwritten(j.store.Layout.RecordRows*recordsListed, func(due memory.Due) error {
		return j.persistSeries(ctx, d, &enc, due)
	})
}

// recordTextBytesMax bounds the label values and label sets of a record of several series. So a record stays below
// storage.CellBytesMax, although a single label set may take a megabyte.
const recordTextBytesMax = 4 << 20

// errRecordText means that the record must have fewer new series.
var errRecordText = errors.New("the label values of the record are too long")

// persistSeries writes records with the series. After an error, a later call writes the remaining series.
func (j *Journal) persistSeries(ctx context.Context, d *memory.OpenDay, enc *encoder, due memory.Due) error {
	byRow := func(a, b memory.Unwritten) int { return cmp.Compare(a.Row, b.Row) }
	if !slices.IsSortedFunc(due.Known, byRow) {
		slices.SortFunc(due.Known, byRow)
	}
	for due.Len() > 0 {
		fresh := due.Fresh[:min(len(due.Fresh), j.store.Layout.RecordRows)]
		known := due.Known[:min(len(due.Known), j.store.Layout.RecordRuns)]
		err := j.write(ctx, d, enc, fresh, known)
		for errors.Is(err, errRecordText) {
			fresh = fresh[:len(fresh)/2]
			err = j.write(ctx, d, enc, fresh, known)
		}
		if err != nil {
			d.FailWrite(due.Fresh)
			d.FailWrite(due.Known)
			return err
		}
		d.EndWrite(fresh)
		d.EndWrite(known)
		due.Fresh, due.Known = due.Fresh[len(fresh):], due.Known[len(known):]
	}
	return nil
}

func (j *Journal) write(ctx context.Context, d *memory.OpenDay, enc *encoder, fresh, known []memory.Unwritten) error {
	base, key := d.Journal.Rows, segment.JournalKey(d.Day, d.Journal.Seq)
	if j.shared() {
		base, key = 0, j.nextKey(d.Day)
	}
	r := enc.encode(base, fresh, known)
	if len(fresh) > 1 && enc.textBytes() > recordTextBytesMax {
		return errRecordText
	}
	if len(enc.long) > 0 {
		if err := j.opts.Meta.Apply(ctx, enc.long); err != nil {
			return fmt.Errorf("store label sets too long for a row key: %w", err)
		}
	}
	qualifier := []byte{segment.QualRecord}
	enc.payload = appendRecord(enc.payload[:0], r)
	blob, err := enc.packer.blob(enc.payload)
	if err != nil {
		return err
	}
	blob = envelope.Seal(blob, key, qualifier)
	if err := j.store.SeriesTable.Apply(ctx, []storage.RowMutation{{Key: key, Entries: []storage.Entry{{
		Kind: storage.SetCell, Family: storage.FamilyIndex, Qualifier: qualifier, TsMs: presence.DayCellMs(d.Day), Value: blob,
	}}}}); err != nil {
		return err // the next attempt reuses this sequence number
	}
	j.opts.Records.Inc()
	j.opts.Bytes.Add(float64(len(blob)))
	if j.shared() {
		return nil // no later record refers to this one
	}
	for _, s := range enc.order {
		d.SetRow(s.Ref, s.Row)
	}
	d.Journal.Seq++
	d.Journal.Rows += r.rows
	return nil
}

// nextKey is the row of this process's next record of a day. It uses each number only once, because a failed write may still
// take effect later.
func (j *Journal) nextKey(day int64) []byte {
	seq := j.written[day]
	j.written[day]++
	return segment.WriterRecordKey(day, j.opts.Writer, seq)
}

// Locate finds the sequence number of a day's next record. Records with a writer do not need one.
func (j *Journal) Locate(ctx context.Context, d *memory.OpenDay) error {
	if d.Journal.Known || j.shared() {
		return nil
	}
	seq, err := j.End(ctx, d.Day)
	if err != nil {
		return err
	}
	d.Journal = memory.JournalState{Known: true, First: seq, Seq: seq}
	return nil
}

// seqFar is above every sequence number that a day reaches, because a record holds thousands of new series.
const seqFar = 1 << 28

// FarSeq returns a number above the sequence numbers of an unreadable journal, even if an earlier process has used FarSeq
// for it.
func (j *Journal) FarSeq() uint32 { return seqFar + uint32(max(0, j.opts.Now().Unix()/60)) }

// End returns the sequence number after the last record of a day in the table or in a segment.
func (j *Journal) End(ctx context.Context, day int64) (uint32, error) {
	end := uint32(0)
	if c := j.store.Closed.Day(day); c != nil {
		m, err := j.store.Manifest(ctx, c)
		switch {
		case errors.Is(err, storage.ErrCorrupt):
			end = j.FarSeq() // above the number in the manifest
		case err != nil:
			return 0, err
		default:
			end = m.JournalSeq
		}
	}
	it := j.store.SeriesTable.ReadRows(ctx, storage.RowSet{Ranges: []storage.RowRange{exclusiveRows(day, 1<<32)}},
		storage.ReadOptions{Reverse: true, RowsMax: 1, Filter: segment.KeysOf(presence.DayPartition(day))})
	defer func() { _ = it.Close() }()
	for it.Next() {
		if _, _, seq, err := segment.ParseKey(it.Row().Key); err == nil {
			end = max(end, seq+1)
		}
	}
	if errors.Is(it.Err(), storage.ErrCorrupt) {
		return max(end, j.FarSeq()), nil
	}
	return end, it.Err()
}

// exclusiveRows are the rows of a day's records without a writer that have sequence numbers below end.
func exclusiveRows(day int64, end uint64) storage.RowRange {
	r := storage.RowRange{Start: segment.JournalKey(day, 0), End: segment.JournalKey(day, uint32(end))}
	if end > 1<<32-1 {
		r.End = append(segment.JournalKey(day, 1<<32-1), 0)
	}
	return r
}

// Delete deletes records by their keys.
func (j *Journal) Delete(ctx context.Context, keys [][]byte) error {
	d := segment.NewDeleter(ctx, j.store.SeriesTable)
	for _, key := range keys {
		if err := d.Cell(key, []byte{segment.QualRecord}); err != nil {
			return err
		}
	}
	return d.Flush()
}

// DeleteBelow deletes a day's records without a writer that have sequence numbers below seq.
func (j *Journal) DeleteBelow(ctx context.Context, day int64, seq uint32) error {
	d := segment.NewDeleter(ctx, j.store.SeriesTable)
	rows := storage.RowSet{Ranges: []storage.RowRange{exclusiveRows(day, uint64(seq))}}
	if err := segment.EachCell(ctx, j.store.SeriesTable, rows, presence.DayPartition(day), d.Cell); err != nil {
		return err
	}
	return d.Flush()
}

// Expire drops the records of days before oldest.
func (j *Journal) Expire(oldest int64) {
	maps.DeleteFunc(j.cursor.days, func(day int64, _ *dayCursor) bool { return day < oldest })
}

// Reset drops all records that were read.
func (j *Journal) Reset() { j.cursor = newCursor() }
