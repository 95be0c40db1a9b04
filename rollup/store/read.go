package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/bits"

	"halite/keyschema"
	"halite/rollup"
	"halite/rollup/cell"
	"halite/storage"
	"halite/storage/tombstone"
)

// Errors about invalid requests wrap ErrBadRequest.
var ErrBadRequest = errors.New("bad rollup request")

// Unit is the length of a bucket.
type Unit uint8

// The units whose states are stored.
const (
	Hours Unit = iota
	Days
)

// Ms is the unit's length in milliseconds.
func (u Unit) Ms() int64 {
	if u == Days {
		return dayMs
	}
	return keyschema.HourMs
}

// Request asks for states.
type Request struct {
	// Prefixes name the series, as keyschema.Rule.AppendPrefix makes them. They are sorted and unique.
	Prefixes [][]byte
	// Unit is the unit of From, To and the states.
	Unit Unit
	// From and To are the first and last bucket, since 1970.
	From, To int64
	// Fields are the columns to read.
	Fields rollup.Fields
	// Deletions are the deletions that states must reflect; nil means the current deletions.
	Deletions *tombstone.View

	// stored asks for all stored states, including dirty and expired ones, except those that contain deleted samples.
	stored bool
}

// requestBucketsMax bounds a request: a hundred years of hours.
const requestBucketsMax = 100 * 366 * keyschema.DayHours

// check returns an error about an invalid request.
func (r *Request) check() error {
	if r.Unit > Days || r.From < 0 || r.To < r.From || r.To-r.From >= requestBucketsMax || r.Fields&^rollup.FieldsAll != 0 {
		return fmt.Errorf("%w: bad buckets %d to %d, unit %d or fields %#x", ErrBadRequest, r.From, r.To, r.Unit,
			uint16(r.Fields))
	}
	for i := 1; i < len(r.Prefixes); i++ {
		if bytes.Compare(r.Prefixes[i-1], r.Prefixes[i]) >= 0 {
			return fmt.Errorf("%w: prefix %q does not sort after its predecessor", ErrBadRequest, r.Prefixes[i])
		}
	}
	return nil
}

// Read passes the states of each series to visit, in the order of the prefixes: one bucket for each from From to To. The
// caller reads the samples of buckets that are not Known. A bucket is unknown if it is open, dirty, damaged, expired, not
// stored, or lacks a field. The columns are valid until visit returns. Read stops at an error of visit and returns it.
//
// The caller has already read the samples in memory. It does not use states of hours with such samples.
func (s *Store) Read(ctx context.Context, req Request, visit func(i int, c *rollup.Columns) error) error {
	return s.read(ctx, &req, func(r *reader, it storage.RowIter) error { return r.readSeries(ctx, it, visit) })
}

// read opens the rows of a request for use.
func (s *Store) read(ctx context.Context, req *Request, use func(r *reader, it storage.RowIter) error) error {
	if err := req.check(); err != nil {
		return err
	}
	if len(req.Prefixes) == 0 {
		return nil
	}
	r := s.newReader(req)
	if s.opts.Deletions != nil {
		view, done := s.opts.Deletions.Within(req.Deletions, r.firstDay*dayMs, (r.lastDay+1)*dayMs)
		defer done()
		r.invalidated = NewInvalidated(view)
	}
	it := s.Table.ReadRows(ctx, r.rows(), r.options())
	err := use(r, it)
	return errors.Join(err, it.Close())
}

// reader is a running Read. It loads the record before it reads the table. Later marks are about samples that the caller
// has read in memory, or that arrived later.
type reader struct {
	store             *Store
	req               *Request
	record            *Record
	firstDay, lastDay int64
	columns           rollup.Columns
	decoder           cell.Decoder
	unusable          []int // buckets of the current series that must stay unknown
	retention         *retentionFilter
	cutoffMs          int64 // of the current series
	invalidated       Invalidated
}

