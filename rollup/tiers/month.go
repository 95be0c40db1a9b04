package tiers

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"time"

	"halite/keyschema"
	"halite/rollup"
	"halite/rollup/cell"
	"halite/storage"
	"halite/storage/tombstone"
)

// monthPass computes the days of one month from their hours.
type monthPass struct {
	batch
	month   int64
	days    int
	encoder cell.Encoder
	decoder cell.Decoder
	hours   rollup.Columns
	former  rollup.Columns
	void    void
	stored  storedMonth
}

// storedMonth is what is stored of a series and month.
type storedMonth struct {
	states [cell.BucketsMax]rollup.State // of days, from their hours
	have   uint32                        // days that have hours
	// unknown days have damaged or stale hours, behind days some whose samples were deleted since: bits of days.
	unknown, behind uint32
	found           bool   // there is a cell of days, which is in former
	damaged         error  // why it is not
	asOf            uint64 // the deletion that the cell is as of
	marks           uint32 // days with a mark of any kind
}

// computeMonth computes the states of a month's days.
func (t *Tiers) computeMonth(ctx context.Context, month int64) (err error) {
	began := t.opts.Now()
	view, err := t.stable(ctx)
	if err != nil {
		return err
	}
	p := t.newMonthPass(month, view)
	defer p.pace.rest(ctx)
	defer release(view)
	defer t.metrics.passSeries.Set(0)
	if err := p.run(ctx, everything(), func(storage.Row) (bool, error) { return true, nil }); err != nil {
		return err
	}
	if err := t.ledger.finishMonth(ctx, month); err != nil {
		return err
	}
	t.metrics.passes.WithLabelValues("month").Inc()
	t.opts.Logger.Info("rollups of a month computed", "month", dayText(MonthStart(month))[:7], "series", p.series,
		"after", t.opts.Now().Sub(began).Round(time.Millisecond))
	return nil
}

func (t *Tiers) newMonthPass(month int64, view *tombstone.View) *monthPass {
	return &monthPass{
		batch: newBatch(t), month: month, days: int(MonthStart(month+1) - MonthStart(month)), void: newVoid(view),
	}
}

// run looks what is stored of each series of a set, and computes those that are wanted.
func (p *monthPass) run(ctx context.Context, set storage.RowSet, wanted func(storage.Row) (bool, error)) (err error) {
	first := MonthStart(p.month)
	it := p.t.table.ReadRows(ctx, set, storage.ReadOptions{Filter: storage.Filter{
		FromMs: first * dayMs, ToMs: (first + int64(p.days)) * dayMs,
	}})
	defer func() { err = errors.Join(err, it.Close()) }()
	for it.Next() {
		if err := p.t.awake(&p.batch); err != nil {
			return err
		}
		row := it.Row()
		prefix, month, ok := parseKey(row.Key)
		if !ok || month != p.month {
			continue
		}
		if err := p.void.series(ctx, prefix); err != nil {
			return err
		}
		p.look(row)
		want, err := wanted(row)
		if err == nil && want {
			err = p.add(ctx, row)
		}
		if err != nil {
			return err
		}
		if err := p.pace.pause(ctx); err != nil {
			return err
		}
	}
	if err := it.Err(); err != nil {
		return err
	}
	return p.flush(ctx)
}

// look finds out what is stored of the series at hand.
func (p *monthPass) look(row storage.Row) {
	p.stored = storedMonth{}
	s := &p.stored
	var asOf [cell.BucketsMax]uint64 // of the hours of each day
	for i := range row.Cells {
		switch c := &row.Cells[i]; {
		case !isAsOf(c):
		case c.Family == storage.FamilyDays:
			s.asOf = parseAsOf(c.Value)
		case p.isDay(c.Qualifier[0]):
			asOf[c.Qualifier[0]-1] = parseAsOf(c.Value)
		}
	}
	first := MonthStart(p.month)
	p.former.Reset(first*dayMs, dayMs, p.days, rollup.FieldsAll)
	for i := range row.Cells {
		c := &row.Cells[i]
		switch {
		case isDays(c):
			s.found = true
			if _, err := p.decoder.Decode(&p.former, row.Key, c.Qualifier, c.Value, first*dayMs, p.days); err != nil {
				p.t.noteCorrupt(row.Key, err)
				s.damaged = err
			}
		case c.Family == storage.FamilyDays && isDayMark(c.Qualifier, p.days):
			s.marks |= 1 << (c.Qualifier[1] - 1)
		case c.Family == storage.FamilyHours && isStates(c.Qualifier) && p.isDay(c.Qualifier[0]):
			day := int(c.Qualifier[0]) - 1
			state, err := p.dayState(row.Key, c, (first+int64(day))*dayMs)
			if err != nil {
				p.t.noteCorrupt(row.Key, err)
				s.unknown |= 1 << day
			}
			if p.void.hours(first+int64(day), asOf[day]) != 0 {
				s.behind |= 1 << day
			}
			s.states[day] = state
			s.have |= 1 << day
		case c.Family == storage.FamilyHours && isMark(c.Qualifier) && p.isDay(c.Qualifier[0]) && isLive(c.Value):
			s.unknown |= 1 << (c.Qualifier[0] - 1)
		}
	}
}

