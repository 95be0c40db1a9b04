package job

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"slices"

	"halite/keyschema"
	"halite/keyschema/chunk"
	"halite/keyschema/histchunk"
	"halite/rollup"
	"halite/rollup/histograms"
	"halite/rollup/store"
	"halite/storage"
	"halite/storage/tombstone"
)

// sampledDay holds the states computed from the rows of a series and day.
type sampledDay struct {
	prefix  []byte
	states  [keyschema.DayHours]rollup.State
	found   uint32 // hours that have floats
	damaged uint32 // hours whose row cannot be read
	samples int

	histograms      [keyschema.DayHours]histograms.Hour
	foundHistograms uint32 // hours that have histograms
}

// sampleScan computes the hour states of all series that have rows of a day, in key order.
type sampleScan struct {
	j    *Job
	it   storage.RowIter
	more bool // the iterator stands at an unread row
	row  chunk.Row
	day  sampledDay

	decoder histchunk.Decoder
}

// scanSamples starts to read rows of a day without the samples that the view's deletions removed.
func (j *Job) scanSamples(ctx context.Context, view *tombstone.View, day int64, ranges []storage.RowRange) *sampleScan {
	it := j.store.Data.ReadRows(ctx, storage.RowSet{Ranges: ranges}, storage.ReadOptions{Deletions: view, Filter: storage.Filter{
		Families: []string{storage.FamilySamples, storage.FamilyHistograms}, FromMs: day * dayMs, ToMs: (day + 1) * dayMs,
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
	var stored []histchunk.Sample
	err := error(nil)
	for i := range row.Cells {
		c := &row.Cells[i]
		if c.Family == storage.FamilyHistograms {
			d.foundHistograms |= 1 << slot
			stored, err = s.addHistograms(stored, c, hour)
		} else {
			d.found |= 1 << slot
			err = s.row.Add(c.Qualifier, c.Value)
		}
		if err != nil {
			break
		}
	}
	if err == nil {
		d.histograms[slot], err = histograms.Reduce(stored)
	}
	if err != nil {
		d.damaged |= 1 << slot
		s.j.metrics.unreadable.Inc()
		s.j.opts.Logger.Error("row is damaged; its hour gets no rollup state", "row", string(row.Key), "err", err)
		return
	}
	tsMs, values := s.row.Columns()
	d.states[slot] = rollup.Compute(tsMs, values)
	d.samples += len(tsMs) + len(stored)
}

// addHistograms merges a chunk of histograms into earlier chunks of its row. Cells come in the order of their sequence numbers.
func (s *sampleScan) addHistograms(before []histchunk.Sample, c *storage.Cell, hour int64) ([]histchunk.Sample, error) {
	all, err := s.decoder.Decode(c.Value, keyschema.HourStartMs(hour), before)
	if err != nil || len(before) == 0 {
		return all, err
	}
	slices.SortStableFunc(all, func(a, b histchunk.Sample) int { return cmp.Compare(a.TsMs, b.TsMs) })
	kept := all[:1]
	for _, sample := range all[1:] {
		if last := &kept[len(kept)-1]; last.TsMs == sample.TsMs {
			*last = sample
		} else {
			kept = append(kept, sample)
		}
	}
	return kept, nil
}

func (s *sampleScan) close() error { return errors.Join(s.it.Err(), s.it.Close()) }

// storedDay has the cells of a series and day in the table of states.
type storedDay struct {
	prefix     []byte
	states     []byte   // the cell; nil if there is none
	histograms []byte   // the cell; nil if there is none
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
	case store.IsHistograms(c.Qualifier):
		d.histograms = c.Value
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