func (s *Store) newReader(req *Request) *reader {
	r := &reader{store: s, req: req, record: s.Manifest.View(), firstDay: req.From, lastDay: req.To}
	if req.Unit == Days {
		r.retention = s.retentionFilter(keyschema.Days)
		return r
	}
	r.retention = s.retentionFilter(keyschema.Hours)
	r.firstDay, r.lastDay = req.From/keyschema.DayHours, req.To/keyschema.DayHours
	return r
}

// rows names the rows of all series and months.
func (r *reader) rows() storage.RowSet {
	from, to := MonthOfDay(r.firstDay), MonthOfDay(r.lastDay)
	keys := make([][]byte, 0, len(r.req.Prefixes)*int(to-from+1))
	for _, prefix := range r.req.Prefixes {
		for month := to; month >= from; month-- {
			keys = append(keys, keyschema.AppendMonthKey(make([]byte, 0, len(prefix)+keyschema.MonthDigits), prefix, month))
		}
	}
	return storage.RowSet{Keys: keys}
}

func (r *reader) options() storage.ReadOptions {
	if r.req.Unit == Days {
		return storage.ReadOptions{Filter: storage.Filter{Families: []string{storage.FamilyDays},
			FromMs: r.firstDay * dayMs, ToMs: MonthCellMs(MonthOfDay(r.lastDay)) + 1}}
	}
	return storage.ReadOptions{Filter: storage.Filter{Families: []string{storage.FamilyHours},
		FromMs: r.firstDay * dayMs, ToMs: (r.lastDay + 1) * dayMs}}
}

// readSeries reads the rows of one series after the other.
func (r *reader) readSeries(ctx context.Context, it storage.RowIter, visit func(i int, c *rollup.Columns) error) error {
	begin := func() {
		r.columns.Reset(r.req.From*r.req.Unit.Ms(), r.req.Unit.Ms(), int(r.req.To-r.req.From+1), r.req.Fields)
		r.unusable = r.unusable[:0]
	}
	return r.forEachSeries(ctx, it, begin, r.addRow, func(i int) error {
		for _, bucket := range r.unusable {
			r.columns.Unset(bucket)
		}
		return visit(i, &r.columns)
	})
}

// forEachSeries makes one series after the other the current one: it calls begin, add for each row, and end.
func (r *reader) forEachSeries(
	ctx context.Context, it storage.RowIter, begin func(), add func(row storage.Row, month int64) error, end func(i int) error,
) error {
	more := it.Next()
	for i, prefix := range r.req.Prefixes {
		begin()
		if r.cutoffMs = 0; !r.req.stored {
			r.cutoffMs = r.retention.cutoffMs(prefix)
		}
		if err := r.invalidated.Seek(ctx, prefix); err != nil {
			return err
		}
		for more {
			row := it.Row()
			rowPrefix, month, ok := keyschema.CutMonth(row.Key)
			if !ok {
				return fmt.Errorf("%w: table %s has row %q", storage.ErrCorrupt, storage.TableRollup, row.Key)
			}
			if !bytes.Equal(rowPrefix, prefix) {
				break
			}
			if err := add(row, month); err != nil {
				return err
			}
			more = it.Next()
		}
		if err := it.Err(); err != nil {
			return fmt.Errorf("read rollups: %w", err)
		}
		if err := end(i); err != nil {
			return err
		}
	}
	return nil
}

// addRow decodes the cells of one row.
func (r *reader) addRow(row storage.Row, month int64) error {
	start := MonthStart(month)
	for i := range row.Cells {
		c := &row.Cells[i]
		switch {
		case c.TsMs < r.cutoffMs: // expired, but not dropped yet
		case c.Family == storage.FamilyHours && IsStates(c.Qualifier):
			if day := start + int64(c.Qualifier[0]) - 1; r.req.stored || r.record.HasHours(day) {
				r.decode(row.Key, c, day*dayMs, keyschema.DayHours)
			}
		case c.Family == storage.FamilyHours && IsMark(c.Qualifier) && IsDirty(c.Value) && !r.req.stored:
			r.exclude((start+int64(c.Qualifier[0])-1)*keyschema.DayHours + int64(c.Qualifier[2]))
		case IsDays(c):
			if r.req.stored || r.record.HasMonth(month) {
				r.decode(row.Key, c, start*dayMs, int(MonthStart(month+1)-start))
			}
		case c.Family == storage.FamilyDays && len(c.Qualifier) == 2 && IsDirty(c.Value) && !r.req.stored:
			r.exclude(start + int64(c.Qualifier[1]) - 1)
		}
	}
	if len(r.invalidated.series) > 0 {
		r.excludeInvalidated(row, start)
	}
	return nil
}