// add makes the mutation of the series at hand.
func (p *monthPass) add(ctx context.Context, row storage.Row) error {
	s, first := &p.stored, MonthStart(p.month)
	unknown, empty := s.unknown|s.behind, true
	for day := range p.days {
		// Hours live shorter than days, and may have lived shorter before than now: what they said stays, unless some of its
		// samples were deleted.
		if s.have>>day&1 == 0 && p.former.Known[day] {
			if former := p.former.State(day); !p.void.reaches(&former, s.asOf) {
				s.states[day] = former
			}
		}
		if unknown>>day&1 != 0 {
			s.states[day] = rollup.State{}
		}
		empty = empty && s.states[day].Count == 0
	}
	asOf := p.void.last(first, first+int64(p.days)-1)
	if empty && unknown == 0 && asOf > 0 {
		return p.remove(ctx, p.removal(row.Key))
	}
	if s.behind != 0 {
		asOf = 0 // it has yet to be computed as of the deletion
	}
	return p.write(ctx, row.Key, unknown, asOf)
}

// removal takes away all that is stored of the days of the series at hand.
func (p *monthPass) removal(rowKey []byte) storage.RowMutation {
	m := storage.RowMutation{Key: p.cut(func(dst []byte) []byte { return append(dst, rowKey...) })}
	remove := func(qualifier []byte) {
		m.Entries = append(m.Entries, storage.Entry{
			Kind: storage.DeleteCells, Family: storage.FamilyDays, Qualifier: qualifier,
			FromMs: MonthStart(p.month) * dayMs, ToMs: MonthStart(p.month+1) * dayMs,
		})
	}
	if p.stored.found {
		remove(daysQualifier())
	}
	if p.stored.asOf != 0 {
		remove(daysAsOfQualifier())
	}
	for marks := p.stored.marks; marks != 0; marks &= marks - 1 {
		remove(dayMarkQualifier(bits.TrailingZeros32(marks) + 1))
	}
	return m
}

func (p *monthPass) isDay(dayOfMonth byte) bool { return dayOfMonth >= 1 && int(dayOfMonth) <= p.days }

func isDayMark(qualifier []byte, days int) bool {
	return len(qualifier) == 2 && qualifier[0] == kindMark && qualifier[1] >= 1 && int(qualifier[1]) <= days
}

// dayState joins the hours of a cell.
func (p *monthPass) dayState(key []byte, c *storage.Cell, fromMs int64) (rollup.State, error) {
	p.hours.Reset(fromMs, keyschema.HourMs, keyschema.DayHours, rollup.FieldsAll)
	_, err := p.decoder.Decode(&p.hours, key, c.Qualifier, c.Value, fromMs, keyschema.DayHours)
	if err != nil {
		return rollup.State{}, err
	}
	return p.hours.Join(0, keyschema.DayHours).Canonical(), nil
}

// write adds the series' cell and marks its unknown days.
func (p *monthPass) write(ctx context.Context, rowKey []byte, unknown uint32, asOf uint64) error {
	key := p.cut(func(dst []byte) []byte { return append(dst, rowKey...) })
	states := p.stored.states[:p.days]
	var err error
	value := p.cut(func(dst []byte) []byte {
		dst, err = p.encoder.Append(dst, key, daysQualifier(), MonthStart(p.month)*dayMs, dayMs, rollup.FieldsAll, states)
		return dst
	})
	if err != nil {
		return fmt.Errorf("row %s: %w", key, err)
	}
	entry := func(qualifier, value []byte) storage.Entry {
		return storage.Entry{Kind: storage.SetCell, Family: storage.FamilyDays, TsMs: monthCellMs(p.month),
			Qualifier: qualifier, Value: value}
	}
	entries := []storage.Entry{entry(daysQualifier(), value)}
	entries = p.t.tell(entries, entry(daysAsOfQualifier(), asOfValue(asOf)), asOf, p.stored.asOf)
	for day := range p.days {
		switch {
		case unknown>>day&1 != 0:
			entries = append(entries, entry(dayMarkQualifier(day+1), []byte{markLive}))
		case p.stored.marks>>day&1 != 0:
			entries = append(entries, entry(dayMarkQualifier(day+1), []byte{markDone}))
		}
	}
	return p.put(ctx, storage.RowMutation{Key: key, Entries: entries})
}
