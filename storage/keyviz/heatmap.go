package keyviz

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"halite/storage/keyviz/heat"
)

// Limits of a Request.
const (
	RowsDefault    = 256
	RowsMax        = 1024
	ColumnsDefault = 360
	ColumnsMax     = 1024
	// axisMax bounds the key ranges of a heat map before they merge into rows.
	axisMax = 1 << 14
)

// ErrBadRequest means that a Request is invalid.
var ErrBadRequest = errors.New("bad request")

// Request asks for a heat map. Zero fields mean the default.
type Request struct {
	// FromMs and ToMs bound the time, milliseconds since 1970. The default is the last six hours.
	FromMs, ToMs int64
	// Start and End bound the keys; an empty End is unbounded.
	Start, End string
	Metric     heat.Metric
	// Rows and Columns bound the size of the map. Default RowsDefault and ColumnsDefault.
	Rows, Columns int
}

// Validate fills in defaults. The error wraps ErrBadRequest.
func (r *Request) Validate(now time.Time) error {
	if r.ToMs == 0 {
		r.ToMs = now.UnixMilli() + 1
	}
	if r.FromMs == 0 {
		r.FromMs = r.ToMs - (6 * time.Hour).Milliseconds()
	}
	r.Rows, r.Columns = cmp.Or(r.Rows, RowsDefault), cmp.Or(r.Columns, ColumnsDefault)
	switch {
	case r.FromMs < 0 || r.FromMs >= r.ToMs:
		return fmt.Errorf("%w: start must be before end, and not before 1970", ErrBadRequest)
	case r.End != "" && r.Start >= r.End:
		return fmt.Errorf("%w: start_key must lie below end_key", ErrBadRequest)
	case r.Rows < 1 || r.Rows > RowsMax:
		return fmt.Errorf("%w: rows is %d: 1 to %d are allowed", ErrBadRequest, r.Rows, RowsMax)
	case r.Columns < 1 || r.Columns > ColumnsMax:
		return fmt.Errorf("%w: cols is %d: 1 to %d are allowed", ErrBadRequest, r.Columns, ColumnsMax)
	}
	return nil
}

// Map is a heat map.
type Map struct {
	Metric heat.Metric
	// TimesMs are the starts of the columns, and the end of the last one.
	TimesMs []int64
	// Starts are the starts of the rows. The last row ends at End, or has no end if End is "".
	Starts []string
	End    string
	// Values are the counts by column and row.
	Values [][]float64
	// Missing marks columns without any counts.
	Missing []bool
	// Touched is the number of key ranges with reads in each column. Ranges is the number of all ranges in the column.
	Touched, Ranges []int
	// RowsWritten and BytesWritten are the rows and bytes written to the table over all columns, by row.
	RowsWritten, BytesWritten []float64
	// Approximate means that counts were spread evenly over parts of a range, or that a row holds several ranges.
	Approximate bool
}

// Map returns a heat map. The error wraps ErrBadRequest if the request is invalid.
func (c *Collector) Map(ctx context.Context, r Request) (*Map, error) {
	if err := r.Validate(c.opts.Now()); err != nil {
		return nil, err
	}
	l, times := c.grid(&r)
	columns := c.columns(l, times[0], times[len(times)-1])
	other, err := c.others(ctx, l, times[0], times[len(times)-1])
	if err != nil {
		return nil, fmt.Errorf("read the columns of other servers: %w", err)
	}
	columns = append(columns, other...)
	m := &Map{
		Metric: r.Metric, TimesMs: times, End: r.End, Values: make([][]float64, len(times)-1), Missing: make([]bool, len(times)-1),
		Touched: make([]int, len(times)-1), Ranges: make([]int, len(times)-1),
	}
	for i := range m.Missing {
		m.Missing[i] = true
	}
	axis := axisOf(columns, r.Start, r.End)
	m.RowsWritten, m.BytesWritten = make([]float64, len(axis)), make([]float64, len(axis))
	fine := m.fill(columns, axis, &r)
	m.reduce(axis, fine, r.Rows)
	return m, nil
}

// grid returns the times of the columns and their level: the finest level that keeps data for the whole request.
func (c *Collector) grid(r *Request) (*level, []int64) {
	nowMs := c.opts.Now().UnixMilli()
	levels := c.pyramid.levels
	at := 0
	for at+1 < len(levels) && (levels[at].FirstMs(nowMs) > r.FromMs ||
		(r.ToMs-r.FromMs)/levels[at+1].SpanMs >= int64(r.Columns)) {
		at++
	}
	l := levels[at]
	from := max(r.FromMs, l.FirstMs(nowMs))
	to := max(min(r.ToMs, nowMs+1), from+1)
	from -= from % l.SpanMs
	count := (to - from + l.SpanMs - 1) / l.SpanMs
	step := l.SpanMs * ((count + int64(r.Columns) - 1) / int64(r.Columns))
	if count > int64(r.Columns) && count <= int64(r.Columns)+2 {
		// The window begins and ends within columns. Drop the first columns rather than use a coarser level.
		step, from = l.SpanMs, from+(count-int64(r.Columns))*l.SpanMs
	}
	from -= from % step
	times := []int64{from}
	for ms := from; ms < to; {
		ms += step
		times = append(times, ms)
	}
	return l, times
}

