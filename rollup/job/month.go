package job

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"time"

	"halite/keyschema"
	"halite/rollup"
	"halite/rollup/cell"
	"halite/rollup/store"
	"halite/storage"
	"halite/storage/tombstone"
)

// monthPass computes the days of one month from their hours.
type monthPass struct {
	batch
	month       int64
	firstDay    int64
	days        int
	encoder     cell.Encoder
	decoder     cell.Decoder
	hours       rollup.Columns
	stored      rollup.Columns // the stored states of days
	invalidated store.Invalidated
	current     monthSeries
}

// monthSeries describes the row of a series and month. Bits of a set are days.
type monthSeries struct {
	states   [cell.BucketsMax]rollup.State // of days, computed from their hours
	hasHours uint32                        // days with states of hours
	unknown  uint32                        // days with damaged or dirty hours
	outdated uint32                        // days whose hours do not reflect a deletion
	marks    uint32                        // days with a mark of any kind
	found    bool                          // the row has a cell of days, which monthPass.stored holds
	damaged  error                         // why the cell cannot be read
	horizon  uint64                        // the last deletion that the cell reflects
}

// computeMonth computes the states of a month's days.
func (j *Job) computeMonth(ctx context.Context, month int64) (err error) {
	began := j.now()
	view, err := j.deletionView(ctx)
	if err != nil {
		return err
	}
	p := j.newMonthPass(month, view, j.opts.Share)
	defer p.throttle.sleep(ctx)
	defer release(view)
	defer j.metrics.passSeries.Set(0)
	if err := p.scan(ctx, allRows(), func(storage.Row) (bool, error) { return true, nil }); err != nil {
		return err
	}
	if err := j.store.Manifest.FinishMonth(ctx, month); err != nil {
		return err
	}
	j.metrics.passes.WithLabelValues(passMonth).Inc()
	j.opts.Logger.Info("computed the daily rollups of a month", "month", store.MonthText(month), "series", p.series,
		"duration", j.now().Sub(began).Round(time.Millisecond))
	return nil
}

func (j *Job) newMonthPass(month int64, view *tombstone.View, share float64) *monthPass {
	first := store.MonthStart(month)
	return &monthPass{
		batch: newBatch(j, share), month: month, firstDay: first, days: int(store.MonthStart(month+1) - first),
		invalidated: store.NewInvalidated(view),
	}
}

// scan loads each series of a set and computes the wanted ones.
func (p *monthPass) scan(ctx context.Context, set storage.RowSet, wanted func(storage.Row) (bool, error)) (err error) {
	it := p.j.store.Table.ReadRows(ctx, set, storage.ReadOptions{Filter: storage.Filter{
		FromMs: p.firstDay * dayMs, ToMs: (p.firstDay + int64(p.days)) * dayMs,
	}})
	defer func() { err = errors.Join(err, it.Close()) }()
	for it.Next() {
		if err := p.checkAwake(); err != nil {
			return err
		}
		row := it.Row()
		prefix, month, ok := keyschema.CutMonth(row.Key)
		if !ok || month != p.month {
			continue
		}
		if err := p.invalidated.Seek(ctx, prefix); err != nil {
			return err
		}
		p.load(row)
		want, err := wanted(row)
		if err == nil && want {
			err = p.addSeries(ctx, row)
		}
		if err != nil {
			return err
		}
		if err := p.throttle.pace(ctx); err != nil {
			return err
		}
	}
	if err := it.Err(); err != nil {
		return err
	}
	return p.flush(ctx)
}

// load reads the row of a series and makes it the current one.
func (p *monthPass) load(row storage.Row) {
	p.current = monthSeries{}
	s := &p.current
	var horizons [cell.BucketsMax]uint64 // horizons of the hours of each day
	for i := range row.Cells {
		switch c := &row.Cells[i]; {
		case !store.IsHorizon(c):
		case c.Family == storage.FamilyDays:
			s.horizon = store.ParseHorizon(c.Value)
		case p.isDay(c.Qualifier[0]):
			horizons[c.Qualifier[0]-1] = store.ParseHorizon(c.Value)
		}
	}
	p.stored.Reset(p.firstDay*dayMs, dayMs, p.days, rollup.FieldsAll)
	for i := range row.Cells {
		c := &row.Cells[i]
		switch {
		case store.IsDays(c):
			s.found = true
			if _, err := p.decoder.Decode(&p.stored, row.Key, c.Qualifier, c.Value, p.firstDay*dayMs, p.days); err != nil {
				p.j.store.ReportCorrupt(row.Key, err)
				s.damaged = err
			}
		case c.Family == storage.FamilyDays && store.IsDayMark(c.Qualifier, p.days):
			s.marks |= 1 << (c.Qualifier[1] - 1)
		case c.Family == storage.FamilyHours && store.IsStates(c.Qualifier) && p.isDay(c.Qualifier[0]):
			day := int(c.Qualifier[0]) - 1
			state, err := p.joinHours(row.Key, c, (p.firstDay+int64(day))*dayMs)
			if err != nil {
				p.j.store.ReportCorrupt(row.Key, err)
				s.unknown |= 1 << day
			}
			if p.invalidated.Hours(p.firstDay+int64(day), horizons[day]) != 0 {
				s.outdated |= 1 << day
			}
			s.states[day] = state
			s.hasHours |= 1 << day
		case c.Family == storage.FamilyHours && store.IsMark(c.Qualifier) && p.isDay(c.Qualifier[0]) && store.IsDirty(c.Value):
			s.unknown |= 1 << (c.Qualifier[0] - 1)
		}
	}
}

