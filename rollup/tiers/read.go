package tiers

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
)

// ErrBadRequest is wrapped by errors about requests that nobody can answer.
var ErrBadRequest = errors.New("bad rollup request")

// Unit is the length of a bucket.
type Unit uint8

// The units of which states are kept.
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
	// Prefixes name the series, as keyschema.Rule.AppendPrefix makes them; sorted, each once.
	Prefixes [][]byte
	// Unit is that of From, To and the states.
	Unit Unit
	// From and To are the first and last bucket, since 1970.
	From, To int64
	// Fields are the columns to read.
	Fields rollup.Fields

	// stored asks for what the cells hold, stale or older than it is kept, except what stands for deleted samples.
	stored bool
}

// bucketsMax bounds a request: a hundred years of hours.
const bucketsMax = 100 * 366 * keyschema.DayHours

// check tells what is wrong with a request.
func (r *Request) check() error {
	if r.Unit > Days || r.From < 0 || r.To < r.From || r.To-r.From >= bucketsMax || r.Fields&^rollup.FieldsAll != 0 {
		return fmt.Errorf("%w: buckets %d to %d, unit %d, fields %#x", ErrBadRequest, r.From, r.To, r.Unit, uint16(r.Fields))
	}
	for i := 1; i < len(r.Prefixes); i++ {
		if bytes.Compare(r.Prefixes[i-1], r.Prefixes[i]) >= 0 {
			return fmt.Errorf("%w: prefix %q does not sort after its predecessor", ErrBadRequest, r.Prefixes[i])
		}
	}
	return nil
}

// Read hands on the states of each series, in the order of the prefixes: one bucket for each from From to To. What is not
// Known has to be read from the samples: it is not closed yet, was marked stale, is damaged, lacks a field, is older than
// the tier is kept, or the series has nothing stored there. The columns are valid until each returns; its error ends the
// read and is returned.
//
// The caller has asked before which samples are in memory, and does not use states of hours that have some.
func (t *Tiers) Read(ctx context.Context, req Request, each func(i int, c *rollup.Columns) error) error {
	if err := req.check(); err != nil {
		return err
	}
	if len(req.Prefixes) == 0 {
		return nil
	}
	r := newReader(t, &req)
	if t.opts.Deletions != nil {
		view, done := t.opts.Deletions.Within(ctx, r.first*dayMs, (r.last+1)*dayMs)
		defer done()
		r.void = newVoid(view)
	}
	it := t.table.ReadRows(ctx, r.rows(), r.options())
	err := r.walk(ctx, it, each)
	return errors.Join(err, it.Close())
}

// reader is one Read under way. The ledger is looked at before the table: what becomes stale later concerns samples that
// the caller has seen in memory, or that came after it asked.
type reader struct {
	t       *Tiers
	req     *Request
	ledger  *record
	first   int64 // first and last day asked for
	last    int64
	columns rollup.Columns
	decoder cell.Decoder
	stale   []int // buckets of the current series that are marked
	kept    *kept
	keptMs  int64 // of the current series
	void    void
}

func newReader(t *Tiers, req *Request) *reader {
	r := &reader{t: t, req: req, ledger: t.ledger.view(), first: req.From, last: req.To,
		kept: t.keptOf(keyschema.Hours)}
	if req.Unit == Days {
		r.kept.tier = keyschema.Days
	}
	if req.Unit == Hours {
		r.first, r.last = req.From/keyschema.DayHours, req.To/keyschema.DayHours
	}
	return r
}

// rows names the rows of all series and months.
func (r *reader) rows() storage.RowSet {
	from, to := MonthOfDay(r.first), MonthOfDay(r.last)
	keys := make([][]byte, 0, len(r.req.Prefixes)*int(to-from+1))
	for _, prefix := range r.req.Prefixes {
		for month := to; month >= from; month-- {
			keys = append(keys, appendKey(make([]byte, 0, len(prefix)+monthDigits), prefix, month))
		}
	}
	return storage.RowSet{Keys: keys}
}

func (r *reader) options() storage.ReadOptions {
	if r.req.Unit == Days {
		return storage.ReadOptions{Filter: storage.Filter{Families: []string{storage.FamilyDays},
			FromMs: r.first * dayMs, ToMs: monthCellMs(MonthOfDay(r.last)) + 1}}
	}
	return storage.ReadOptions{Filter: storage.Filter{Families: []string{storage.FamilyHours},
		FromMs: r.first * dayMs, ToMs: (r.last + 1) * dayMs}}
}

