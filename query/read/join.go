package read

import (
	"math"
	"slices"

	"halite/keyschema"
	"halite/query/column"
	"halite/storage/index"
)

// join makes the batch from the rows and head samples of a slice. Its samples stay in the budget until the batch is released.
func (t *timeSlice) join() (*Batch, error) {
	session := t.batch.sel.session
	batch := &Batch{First: t.batch.first, ToMs: t.window.MaxMs, session: session}
	var unfinished []int
	if t.lookup != nil {
		batch.Columns, batch.pins, unfinished = t.lookup.TakeColumns()
	}
	if batch.Columns == nil {
		batch.Columns = session.reader.columns.Columns(len(t.batch.series))
	}
	batch.refs.Store(1)
	var apart []int // series whose samples are not contiguous
	total := 0
	for i := range t.batch.series {
		c := &batch.Columns[i]
		c.Series = &t.batch.series[i]
		c.Labels, c.Group = c.Series.Labels, c.Series.Group
		if c.Len() > 0 {
			if len(unfinished) == 0 || unfinished[0] != i {
				continue // its samples are pinned in the cache
			}
			unfinished = unfinished[1:]
		}
		if pinned := t.batch.pinnedOf(i); pinned != nil && t.appendPinned(c, i, pinned) {
			continue
		}
		head := t.headOf(i)
		rows, properties, ok := t.contiguous(i)
		if ok && len(head.TsMs) == 0 {
			c.Append(rows, properties)
			continue
		}
		apart = append(apart, i)
		total += len(head.TsMs) + t.samplesOf(i)
	}
	if len(apart) > 0 {
		if err := t.joinApart(batch, apart, total); err != nil {
			batch.Release()
			return nil, err
		}
	}
	if t.lookup != nil {
		t.lookup.PutBlocks(batch.Columns)
	}
	if t.records != nil {
		if err := t.joinRecords(batch); err != nil {
			batch.Release()
			return nil, err
		}
	}
	t.hideOld(batch)
	if err := t.foldParts(batch); err != nil {
		batch.Release()
		return nil, err
	}
	batch.headPins, t.batch.pins = t.batch.pins, nil
	if len(apart) < len(t.batch.series) || batch.pins.Any() {
		batch.data = append(batch.data, t.parts...)
		t.parts = nil
	}
	return batch, nil
}

// onlyHead reports whether the data table has no rows of the hours of the batch. The head was read first. If a row has left
// the head since, NewestRow includes its hour.
func (t *timeSlice) onlyHead() bool {
	sel := t.batch.sel
	newest := sel.session.reader.opts.NewestRow
	if newest == nil || !t.whole || sel.kinds.records() {
		return false
	}
	last := newest()
	if t.batch.owners != nil {
		return false // their parts have to be joined
	}
	return !slices.ContainsFunc(t.batch.series, func(s index.Series) bool { return len(s.Hours) > 0 && s.Hours[0].First <= last })
}

// appendPinned appends rows of a series and its pinned samples of the head to a column. It returns false if they have to be
// joined in memory: they overlap, or a block of the rows must be cached.
func (t *timeSlice) appendPinned(c *column.Column, series int, pinned *column.Samples) bool {
	rows, properties, ok := t.contiguous(series)
	n := len(rows.TsMs)
	if !ok || n > 0 && rows.TsMs[n-1] >= pinned.Time(0) || t.lookup != nil && t.lookup.AnyToPut(series) {
		return false
	}
	if n > 0 {
		c.Append(rows, properties)
	}
	if c.Len() == 0 {
		c.Samples = *pinned
	} else {
		c.Segments = append(c.Segments, *pinned)
	}
	return true
}

// headBatch makes the batch from the samples of the head, and takes over their memory.
func (t *timeSlice) headBatch() *Batch {
	session := t.batch.sel.session
	batch := &Batch{First: t.batch.first, ToMs: t.window.MaxMs, session: session}
	batch.refs.Store(1)
	if batch.Columns = t.batch.columns; batch.Columns == nil {
		batch.Columns = session.reader.columns.Columns(len(t.batch.series))
	}
	for i := range t.batch.series {
		c := &batch.Columns[i]
		c.Series = &t.batch.series[i]
		c.Labels, c.Group = c.Series.Labels, c.Series.Group
		if t.batch.pinnedOf(i) != nil {
			continue
		}
		if head := t.batch.headOf(i); len(head.TsMs) > 0 {
			c.Append(head, t.batch.propertiesOf(i, head))
		}
	}
	t.hideOld(batch)
	batch.head, t.batch.head, t.batch.headEnds = t.batch.head, nil, nil
	batch.headPins, t.batch.pins, t.batch.columns = t.batch.pins, nil, nil
	return batch
}

