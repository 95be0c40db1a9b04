package tiers

import (
	"context"
	"errors"
	"fmt"
	"time"

	"halite/keyschema"
	"halite/rollup"
	"halite/storage"
)

// monthPass computes the days of one month from their hours.
type monthPass struct {
	batch
	month   int64
	days    int
	encoder rollup.Encoder
	decoder rollup.Decoder
	hours   rollup.Columns
	former  rollup.Columns
	kept    *kept // hours whose cells are older may be gone
}

// computeMonth computes the states of a month's days.
func (t *Tiers) computeMonth(ctx context.Context, month int64) (err error) {
	began := t.opts.Now()
	first, end := MonthStart(month), MonthStart(month+1)
	p := &monthPass{batch: newBatch(t), month: month, days: int(end - first), kept: t.keptOf(keyschema.Hours)}
	defer t.metrics.passSeries.Set(0)
	defer p.pace.rest(ctx)
	it := t.table.ReadRows(ctx, everything(), storage.ReadOptions{Filter: storage.Filter{
		FromMs: first * dayMs, ToMs: end * dayMs,
	}})
	defer func() { err = errors.Join(err, it.Close()) }()
	for it.Next() {
		if err := p.add(ctx, it.Row()); err != nil {
			return err
		}
		p.pace.pause(ctx)
	}
	if err := it.Err(); err != nil {
		return err
	}
	if err := p.flush(ctx); err != nil {
		return err
	}
	if err := t.ledger.finishMonth(ctx, month); err != nil {
		return err
	}
	t.metrics.passes.WithLabelValues("month").Inc()
	t.opts.Logger.Info("rollups of a month computed", "month", dayText(first)[:7], "series", p.series,
		"after", t.opts.Now().Sub(began).Round(time.Millisecond))
	return nil
}

// add makes the mutation of one series.
func (p *monthPass) add(ctx context.Context, row storage.Row) error {
	if _, month, ok := parseKey(row.Key); !ok || month != p.month {
		return nil
	}
	var states [rollup.BucketsMax]rollup.State
	var have, damaged, marked uint32
	firstMs := MonthStart(p.month) * dayMs
	p.former.Reset(firstMs, dayMs, p.days, rollup.FieldsAll)
	for i := range row.Cells {
		c := &row.Cells[i]
		switch {
		case c.Family == storage.FamilyDays && len(c.Qualifier) == 1:
			if _, err := p.decoder.Decode(&p.former, row.Key, c.Qualifier, c.Value, firstMs, p.days); err != nil {
				p.t.noteCorrupt(row.Key, err)
			}
		case c.Family == storage.FamilyDays && isDayMark(c.Qualifier, p.days):
			marked |= 1 << (c.Qualifier[1] - 1)
		case c.Family == storage.FamilyHours && isStates(c.Qualifier) && p.isDay(c.Qualifier[0]):
			day := int(c.Qualifier[0]) - 1
			state, err := p.dayState(row.Key, c, firstMs+int64(day)*dayMs)
			if err != nil {
				p.t.noteCorrupt(row.Key, err)
				damaged |= 1 << day
			}
			states[day] = state
			have |= 1 << day
		case c.Family == storage.FamilyHours && isMark(c.Qualifier) && p.isDay(c.Qualifier[0]) && isLive(c.Value):
			damaged |= 1 << (c.Qualifier[0] - 1)
		}
	}
	for day := range p.days {
		// Hours live shorter than days: what they said stays.
		if have>>day&1 == 0 && p.former.Known[day] && firstMs+int64(day+1)*dayMs-1 < p.kept.sinceMs(row.Key) {
			states[day] = p.former.State(day)
		}
		if damaged>>day&1 != 0 {
			states[day] = rollup.State{}
		}
	}
	return p.write(ctx, row.Key, states[:p.days], damaged, marked)
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

// write adds a series' cell and marks its damaged days.
func (p *monthPass) write(ctx context.Context, rowKey []byte, states []rollup.State, damaged, marked uint32) error {
	key := p.cut(func(dst []byte) []byte { return append(dst, rowKey...) })
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
	for day := range p.days {
		switch {
		case damaged>>day&1 != 0:
			entries = append(entries, entry([]byte{kindMark, byte(day + 1)}, []byte{markLive}))
		case marked>>day&1 != 0:
			entries = append(entries, entry([]byte{kindMark, byte(day + 1)}, []byte{markDone}))
		}
	}
	return p.put(ctx, storage.RowMutation{Key: key, Entries: entries})
}