// decode decodes a cell. The buckets of a cell that is damaged or lacks a field stay unknown.
func (r *reader) decode(key []byte, c *storage.Cell, fromMs int64, buckets int) {
	stored, err := r.decoder.Decode(&r.columns, key, c.Qualifier, c.Value, fromMs, buckets)
	if err != nil {
		r.store.ReportCorrupt(key, err)
		return
	}
	if !stored.Has(r.req.Fields) {
		first := fromMs / r.req.Unit.Ms()
		for b := range int64(buckets) {
			r.exclude(first + b)
		}
	}
}

// excludeInvalidated excludes the states of a row that may contain deleted samples.
func (r *reader) excludeInvalidated(row storage.Row, firstDay int64) {
	horizons := horizonsOf(row)
	for day := max(firstDay, r.firstDay); day <= min(r.lastDay, MonthStart(MonthOfDay(firstDay)+1)-1); day++ {
		if r.req.Unit == Days {
			r.excludeCovered(day, horizons[0])
			continue
		}
		horizon := horizons[day-firstDay+1]
		for hours := r.invalidated.Hours(day, horizon); hours != 0; hours &= hours - 1 {
			r.excludeCovered(day*keyschema.DayHours+int64(bits.TrailingZeros32(hours)), horizon)
		}
	}
}

// horizonsOf returns the deletion horizons of a row, by day of the month. The horizon of the month's days is in 0.
func horizonsOf(row storage.Row) (horizons [cell.BucketsMax + 1]uint64) {
	for i := range row.Cells {
		switch c := &row.Cells[i]; {
		case !IsHorizon(c):
		case c.Family == storage.FamilyDays:
			horizons[0] = ParseHorizon(c.Value)
		case int(c.Qualifier[0]) < len(horizons):
			horizons[c.Qualifier[0]] = ParseHorizon(c.Value)
		}
	}
	return horizons
}

// excludeCovered excludes a bucket if its state may contain samples that were deleted after the horizon.
func (r *reader) excludeCovered(bucket int64, horizon uint64) {
	if bucket < r.req.From || bucket > r.req.To {
		return
	}
	if s := r.columns.State(int(bucket - r.req.From)); s.Count > 0 && r.invalidated.Covers(&s, horizon) {
		r.exclude(bucket)
	}
}

// exclude makes a bucket unknown.
func (r *reader) exclude(bucket int64) {
	if bucket >= r.req.From && bucket <= r.req.To {
		r.unusable = append(r.unusable, int(bucket-r.req.From))
	}
}

// Has reports whether there may be valid states of a day's hours, or of the day itself. States of single series may still be
// unknown.
func (s *Store) Has(unit Unit, day int64) bool {
	if unit == Hours {
		return s.Manifest.View().HasHours(day)
	}
	return s.Manifest.View().HasMonth(MonthOfDay(day))
}

// AppendVersions appends the versions of the hours of the days from first to last, or of the days of these months. A
// later Read returns states of these versions or newer ones. A reader may cache them. Cached states are valid while
// retention keeps their cells and the versions stay the same. The reader compares versions after it has read the
// samples in memory.
func (s *Store) AppendVersions(dst []uint64, unit Unit, first, last int64) []uint64 {
	if unit == Days {
		return s.versions.months.Append(dst, first, last)
	}
	return s.versions.days.Append(dst, first, last)
}