// joinApart copies the samples of series that are not contiguous.
func (t *timeSlice) joinApart(batch *Batch, apart []int, total int) error {
	session := t.batch.sel.session
	// The samples are in memory twice until the rows are released.
	if err := session.reserve(total); err != nil {
		return err
	}
	out := session.reader.buffers.Get(total)
	for _, i := range apart {
		start := out.Len()
		properties := t.joinSeries(out, i, t.headOf(i))
		end := out.Len()
		all := column.Points{TsMs: out.TsMs[start:end:end], Values: out.Values[start:end:end]}
		batch.Columns[i].Append(all, properties)
	}
	session.budget.Release(int64(total-out.Len()) * column.SampleBytes)
	batch.data = append(batch.data, out)
	return nil
}

// contiguous returns the rows of a series as one column, if they are adjacent in memory in the order of time.
func (t *timeSlice) contiguous(series int) (c column.Points, p column.Properties, ok bool) {
	at, p := column.Row{}, column.Properties{StepMs: 1, NoStale: true, Monotonic: true}
	for _, r := range t.rows.Series(series) {
		switch {
		case r.N == 0:
		case at.N == 0:
			at, p = r, r.Properties
		case r.Part != at.Part || r.Start != at.Start+at.N:
			return column.Points{}, column.Properties{}, false
		default:
			part := t.parts[r.Part]
			all := column.Points{TsMs: part.TsMs[at.Start : r.Start+r.N], Values: part.Values[at.Start : r.Start+r.N]}
			p = p.Join(r.Properties, int(at.N), all)
			at.N += r.N
		}
	}
	if at.N == 0 {
		return column.Points{}, p, true
	}
	part, end := t.parts[at.Part], at.Start+at.N
	return column.Points{TsMs: part.TsMs[at.Start:end:end], Values: part.Values[at.Start:end:end]}, p, true
}

// samplesOf returns the number of samples of a series in rows.
func (t *timeSlice) samplesOf(series int) int {
	n := 0
	for _, r := range t.rows.Series(series) {
		n += int(r.N)
	}
	return n
}

// joinSeries appends the rows of a series and the samples of the head in order of time. On equal times the head wins. It returns
// the properties of all samples.
func (t *timeSlice) joinSeries(out *column.Buffer, series int, head column.Points) column.Properties {
	start, p, overlaid := out.Len(), column.PropertiesOf(column.Points{}), false
	for _, r := range t.rows.Series(series) {
		if r.N == 0 {
			continue
		}
		part := t.parts[r.Part]
		row := column.Points{TsMs: part.TsMs[r.Start : r.Start+r.N], Values: part.Values[r.Start : r.Start+r.N]}
		if len(head.TsMs) > 0 && head.TsMs[0] <= row.TsMs[r.N-1] {
			head, overlaid = overlay(out, row, head), true
			continue
		}
		at := out.Len()
		out.Append(row.TsMs, row.Values)
		p = out.Join(p, r.Properties, start, at)
	}
	at := out.Len()
	out.Append(head.TsMs, head.Values)
	if overlaid {
		return column.PropertiesOf(column.Points{TsMs: out.TsMs[start:], Values: out.Values[start:]})
	}
	return out.Join(p, t.batch.propertiesOf(series, head), start, at)
}

// overlay appends row and all of head up to the row's last time. On equal times the head wins. It returns the rest of head.
func overlay(out *column.Buffer, row, head column.Points) column.Points {
	before, head := head.Split(row.TsMs[0])
	out.Append(before.TsMs, before.Values)
	over, rest := head.Split(row.TsMs[len(row.TsMs)-1] + 1)
	h := 0
	for i, ts := range row.TsMs {
		for h < len(over.TsMs) && over.TsMs[h] < ts {
			out.Append(over.TsMs[h:h+1], over.Values[h:h+1])
			h++
		}
		if h < len(over.TsMs) && over.TsMs[h] == ts {
			continue // the sample of the head follows in the next iteration, or after the loop
		}
		out.Append(row.TsMs[i:i+1], row.Values[i:i+1])
	}
	out.Append(over.TsMs[h:], over.Values[h:])
	return rest
}

// hideOld removes samples of a batch that are older than the retention of their metric. They lie in the oldest hour.
func (t *timeSlice) hideOld(b *Batch) {
	cutoffs := t.batch.sel.cutoffs(t.window)
	if cutoffs == nil {
		return
	}
	for i := range b.Columns {
		c := &b.Columns[i]
		if r := c.Records; r != nil {
			kept := column.TimeRange{MinMs: cutoffs.ms(c.Series.Metric()), MaxMs: math.MaxInt64}.ClipRecords(*r)
			r.StartTimes, r.Exemplars = kept.StartTimes, kept.Exemplars // joinRecords has hidden old histograms
		}
		if len(c.TsMs) == 0 {
			continue
		}
		_, rest := column.Points{TsMs: c.TsMs, Values: c.Values}.Split(cutoffs.ms(c.Series.Metric()))
		c.TsMs, c.Values = rest.TsMs, rest.Values
	}
}

// oldestHour returns the first hour of a series that retention does not hide.
func (t *timeSlice) oldestHour(series int) int64 {
	cutoffs := t.batch.sel.cutoffs(t.window)
	if cutoffs == nil {
		return 0
	}
	return keyschema.HourOf(cutoffs.ms(t.batch.series[series].Metric()))
}
