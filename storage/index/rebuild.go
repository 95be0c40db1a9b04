package index

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/prometheus/prometheus/model/labels"

	"halite/keyschema"
	"halite/storage"
)

// Rebuild makes the catalogue of the unix days fromDay to toDay, both inclusive, anew from the row keys of TableData.
// Days that have ended get a new segment in the place of the present one, whatever state that is in. For days that are
// still open the rows are joined with what is in memory, which may know of samples that are not in rows yet.
func (x *Index) Rebuild(ctx context.Context, fromDay, toDay int64) error {
	for day := max(fromDay, 0); day <= min(toDay, dayMax); day++ {
		if err := x.rebuildDay(ctx, day); err != nil {
			return fmt.Errorf("index: rebuild day %d: %w", day, err)
		}
	}
	return nil
}

func (x *Index) rebuildDay(ctx context.Context, day int64) error {
	x.maint.Lock()
	defer x.maint.Unlock()
	temp, hours, err := x.scanData(ctx, day)
	if err != nil {
		return err
	}
	open, closed := x.open.get(day), x.closed.get(day)
	if open != nil || !x.dayEnded(day, 0) {
		if err := x.takeIn(temp, hours, day); err != nil {
			return err
		}
		if closed == nil {
			return nil // it is folded when its time has come
		}
	}
	if temp.series.Load() == 0 && closed == nil {
		return nil
	}
	seq, err := x.journalEnd(ctx, day)
	if err != nil {
		return err
	}
	if open != nil {
		if err := x.placeJournal(ctx, open); err != nil {
			return err
		}
		seq = open.journal.first // its parts are not contained in the new segment: they hold what is in memory
	}
	return x.foldInto(ctx, day, []source{newActiveSource(temp, hours)}, seq, func() {})
}

// takeIn adds and touches everything of a temporary catalogue.
func (x *Index) takeIn(temp *catalogue, hours maskPages, day int64) error {
	b := labels.NewScratchBuilder(16)
	var v view
	for _, t := range temp.sorted() {
		v.look(t)
		for row := range v.rows {
			mask := hours.hours(v.ref(row))
			ref, _, err := x.Add(v.labels(row, &b))
			if err != nil {
				return err
			}
			for _, s := range appendSpans(nil, day, mask) {
				for hour := s.First; hour <= s.Last; hour++ {
					x.Touch(ref, hour)
				}
			}
		}
	}
	return nil
}

// journalSeqFar is above the sequence numbers that days reach: a part is written for thousands of new series.
const journalSeqFar = 1 << 28

// journalEnd is the sequence number behind the last part of a day that is in the table or that a segment contains.
func (x *Index) journalEnd(ctx context.Context, day int64) (uint32, error) {
	end := uint32(0)
	if c := x.closed.get(day); c != nil {
		r, err := x.root(ctx, c)
		switch {
		case errors.Is(err, storage.ErrCorrupt):
			end = journalSeqFar // whatever the root says, it is less
		case err != nil:
			return 0, err
		default:
			end = r.journalSeq
		}
	}
	it := x.series.ReadRows(ctx, storage.RowSet{Ranges: []storage.RowRange{{
		Start: journalKey(day, 0), End: append(journalKey(day, 1<<32-1), 0),
	}}}, storage.ReadOptions{Reverse: true, RowsMax: 1, Filter: storage.Filter{KeysOnly: true}})
	defer func() { _ = it.Close() }()
	for it.Next() {
		if _, _, seq, err := parseSpecial(it.Row().Key); err == nil {
			end = max(end, seq+1)
		}
	}
	return end, it.Err()
}

// scanData reads the keys of a day's data rows into a catalogue of its own.
func (x *Index) scanData(ctx context.Context, day int64) (*catalogue, maskPages, error) {
	s := dataScan{x: x, ctx: ctx, cat: newCatalogue(), day: newOpenDay(day), b: labels.NewScratchBuilder(16)}
	data, err := x.opts.Store.Table(ctx, storage.TableData)
	if errors.Is(err, storage.ErrNoTable) {
		return s.cat, s.day.snapshot(), nil // nothing was ever written
	}
	if err != nil {
		return nil, nil, err
	}
	from := keyschema.HourStartMs(firstHour(day))
	it := data.ReadRows(ctx, storage.RowSet{Ranges: []storage.RowRange{{}}}, storage.ReadOptions{
		Filter: storage.Filter{FromMs: from, ToMs: from + keyschema.DayHours*keyschema.HourMs, KeysOnly: true, VersionsMax: 1},
	})
	defer func() { _ = it.Close() }()
	for it.Next() {
		if err := s.row(it.Row().Key); err != nil {
			return nil, nil, err
		}
	}
	if err := it.Err(); err != nil {
		return nil, nil, err
	}
	return s.cat, s.day.snapshot(), nil
}

