package index

import (
	"context"

	"github.com/prometheus/prometheus/model/labels"

	"halite/keyschema"
	"halite/storage"
	"halite/storage/index/presence"
	"halite/storage/index/segment"
)

// removedDay takes hours out of what is stored of a day.
type removedDay struct {
	x    *Index
	day  int64
	gone Gone
	sure uint32 // hours that nobody need be asked about

	// What find has found for one list of matchers: the hours to be removed by block, and the rows that gone is asked about
	// with their series.
	lost  map[uint32][]segment.HourRun
	asked []removedRow
	some  []Series
}

// removedRow is a row that gone is asked about.
type removedRow struct{ block, row uint32 }

// remove takes out of what is stored of the day whatever was taken out in memory, and of its segment the hours from first to
// last that gone names of series that match. It reports whether there was anything to do.
func (d *removedDay) remove(ctx context.Context, first, last int64, matchers [][]*labels.Matcher) (changed bool, err error) {
	x := d.x
	if open := x.open.Get(d.day); open != nil && x.cleared[d.day] != nil {
		changed = true
		if x.cleared[d.day].unnumbered {
			err = x.foldOpenLocked(ctx, open)
		} else {
			err = x.writeCleared(ctx, open)
		}
		if err != nil {
			return changed, err
		}
	}
	c := x.store.Closed.Day(d.day)
	if c == nil {
		return changed, nil
	}
	lost := map[uint32][]segment.HourRun{}
	for _, ms := range matchers {
		if err := d.find(ctx, first, last, ms); err != nil {
			return changed, err
		}
		segment.JoinBlocks(lost, d.lost)
	}
	if len(lost) == 0 {
		return changed, nil
	}
	now, err := x.store.Manifest(ctx, c)
	if err != nil {
		return changed, err
	}
	r := now.Without(lost)
	cell := rootCell(c.Of, []byte{segment.QualManifest}, segment.EncodeManifest(r))
	if err := x.store.SeriesTable.Apply(ctx,
		[]storage.RowMutation{{Key: segment.ManifestKey(c.Of), Entries: []storage.Entry{cell}}}); err != nil {
		return changed, err
	}
	x.store.Closed.Install(c.Of, r)
	if r.Removed.Runs() > x.store.Layout.RemovedRunsMax {
		err = x.foldRest(ctx, c)
	}
	return true, err
}

// find looks for the rows of the day's segment that match and have hours to be removed.
func (d *removedDay) find(ctx context.Context, first, last int64, matchers []*labels.Matcher) error {
	d.lost, d.asked, d.some = map[uint32][]segment.HourRun{}, nil, nil
	visit := func(s *segment.Segment, b *segment.Block, rows []uint32) error { return d.rows(ctx, s, b, rows) }
	err := d.x.lookup.ScanDays(ctx, keyschema.HourStartMs(first), keyschema.HourCellMs(last), matchers, visit)
	if err != nil || len(d.some) == 0 {
		return err
	}
	hours, err := d.gone(ctx, d.some)
	if err != nil {
		return err
	}
	asked := map[uint32][]segment.HourRun{}
	for i, at := range d.asked {
		if mask := presence.HoursOf(d.day, hours[i]); mask != 0 {
			asked[at.block] = segment.AddRun(asked[at.block], segment.HourRun{Row: at.row, Count: 1, Hours: mask})
		}
	}
	segment.JoinBlocks(d.lost, asked)
	return nil
}

// rows sorts the hours of rows into those that are gone for sure and those to ask about.
func (d *removedDay) rows(ctx context.Context, s *segment.Segment, b *segment.Block, rows []uint32) error {
	var reader *segment.RowReader
	builder := labels.NewScratchBuilder(16)
	var key []byte
	number := uint32(b.Number)
	for _, row := range rows {
		n, err := b.PatternNumber(row)
		if err != nil {
			return s.CorruptHours(b, err)
		}
		hours := b.Pattern(n)[0].Hours & s.Window[0]
		if sure := hours & d.sure; sure != 0 {
			d.lost[number] = segment.AddRun(d.lost[number], segment.HourRun{Row: row, Count: 1, Hours: sure})
		}
		if hours &^= d.sure; hours == 0 {
			continue
		}
		if reader == nil {
			if reader, err = s.RowReader(ctx, b); err != nil {
				return err
			}
		}
		if key, err = reader.Key(key[:0], row); err != nil {
			return err
		}
		d.asked = append(d.asked, removedRow{block: number, row: row})
		d.some = append(d.some, Series{Labels: reader.Labels(&builder), Hours: presence.AppendSpans(nil, d.day, hours)})
	}
	return nil
}
