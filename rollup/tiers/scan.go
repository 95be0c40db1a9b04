package tiers

import (
	"bytes"
	"context"
	"errors"

	"halite/keyschema"
	"halite/keyschema/run"
	"halite/rollup"
	"halite/storage"
)

// rawDay is what the rows of a series and day say.
type rawDay struct {
	prefix  []byte
	states  [keyschema.DayHours]rollup.State
	found   uint32 // hours that have a row
	damaged uint32 // of these, those whose row cannot be read
	samples int
}

// rawScan computes the hour states of all series that have rows of a day, in key order.
type rawScan struct {
	t    *Tiers
	it   storage.RowIter
	more bool // it stands at a row that is not read yet
	row  run.Row
	day  rawDay
}

// scanRaw starts to read rows of a day.
func (t *Tiers) scanRaw(ctx context.Context, day int64, ranges []storage.RowRange) *rawScan {
	it := t.data.ReadRows(ctx, storage.RowSet{Ranges: ranges}, storage.ReadOptions{Filter: storage.Filter{
		Families: []string{storage.FamilySamples}, FromMs: day * dayMs, ToMs: (day + 1) * dayMs,
	}})
	return &rawScan{t: t, it: it, more: it.Next()}
}

// next returns the next series; nil at the end or after an error. It is valid until the next call.
func (s *rawScan) next() *rawDay {
	if !s.more {
		return nil
	}
	d := &s.day
	*d = rawDay{prefix: d.prefix[:0]}
	for s.more {
		row := s.it.Row()
		prefix, hour, ok := parseDataKey(row.Key)
		if !ok {
			s.more = s.it.Next()
			continue // the table admits no such key
		}
		if len(d.prefix) == 0 {
			d.prefix = append(d.prefix, prefix...)
		} else if !bytes.Equal(d.prefix, prefix) {
			break
		}
		s.take(row, hour)
		s.more = s.it.Next()
	}
	if len(d.prefix) == 0 || s.it.Err() != nil {
		s.more = false
		return nil
	}
	return d
}

// take computes the state of one row.
func (s *rawScan) take(row storage.Row, hour int64) {
	d, slot := &s.day, hour%keyschema.DayHours
	s.row.Reset(keyschema.HourStartMs(hour))
	d.found |= 1 << slot
	for i := range row.Cells {
		if err := s.row.Add(row.Cells[i].Qualifier, row.Cells[i].Value); err != nil {
			d.damaged |= 1 << slot
			s.t.metrics.unreadable.Inc()
			s.t.opts.Logger.Error("row cannot be read; its hour gets no state", "row", string(row.Key), "err", err)
			return
		}
	}
	tsMs, values := s.row.Columns()
	d.states[slot] = rollup.Compute(tsMs, values)
	d.samples += len(tsMs)
}

func (s *rawScan) close() error { return errors.Join(s.it.Err(), s.it.Close()) }

// oldDay is what is stored of a series and day.
type oldDay struct {
	prefix []byte
	states []byte   // the cell; nil if there is none
	stale  uint32   // hours with a mark that counts
	gone   uint32   // of these, those whose rows were taken away otherwise than by retention
	marks  uint32   // hours with a mark of any kind
	asOf   uint64   // the deletion that the states are as of
	timed  [][]byte // qualifiers of live marks of several processes
}

// oldScan reads what is stored of a day, in key order.
type oldScan struct {
	it  storage.RowIter
	day oldDay
}

// scanOld starts to read what is stored of a day's hours.
func (t *Tiers) scanOld(ctx context.Context, day int64, set storage.RowSet) *oldScan {
	at := byte(dayOfMonth(day))
	return &oldScan{it: t.table.ReadRows(ctx, set, storage.ReadOptions{Filter: storage.Filter{
		Families: []string{storage.FamilyHours}, FromMs: day * dayMs, ToMs: (day + 1) * dayMs,
		QualifierStart: []byte{at}, QualifierEnd: []byte{at + 1},
	}})}
}

// next returns the next series; nil at the end or after an error. It is valid until the next call.
func (s *oldScan) next() *oldDay {
	for s.it.Next() {
		row := s.it.Row()
		prefix, _, ok := parseKey(row.Key)
		if !ok {
			continue
		}
		s.day = oldDay{prefix: append(s.day.prefix[:0], prefix...)}
		for i := range row.Cells {
			c := &row.Cells[i]
			switch {
			case isStates(c.Qualifier):
				s.day.states = c.Value
			case isAsOf(c):
				s.day.asOf = parseAsOf(c.Value)
			case isMark(c.Qualifier):
				if len(c.Qualifier) == markBytes {
					s.day.marks |= 1 << c.Qualifier[2]
				} else if isLive(c.Value) {
					s.day.timed = append(s.day.timed, bytes.Clone(c.Qualifier))
				}
				if isLive(c.Value) {
					s.day.stale |= 1 << c.Qualifier[2]
				}
				if len(c.Value) == 1 && c.Value[0] == markGone {
					s.day.gone |= 1 << c.Qualifier[2]
				}
			}
		}
		return &s.day
	}
	return nil
}

func (s *oldScan) close() error { return errors.Join(s.it.Err(), s.it.Close()) }

func isStates(qualifier []byte) bool { return len(qualifier) == 2 && qualifier[1] == kindStates }

// isDays tells whether a cell has the states of a month's days.
func isDays(c *storage.Cell) bool {
	return c.Family == storage.FamilyDays && len(c.Qualifier) == 1 && c.Qualifier[0] == kindStates
}

func isMark(qualifier []byte) bool {
	return (len(qualifier) == markBytes || len(qualifier) == timedMarkBytes) && qualifier[1] == kindMark &&
		qualifier[2] < keyschema.DayHours
}

// isLive tells whether a mark counts; what is unreadable does.
func isLive(value []byte) bool { return len(value) != 1 || value[0] != markDone }