// walk spreads the rows over the series.
func (r *reader) walk(ctx context.Context, it storage.RowIter, each func(i int, c *rollup.Columns) error) error {
	more := it.Next()
	for i, prefix := range r.req.Prefixes {
		r.columns.Reset(r.req.From*r.req.Unit.Ms(), r.req.Unit.Ms(), int(r.req.To-r.req.From+1), r.req.Fields)
		r.stale = r.stale[:0]
		if r.keptMs = 0; !r.req.stored {
			r.keptMs = r.kept.sinceMs(prefix)
		}
		if err := r.void.series(ctx, prefix); err != nil {
			return err
		}
		for more {
			row := it.Row()
			of, month, ok := parseKey(row.Key)
			if !ok {
				return fmt.Errorf("%w: table %s has row %q", storage.ErrCorrupt, storage.TableRollup, row.Key)
			}
			if !bytes.Equal(of, prefix) {
				break
			}
			r.take(row, month)
			more = it.Next()
		}
		if err := it.Err(); err != nil {
			return fmt.Errorf("read rollups: %w", err)
		}
		for _, bucket := range r.stale {
			r.columns.Unset(bucket)
		}
		if err := each(i, &r.columns); err != nil {
			return err
		}
	}
	return nil
}

// take unpacks the cells of one row.
func (r *reader) take(row storage.Row, month int64) {
	start := MonthStart(month)
	for i := range row.Cells {
		c := &row.Cells[i]
		switch {
		case c.TsMs < r.keptMs: // space that is yet to be freed
		case c.Family == storage.FamilyHours && isStates(c.Qualifier):
			if day := start + int64(c.Qualifier[0]) - 1; r.req.stored || r.ledger.hasHours(day) {
				r.decode(row.Key, c, day*dayMs, keyschema.DayHours)
			}
		case c.Family == storage.FamilyHours && isMark(c.Qualifier) && isLive(c.Value) && !r.req.stored:
			r.mark((start+int64(c.Qualifier[0])-1)*keyschema.DayHours + int64(c.Qualifier[2]))
		case isDays(c):
			if r.req.stored || r.ledger.hasMonth(month) {
				r.decode(row.Key, c, start*dayMs, int(MonthStart(month+1)-start))
			}
		case c.Family == storage.FamilyDays && len(c.Qualifier) == 2 && isLive(c.Value) && !r.req.stored:
			r.mark(start + int64(c.Qualifier[1]) - 1)
		}
	}
	if len(r.void.of) > 0 {
		r.markVoid(row, start)
	}
}

// decode unpacks a cell. One that is damaged or lacks a field leaves its buckets unknown.
func (r *reader) decode(key []byte, c *storage.Cell, fromMs int64, buckets int) {
	stored, err := r.decoder.Decode(&r.columns, key, c.Qualifier, c.Value, fromMs, buckets)
	if err != nil {
		r.t.noteCorrupt(key, err)
		return
	}
	if !stored.Has(r.req.Fields) {
		first := fromMs / r.req.Unit.Ms()
		for b := range int64(buckets) {
			r.mark(first + b)
		}
	}
}

// markVoid notes the states of a row that may stand for deleted samples.
func (r *reader) markVoid(row storage.Row, firstDay int64) {
	var asOf [cell.BucketsMax + 1]uint64 // by day of the month; of the month's days in 0
	for i := range row.Cells {
		switch c := &row.Cells[i]; {
		case !isAsOf(c):
		case c.Family == storage.FamilyDays:
			asOf[0] = parseAsOf(c.Value)
		case int(c.Qualifier[0]) < len(asOf):
			asOf[c.Qualifier[0]] = parseAsOf(c.Value)
		}
	}
	for day := max(firstDay, r.first); day <= min(r.last, MonthStart(MonthOfDay(firstDay)+1)-1); day++ {
		if r.req.Unit == Days {
			r.markReached(day, asOf[0])
			continue
		}
		known := asOf[day-firstDay+1]
		for hours := r.void.hours(day, known); hours != 0; hours &= hours - 1 {
			r.markReached(day*keyschema.DayHours+int64(bits.TrailingZeros32(hours)), known)
		}
	}
}

// markReached marks a bucket if its state may stand for samples that were deleted since.
func (r *reader) markReached(bucket int64, asOf uint64) {
	if bucket < r.req.From || bucket > r.req.To {
		return
	}
	if s := r.columns.State(int(bucket - r.req.From)); s.Count > 0 && r.void.reaches(&s, asOf) {
		r.mark(bucket)
	}
}

// mark notes a bucket that must not be used.
func (r *reader) mark(bucket int64) {
	if bucket >= r.req.From && bucket <= r.req.To {
		r.stale = append(r.stale, int(bucket-r.req.From))
	}
}

// Has tells whether there may be valid states: of the hours of a day, or of the day itself. Of single series they may be
// unknown nevertheless.
func (t *Tiers) Has(unit Unit, day int64) bool {
	if view := t.ledger.view(); unit == Hours {
		return view.hasHours(day)
	} else {
		return view.hasMonth(MonthOfDay(day))
	}
}
