package job

import (
	"bytes"
	"context"
	"errors"

	"halite/keyschema"
	"halite/keyschema/chunk"
	"halite/rollup"
	"halite/rollup/store"
	"halite/storage"
	"halite/storage/tombstone"
)

// sampledDay holds the states that the rows of a series and day give.
type sampledDay struct {
	prefix  []byte
	states  [keyschema.DayHours]rollup.State
	found   uint32 // hours that have a row
	damaged uint32 // found hours whose row cannot be read
	samples int
}

// sampleScan computes the hour states of all series that have rows of a day, in key order.
type sampleScan struct {
	j    *Job
	it   storage.RowIter
	more bool // it is at a row that was not read yet
	row  chunk.Row
	day  sampledDay
}

// scanSamples starts to read rows of a day without the samples that the view's deletions removed.
func (j *Job) scanSamples(ctx context.Context, view *tombstone.View, day int64, ranges []storage.RowRange) *sampleScan {
	it := j.store.Data.ReadRows(ctx, storage.RowSet{Ranges: ranges}, storage.ReadOptions{Deletions: view, Filter: storage.Filter{
		Families: []string{storage.FamilySamples}, FromMs: day * dayMs, ToMs: (day + 1) * dayMs,
	}})
	return &sampleScan{j: j, it: it, more: it.Next()}
}

// next returns the next series, or nil at the end and after an error. The series is valid until the next call.
func (s *sampleScan) next() *sampledDay {
	if !s.more {
		return nil
	}
	d := &s.day
	*d = sampledDay{prefix: d.prefix[:0]}
	for s.more {
		row := s.it.Row()
		prefix, hour, ok := keyschema.CutHour(row.Key)
		if !ok {
			s.more = s.it.Next()
			continue // the table admits no such key
		}
		if len(d.prefix) == 0 {
			d.prefix = append(d.prefix, prefix...)
		} else if !bytes.Equal(d.prefix, prefix) {
			break
		}
		s.addRow(row, hour)
		s.more = s.it.Next()
	}
	if len(d.prefix) == 0 || s.it.Err() != nil {
		s.more = false
		return nil
	}
	return d
}

// addRow computes the state of one row.
func (s *sampleScan) addRow(row storage.Row, hour int64) {
	d, slot := &s.day, hour%keyschema.DayHours
	s.row.Reset(keyschema.HourStartMs(hour))
	d.found |= 1 << slot
	for i := range row.Cells {
		if err := s.row.Add(row.Cells[i].Qualifier, row.Cells[i].Value); err != nil {
			d.damaged |= 1 << slot
			s.j.metrics.unreadable.Inc()
			s.j.opts.Logger.Error("row is damaged; its hour gets no rollup state", "row", string(row.Key), "err", err)
			return
		}
	}
	tsMs, values := s.row.Columns()
	d.states[slot] = rollup.Compute(tsMs, values)
	d.samples += len(tsMs)
}

func (s *sampleScan) close() error { return errors.Join(s.it.Err(), s.it.Close()) }

// storedDay is what the table of states has of a series and day.
type storedDay struct {
	prefix     []byte
	states     []byte   // the cell; nil if there is none
	dirty      uint32   // hours with a dirty mark
	gone       uint32   // dirty hours whose rows were removed, but not by retention
	marks      uint32   // hours with a mark of any kind
	horizon    uint64   // the last deletion that the states reflect
	timedMarks [][]byte // qualifiers of the dirty marks of several processes
}

// storedScan reads the stored states of a day, in key order.
type storedScan struct {
	it  storage.RowIter
	day storedDay
}

// scanStored starts to read the stored states of a day's hours.
func (j *Job) scanStored(ctx context.Context, day int64, set storage.RowSet) *storedScan {
	at := byte(store.DayOfMonth(day))
	return &storedScan{it: j.store.Table.ReadRows(ctx, set, storage.ReadOptions{Filter: storage.Filter{
		Families: []string{storage.FamilyHours}, FromMs: day * dayMs, ToMs: (day + 1) * dayMs,
		QualifierStart: []byte{at}, QualifierEnd: []byte{at + 1},
	}})}
}

// next returns the next series, or nil at the end and after an error. The series is valid until the next call.
func (s *storedScan) next() *storedDay {
	for s.it.Next() {
		row := s.it.Row()
		prefix, _, ok := keyschema.CutMonth(row.Key)
		if !ok {
			continue
		}
		s.day = storedDay{prefix: append(s.day.prefix[:0], prefix...)}
		for i := range row.Cells {
			s.day.addCell(&row.Cells[i])
		}
		return &s.day
	}
	return nil
}

func (d *storedDay) addCell(c *storage.Cell) {
	switch {
	case store.IsStates(c.Qualifier):
		d.states = c.Value
	case store.IsHorizon(c):
		d.horizon = store.ParseHorizon(c.Value)
	case store.IsMark(c.Qualifier):
		dirty := store.IsDirty(c.Value)
		if len(c.Qualifier) == store.MarkBytes {
			d.marks |= 1 << c.Qualifier[2]
		} else if dirty {
			d.timedMarks = append(d.timedMarks, bytes.Clone(c.Qualifier))
		}
		if dirty {
			d.dirty |= 1 << c.Qualifier[2]
		}
		if len(c.Value) == 1 && c.Value[0] == store.MarkGone {
			d.gone |= 1 << c.Qualifier[2]
		}
	}
}

func (s *storedScan) close() error { return errors.Join(s.it.Err(), s.it.Close()) }