// columns returns the decoded columns of a level and time range, by time.
func (c *Collector) columns(l *level, fromMs, toMs int64) []*heat.Column {
	c.mu.Lock()
	c.drain()
	var found []*heat.Column
	var encoded [][]byte
	for startMs, s := range l.columns {
		switch {
		case startMs < fromMs || startMs >= toMs:
		case s.open != nil:
			found = append(found, &heat.Column{
				StartMs: startMs, SpanMs: l.SpanMs, Starts: s.open.Starts, Counts: slices.Clone(s.open.Counts),
			})
		default:
			encoded = append(encoded, s.encoded)
		}
	}
	c.mu.Unlock()
	for _, src := range encoded {
		if column, err := c.pyramid.codec.Parse(src); err == nil {
			found = append(found, column)
		}
	}
	slices.SortFunc(found, func(a, b *heat.Column) int { return cmp.Compare(a.StartMs, b.StartMs) })
	return found
}

// axisOf returns the union of the columns' ranges within keys. If there are too many ranges, rows prefer to start at
// borders of salts, metrics and tenants.
func axisOf(columns []*heat.Column, start, end string) []string {
	seen := map[string]struct{}{start: {}}
	for _, c := range columns {
		for _, s := range c.Starts {
			if s > start && (end == "" || s < end) {
				seen[s] = struct{}{}
			}
		}
	}
	axis := make([]string, 0, len(seen))
	for s := range seen {
		axis = append(axis, s)
	}
	slices.Sort(axis)
	if len(axis) <= axisMax {
		return axis
	}
	rows := heat.Rows(axis, make([]float64, len(axis)), axisMax/2)
	for i, every := 0, len(axis)/(axisMax/2)+1; i < len(axis); i += every {
		rows = append(rows, i)
	}
	slices.Sort(rows)
	short := make([]string, 0, len(rows))
	for _, i := range slices.Compact(rows) {
		short = append(short, axis[i])
	}
	return short
}

// fill returns the counts of the metric by column of the map and range of the axis.
func (m *Map) fill(columns []*heat.Column, axis []string, r *Request) [][]float64 {
	fine := make([][]float64, len(m.Values))
	for i := range fine {
		fine[i] = make([]float64, len(axis))
	}
	// Ranges outside the keys of the request get separate ranges, which are cut off.
	whole, shift := axis, 0
	if r.Start != "" {
		whole, shift = append([]string{""}, axis...), 1
	}
	if r.End != "" {
		whole = append(slices.Clone(whole), r.End)
	}
	step := m.TimesMs[1] - m.TimesMs[0]
	for _, c := range columns {
		at := int((c.StartMs - m.TimesMs[0]) / step)
		m.Missing[at] = false
		m.Ranges[at] = max(m.Ranges[at], len(c.Starts))
		touched := 0
		for i := range c.Counts {
			if c.Counts[i][heat.ReadRows] > 0 {
				touched++
			}
		}
		m.Touched[at] = max(m.Touched[at], touched)
		heat.Spread(c.Starts, whole, func(i, row int, share float64) {
			if row -= shift; row < 0 || row >= len(axis) {
				return
			}
			m.RowsWritten[row] += c.Counts[i][heat.WriteRows] * share
			m.BytesWritten[row] += c.Counts[i][heat.WriteBytes] * share
			n := c.Counts[i][r.Metric]
			if n == 0 {
				return
			}
			m.Approximate = m.Approximate || share < 1
			if r.Metric.IsMax() {
				fine[at][row] = max(fine[at][row], n)
			} else {
				fine[at][row] += n * share
			}
		})
	}
	return fine
}

// reduce merges ranges into rows.
func (m *Map) reduce(axis []string, fine [][]float64, rowsMax int) {
	total := make([]float64, len(axis))
	for _, column := range fine {
		for i, n := range column {
			total[i] += n
		}
	}
	rows := heat.Rows(axis, total, rowsMax)
	m.Starts = make([]string, len(rows))
	for n, i := range rows {
		m.Starts[n] = axis[i]
	}
	m.Approximate = m.Approximate || len(rows) < len(axis)
	for at, column := range fine {
		m.Values[at] = merge(column, rows, m.Metric.IsMax())
	}
	m.RowsWritten, m.BytesWritten = merge(m.RowsWritten, rows, false), merge(m.BytesWritten, rows, false)
}

// merge adds up the values from the start of each row to the next one, or returns the largest of them.
func merge(fine []float64, rows []int, largest bool) []float64 {
	values := make([]float64, len(rows))
	for n, i := range rows {
		end := len(fine)
		if n+1 < len(rows) {
			end = rows[n+1]
		}
		for ; i < end; i++ {
			if largest {
				values[n] = max(values[n], fine[i])
			} else {
				values[n] += fine[i]
			}
		}
	}
	return values
}

// Cell is the exact load of one key range in one column.
type Cell struct {
	StartMs, SpanMs int64
	Start, End      string
	Counts          heat.Counts
	// Keys are recently sampled row keys of the range.
	Keys []string
}

// Cell returns the load of the range that holds a key, in the finest column that holds a time. found is false if the column
// does not exist.
func (c *Collector) Cell(tMs int64, key string) (cell Cell, found bool) {
	nowMs := c.opts.Now().UnixMilli()
	for _, l := range c.pyramid.levels {
		startMs := tMs - tMs%l.SpanMs
		if startMs < l.FirstMs(nowMs) {
			continue
		}
		for _, column := range c.columns(l, startMs, startMs+l.SpanMs) {
			at := heat.Find(column.Starts, key)
			cell = Cell{StartMs: startMs, SpanMs: l.SpanMs, Start: column.Starts[at], Counts: column.Counts[at]}
			if at+1 < len(column.Starts) {
				cell.End = column.Starts[at+1]
			}
			for _, k := range c.set.Keys(key) {
				if k >= cell.Start && (cell.End == "" || k < cell.End) {
					cell.Keys = append(cell.Keys, k)
				}
			}
			return cell, true
		}
	}
	return Cell{}, false
}