// addSeries makes the mutation of the current series.
func (p *monthPass) addSeries(ctx context.Context, row storage.Row) error {
	s := &p.current
	unknown, empty := s.unknown|s.outdated, true
	for day := range p.days {
		// Hours expire before days, and an earlier retention may have been shorter. So a stored state stays after its hours
		// have been dropped, unless it contains deleted samples.
		if s.hasHours>>day&1 == 0 && p.stored.Known[day] {
			if orphan := p.stored.State(day); !p.invalidated.Covers(&orphan, s.horizon) {
				s.states[day] = orphan
			}
		}
		if unknown>>day&1 != 0 {
			s.states[day] = rollup.State{}
		}
		empty = empty && s.states[day].Count == 0
	}
	horizon := p.invalidated.LastDeletion(p.firstDay, p.firstDay+int64(p.days)-1)
	if empty && unknown == 0 && horizon > 0 {
		return p.remove(ctx, p.removal(row.Key))
	}
	if s.outdated != 0 {
		horizon = 0 // another pass must apply the deletion to it
	}
	return p.writeSeries(ctx, row.Key, unknown, horizon)
}

// removal removes all stored cells of the days of the current series.
func (p *monthPass) removal(rowKey []byte) storage.RowMutation {
	m := storage.RowMutation{Key: p.alloc(func(dst []byte) []byte { return append(dst, rowKey...) })}
	remove := func(qualifier []byte) {
		m.Entries = append(m.Entries, storage.Entry{
			Kind: storage.DeleteCells, Family: storage.FamilyDays, Qualifier: qualifier,
			FromMs: p.firstDay * dayMs, ToMs: (p.firstDay + int64(p.days)) * dayMs,
		})
	}
	if p.current.found {
		remove(store.DaysQualifier())
	}
	if p.current.horizon != 0 {
		remove(store.DaysHorizonQualifier())
	}
	for marks := p.current.marks; marks != 0; marks &= marks - 1 {
		remove(store.DayMarkQualifier(bits.TrailingZeros32(marks) + 1))
	}
	return m
}

func (p *monthPass) isDay(dayOfMonth byte) bool { return dayOfMonth >= 1 && int(dayOfMonth) <= p.days }

// joinHours decodes a cell of hours and joins them to the state of their day.
func (p *monthPass) joinHours(key []byte, c *storage.Cell, fromMs int64) (rollup.State, error) {
	p.hours.Reset(fromMs, keyschema.HourMs, keyschema.DayHours, rollup.FieldsAll)
	_, err := p.decoder.Decode(&p.hours, key, c.Qualifier, c.Value, fromMs, keyschema.DayHours)
	if err != nil {
		return rollup.State{}, err
	}
	return p.hours.Join(0, keyschema.DayHours).Canonical(), nil
}

// writeSeries writes the cell of the current series and marks its unknown days dirty.
func (p *monthPass) writeSeries(ctx context.Context, rowKey []byte, unknown uint32, horizon uint64) error {
	key := p.alloc(func(dst []byte) []byte { return append(dst, rowKey...) })
	var err error
	value := p.alloc(func(dst []byte) []byte {
		dst, err = p.encoder.Append(dst, key, store.DaysQualifier(), p.firstDay*dayMs, dayMs, rollup.FieldsAll,
			p.current.states[:p.days])
		return dst
	})
	if err != nil {
		return fmt.Errorf("row %s: %w", key, err)
	}
	setCell := func(qualifier, value []byte) storage.Entry {
		return storage.Entry{Kind: storage.SetCell, Family: storage.FamilyDays, TsMs: store.MonthCellMs(p.month),
			Qualifier: qualifier, Value: value}
	}
	entries := []storage.Entry{setCell(store.DaysQualifier(), value)}
	horizonCell := setCell(store.DaysHorizonQualifier(), store.HorizonValue(horizon))
	entries = p.j.store.AppendHorizon(entries, horizonCell, horizon, p.current.horizon)
	for day := range p.days {
		switch {
		case unknown>>day&1 != 0:
			entries = append(entries, setCell(store.DayMarkQualifier(day+1), []byte{store.MarkDirty}))
		case p.current.marks>>day&1 != 0:
			entries = append(entries, setCell(store.DayMarkQualifier(day+1), []byte{store.MarkClean}))
		}
	}
	return p.write(ctx, storage.RowMutation{Key: key, Entries: entries})
}