// dataScan takes row keys; rows of one series follow each other, so most need no parsing.
type dataScan struct {
	x      *Index
	ctx    context.Context
	cat    *catalogue
	day    *openDay
	prefix []byte
	ref    Ref
	b      labels.ScratchBuilder
}

const hourDigits = 7

func (s *dataScan) row(key []byte) error {
	cut := max(0, len(key)-hourDigits)
	if len(s.prefix) == 0 || !bytes.Equal(s.prefix, key[:cut]) {
		k, err := keyschema.ParseRowKey(key)
		if err != nil {
			return corrupt(storage.TableData, key, nil, err)
		}
		if k.TagsHash != "" {
			if k.Tags, err = s.x.labelSet(s.ctx, k.TagsHash); err != nil {
				return err
			}
		}
		if s.ref, _, err = s.cat.add(tagLabels(&s.b, k.Metric, k.Tags), k.Hour); err != nil {
			return err
		}
		s.prefix = append(s.prefix[:0], key[:cut]...)
	}
	hour, err := keyHour(key[cut:])
	if err != nil {
		return corrupt(storage.TableData, key, nil, err)
	}
	if dayOf(hour) == s.day.day {
		s.day.touch(s.ref, hourBit(hour))
	}
	return nil
}

// keyHour reads the reversed hour at the end of a row key.
func keyHour(digits []byte) (int64, error) {
	v := int64(0)
	for _, c := range digits {
		if c < '0' || c > '9' {
			return 0, errBadCatalogueKey
		}
		v = v*10 + int64(c-'0')
	}
	if len(digits) != hourDigits {
		return 0, errBadCatalogueKey
	}
	return keyschema.HourMax - v, nil
}

func tagLabels(b *labels.ScratchBuilder, metric string, tags []keyschema.Tag) labels.Labels {
	b.Reset()
	b.Add(labels.MetricName, metric)
	for _, t := range tags {
		b.Add(t.Name, t.Value)
	}
	b.Sort()
	return b.Labels()
}

// labelSet reads the tags for which a hash stands in row keys.
func (x *Index) labelSet(ctx context.Context, hash string) ([]keyschema.Tag, error) {
	key, qualifier := labelSetKey(hash), []byte{qualTagList}
	value, err := readCell(ctx, x.meta, key, qualifier)
	if err != nil {
		return nil, err
	}
	if value == nil {
		return nil, corrupt(storage.TableMeta, key, qualifier, errMissing)
	}
	payload, err := unseal(value, key, qualifier)
	if err == nil {
		var tags []keyschema.Tag
		if tags, err = parseLabelSet(payload); err == nil {
			return tags, nil
		}
	}
	return nil, corrupt(storage.TableMeta, key, qualifier, err)
}

// Difference is what Verify found for a day.
type Difference struct {
	// Missing are label sets with data rows in hours that the catalogue does not give them.
	Missing []labels.Labels
	// Surplus are label sets with hours for which there are no data rows. Samples that have not been flushed yet, or
	// were deleted, look like this.
	Surplus []labels.Labels
}

// Verify compares the catalogue of a day with the row keys of TableData. Rows written meanwhile may show up as missing.
func (x *Index) Verify(ctx context.Context, day int64) (Difference, error) {
	var diff Difference
	temp, hours, err := x.scanData(ctx, day)
	if err != nil {
		return diff, fmt.Errorf("index: verify day %d: %w", day, err)
	}
	from := keyschema.HourStartMs(firstHour(day))
	found, err := x.Select(ctx, from, from+keyschema.DayHours*keyschema.HourMs-1)
	if err != nil {
		return diff, fmt.Errorf("index: verify day %d: %w", day, err)
	}
	seen := map[Ref]bool{}
	for _, s := range found {
		mask := uint32(0)
		for _, span := range s.Hours {
			mask |= hoursWithin(day, span.First, span.Last)
		}
		ref, created, err := temp.add(s.Labels, 0)
		if err != nil {
			return diff, err
		}
		seen[ref] = true
		rows := uint32(0)
		if !created {
			rows = hours.hours(ref)
		}
		if rows&^mask != 0 {
			diff.Missing = append(diff.Missing, s.Labels)
		}
		if mask&^rows != 0 {
			diff.Surplus = append(diff.Surplus, s.Labels)
		}
	}
	b := labels.NewScratchBuilder(16)
	var v view
	for _, t := range temp.sorted() {
		v.look(t)
		for row := range v.rows {
			if !seen[v.ref(row)] {
				diff.Missing = append(diff.Missing, v.labels(row, &b))
			}
		}
	}
	return diff, nil
}
