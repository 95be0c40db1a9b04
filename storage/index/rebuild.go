package index

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"

	"halite/keyschema"
	"halite/storage"
	"halite/storage/index/compaction"
	"halite/storage/index/envelope"
	"halite/storage/index/lookup"
	"halite/storage/index/memory"
	"halite/storage/index/presence"
	"halite/storage/index/segment"
)

// Rebuild makes the index of the unix days fromDay to toDay, both inclusive, from the row keys of TableData, and from those
// of TableRollup for series without samples. Days that have ended get a new segment in the place of the present one, whatever
// state that is in. Rebuild keeps what it can read of active series, for they may have samples that are not in rows yet; flush
// them first if a segment is damaged. Days that are still open are joined with what the rows say.
func (x *Index) Rebuild(ctx context.Context, fromDay, toDay int64) error {
	for day := max(fromDay, 0); day <= min(toDay, presence.DayMax); day++ {
		if err := x.rebuildDay(ctx, day); err != nil {
			return fmt.Errorf("index: rebuild day %d: %w", day, err)
		}
	}
	return nil
}

func (x *Index) rebuildDay(ctx context.Context, day int64) error {
	x.maint.Lock()
	defer x.maint.Unlock()
	s, err := x.scanAll(ctx, day, false)
	if err != nil {
		return err
	}
	open, closed := x.open.Get(day), x.store.Closed.Day(day)
	if open != nil || !x.dayEnded(day, 0) {
		if err := x.takeIn(s); err != nil {
			return err
		}
		if closed == nil {
			return nil // it is compacted when its time has come
		}
	}
	if s.active.SeriesCount() == 0 && closed == nil {
		return nil
	}
	if err := s.keepActive(); err != nil {
		return err
	}
	seq, err := x.journalEnd(ctx, day)
	if err != nil {
		return err
	}
	if open != nil {
		if err := x.placeJournal(ctx, open); err != nil {
			return err
		}
		seq = open.Journal.First // its parts are not contained in the new segment: they hold what is in memory
	}
	if err := x.voidMonth(ctx, presence.MonthOf(day)); err != nil {
		return err
	}
	sources := []compaction.Source{compaction.NewActiveSource(s.active, s.day.Snapshot())}
	return x.compactInto(ctx, presence.DayPartition(day), sources, contents{journalSeq: seq}, func() {})
}

// keepActive adds what the index says of active series. Damage is what a rebuild is for, so it ends the reading.
func (s *dataScan) keepActive() error {
	from := keyschema.HourStartMs(presence.FirstHour(s.day.Day))
	known, err := s.x.Select(s.ctx, from, from+keyschema.DayHours*keyschema.HourMs-1)
	if errors.Is(err, storage.ErrCorrupt) {
		s.x.opts.Logger.Warn("rebuilding a damaged index day from data rows alone", "day", s.day.Day, "err", err)
		return nil
	}
	if err != nil {
		return err
	}
	for _, k := range known {
		if k.Ref == 0 {
			continue
		}
		ref, _, err := s.active.Add(k.Labels, 0)
		if err != nil {
			return err
		}
		s.day.MarkActive(ref, presence.HoursOf(s.day.Day, k.Hours))
	}
	return nil
}

// takeIn adds and touches in the active index everything that a scan has found.
func (x *Index) takeIn(s *dataScan) error {
	b := labels.NewScratchBuilder(16)
	var v memory.View
	for _, t := range s.active.Tables() {
		v.Load(t)
		for row := range v.Rows {
			ref, _, err := x.Add(v.Labels(row, &b))
			if err != nil {
				return err
			}
			for _, span := range presence.AppendSpans(nil, s.day.Day, s.day.Hours(v.Ref(row))) {
				for hour := span.First; hour <= span.Last; hour++ {
					x.MarkActive(ref, hour)
				}
			}
		}
	}
	return nil
}

// journalSeqFar is above the sequence numbers that days reach: a part is written for thousands of new series.
const journalSeqFar = 1 << 28

// farSeq is above the sequence numbers of a journal that cannot be read, even if an earlier process has used farSeq for it.
func (x *Index) farSeq() uint32 { return journalSeqFar + uint32(max(0, x.opts.Now().Unix()/60)) }

// journalEnd is the sequence number behind the last part of a day that is in the table or that a segment contains.
func (x *Index) journalEnd(ctx context.Context, day int64) (uint32, error) {
	end := uint32(0)
	if c := x.store.Closed.Day(day); c != nil {
		r, err := x.store.Manifest(ctx, c)
		switch {
		case errors.Is(err, storage.ErrCorrupt):
			end = x.farSeq() // whatever the root says, it is less
		case err != nil:
			return 0, err
		default:
			end = r.JournalSeq
		}
	}
	it := x.store.SeriesTable.ReadRows(ctx, storage.RowSet{Ranges: []storage.RowRange{{
		Start: segment.JournalKey(day, 0), End: append(segment.JournalKey(day, 1<<32-1), 0),
	}}}, storage.ReadOptions{Reverse: true, RowsMax: 1, Filter: placeFilter(presence.DayPartition(day))})
	defer func() { _ = it.Close() }()
	for it.Next() {
		if _, _, seq, err := segment.ParseKey(it.Row().Key); err == nil {
			end = max(end, seq+1)
		}
	}
	if errors.Is(it.Err(), storage.ErrCorrupt) {
		return max(end, x.farSeq()), nil
	}
	return end, it.Err()
}

// scanAll is scanData that also finds the series of which only rollups are left. Rollups do not say which hours have samples, so
// such a series gets all hours of the day.
func (x *Index) scanAll(ctx context.Context, day int64, lenient bool) (*dataScan, error) {
	s, err := x.scanData(ctx, day, lenient)
	if err != nil {
		return nil, err
	}
	rollups, err := x.opts.Store.Table(ctx, storage.TableRollup)
	if errors.Is(err, storage.ErrNoTable) {
		return s, nil
	}
	if err != nil {
		return nil, err
	}
	from, monthEnd := presence.FirstHour(day), presence.FirstHour(presence.MonthOf(day).LastDay()+1)
	for family, end := range map[string]int64{storage.FamilyHours: from + keyschema.DayHours, storage.FamilyDays: monthEnd} {
		err := s.rollups(rollups, storage.Filter{Families: []string{family}, FromMs: keyschema.HourStartMs(from),
			ToMs: keyschema.HourStartMs(end), KeysOnly: true})
		if err != nil {
			return nil, err
		}
	}
	return s, nil
}

// The row key of a rollup ends with the digits of a month. The qualifier of a cell with states ends with rollupStates.
const (
	rollupDigits = 5
	rollupStates = 's'
)

// rollups takes the series of rollup rows that the scan has not found in data rows.
func (s *dataScan) rollups(table storage.Table, filter storage.Filter) error {
	it := table.ReadRows(s.ctx, storage.RowSet{Ranges: []storage.RowRange{{}}}, storage.ReadOptions{Filter: filter})
	defer func() { _ = it.Close() }()
	for it.Next() {
		row := it.Row()
		if !slices.ContainsFunc(row.Cells, func(c storage.Cell) bool { return bytes.HasSuffix(c.Qualifier, []byte{rollupStates}) }) {
			continue // it holds marks only
		}
		key := keyschema.AppendHour(slices.Clone(row.Key[:max(0, len(row.Key)-rollupDigits)]), presence.FirstHour(s.day.Day))
		if err := s.newSeries(key); err != nil {
			return err
		}
		if s.ref != 0 && s.day.Hours(s.ref) == 0 {
			s.day.MarkActive(s.ref, presence.HoursMask)
		}
	}
	return it.Err()
}

// scanData reads the keys of a day's data rows into an index of its own. With lenient it leaves out rows whose label
// set was not stored: Persist has not come to them yet, so they are still in the log and its replay brings them.
func (x *Index) scanData(ctx context.Context, day int64, lenient bool) (*dataScan, error) {
	s := &dataScan{
		x: x, ctx: ctx, lenient: lenient,
		active: memory.New(), day: memory.NewOpenDay(day), b: labels.NewScratchBuilder(16),
	}
	data, err := x.opts.Store.Table(ctx, storage.TableData)
	if errors.Is(err, storage.ErrNoTable) {
		return s, nil // nothing was ever written
	}
	if err != nil {
		return nil, err
	}
	from := keyschema.HourStartMs(presence.FirstHour(day))
	it := data.ReadRows(ctx, storage.RowSet{Ranges: []storage.RowRange{{}}}, storage.ReadOptions{Filter: storage.Filter{
		FromMs: from, ToMs: from + keyschema.DayHours*keyschema.HourMs, KeysOnly: true, VersionsMax: 1,
	}})
	defer func() { _ = it.Close() }()
	for it.Next() {
		if err := s.row(it.Row().Key); err != nil {
			return nil, err
		}
	}
	return s, it.Err()
}

// dataScan takes row keys; rows of one series follow each other, so most need no parsing.
type dataScan struct {
	x       *Index
	ctx     context.Context
	lenient bool
	active  *memory.Index
	day     *memory.OpenDay
	prefix  []byte
	ref     memory.Ref // of the rows with prefix; 0: they are left out
	b       labels.ScratchBuilder
}

func (s *dataScan) row(key []byte) error {
	prefix, hour, ok := keyschema.CutHour(key)
	if !ok {
		return envelope.Corrupt(storage.TableData, key, nil, segment.ErrBadKey)
	}
	if len(s.prefix) == 0 || !bytes.Equal(s.prefix, prefix) {
		if err := s.newSeries(key); err != nil {
			return err
		}
		s.prefix = append(s.prefix[:0], prefix...)
	}
	if s.ref != 0 && presence.DayOf(hour) == s.day.Day {
		s.day.MarkActive(s.ref, presence.HourBit(hour))
	}
	return nil
}

func (s *dataScan) newSeries(key []byte) error {
	s.ref = 0
	k, err := keyschema.ParseRowKey(key)
	if err != nil {
		return envelope.Corrupt(storage.TableData, key, nil, err)
	}
	if k.TagsHash != "" {
		k.Tags, err = s.x.labelSet(s.ctx, k.Metric, k.TagsHash)
		if s.lenient && errors.Is(err, envelope.ErrMissing) {
			s.x.opts.Logger.Warn("data row without its label set is left to the replay of the log", "row", string(key))
			return nil
		}
		if err != nil {
			return err
		}
	}
	s.ref, _, err = s.active.Add(tagLabels(&s.b, k.Metric, k.Tags), k.Hour)
	return err
}

func tagLabels(b *labels.ScratchBuilder, metric string, tags []keyschema.Tag) labels.Labels {
	b.Reset()
	b.Add(model.MetricNameLabel, metric)
	for _, t := range tags {
		b.Add(t.Name, t.Value)
	}
	b.Sort()
	return b.Labels()
}

// labelSet reads the tags for which a hash stands in row keys. Rows may have been written before Persist stored their
// label set; then the series is active, if only by the replay of the log.
func (x *Index) labelSet(ctx context.Context, metric, hash string) ([]keyschema.Tag, error) {
	tags, err := StoredLabelSet(ctx, x.meta, hash)
	if errors.Is(err, envelope.ErrMissing) {
		if tags := x.activeLongTags(metric, hash); tags != nil {
			return tags, nil
		}
	}
	return tags, err
}

// StoredLabelSet reads from table meta the tags that a hash stands for in row keys.
func StoredLabelSet(ctx context.Context, meta storage.Table, hash string) ([]keyschema.Tag, error) {
	key, qualifier := segment.LabelSetKey(hash), []byte{segment.QualTagList}
	value, err := segment.ReadCell(ctx, meta, 0, key, qualifier)
	if err != nil {
		return nil, err
	}
	if value == nil {
		return nil, envelope.Corrupt(storage.TableMeta, key, qualifier, envelope.ErrMissing)
	}
	payload, err := envelope.Open(value, key, qualifier)
	if err == nil {
		var tags []keyschema.Tag
		if tags, err = parseLabelSet(payload); err == nil {
			return tags, nil
		}
	}
	return nil, envelope.Corrupt(storage.TableMeta, key, qualifier, err)
}

// activeLongTags finds an active series whose tags have the hash.
func (x *Index) activeLongTags(metric, hash string) []keyschema.Tag {
	t := x.active.Table(metric)
	if t == nil {
		return nil
	}
	var v memory.View
	v.Load(t)
	for row := range v.Rows {
		if !perhapsLong(&v, row) {
			continue
		}
		tags := v.Tags(nil, row)
		if h, long := keyschema.MayBeLong(metric, tags); long && h == hash {
			return tags
		}
	}
	return nil
}

// Difference is what Verify found for a day.
type Difference struct {
	// Missing are label sets with data rows in hours that the index does not give them.
	Missing []labels.Labels
	// Surplus are label sets with hours for which there are no data rows. Samples that have not been flushed yet, or
	// were deleted, look like this.
	Surplus []labels.Labels
}

// Verify compares the index of a day, and what its month says of it, with the row keys of TableData. Rows written
// meanwhile may show up as missing.
func (x *Index) Verify(ctx context.Context, day int64) (Difference, error) {
	diff, err := x.verify(ctx, day)
	if err != nil {
		err = fmt.Errorf("index: verify day %d: %w", day, err)
	}
	return diff, err
}

func (x *Index) verify(ctx context.Context, day int64) (diff Difference, err error) {
	s, err := x.scanData(ctx, day, false)
	if err != nil {
		return diff, err
	}
	v := verifier{s: s, missing: map[memory.Ref]labels.Labels{}, surplus: map[memory.Ref]labels.Labels{}}
	from := keyschema.HourStartMs(presence.FirstHour(day))
	for _, rule := range []segment.MonthRule{lookup.ByDays, lookup.ByMonths} {
		found, err := x.lookup.SelectBy(ctx, nil, rule, from, from+keyschema.DayHours*keyschema.HourMs-1)
		if err != nil {
			return diff, err
		}
		if err := v.compare(found); err != nil {
			return diff, err
		}
		if x.store.Closed.Month(presence.MonthOf(day)) == nil {
			break
		}
	}
	return Difference{Missing: sortedSets(v.missing), Surplus: sortedSets(v.surplus)}, nil
}

// verifier compares answers of the index with what a scan of the data rows has found.
type verifier struct {
	s                *dataScan
	missing, surplus map[memory.Ref]labels.Labels // by refs of the scan's index
}

func (v *verifier) compare(found []Series) error {
	day, seen := v.s.day.Day, map[memory.Ref]bool{}
	for _, k := range found {
		mask := presence.HoursOf(day, k.Hours)
		ref, _, err := v.s.active.Add(k.Labels, 0)
		if err != nil {
			return err
		}
		seen[ref] = true
		rows := v.s.day.Hours(ref)
		if rows&^mask != 0 {
			v.missing[ref] = k.Labels
		}
		if mask&^rows != 0 {
			v.surplus[ref] = k.Labels
		}
	}
	b := labels.NewScratchBuilder(16)
	var look memory.View
	for _, t := range v.s.active.Tables() {
		look.Load(t)
		for row := range look.Rows {
			if ref := look.Ref(row); !seen[ref] && v.s.day.Hours(ref) != 0 {
				v.missing[ref] = look.Labels(row, &b)
			}
		}
	}
	return nil
}

func sortedSets(sets map[memory.Ref]labels.Labels) []labels.Labels {
	return slices.SortedFunc(maps.Values(sets), labels.Compare)
}

// LabelSet returns the tags that a hash stands for in the row keys of a metric, stored or active.
func (x *Index) LabelSet(ctx context.Context, metric, hash string) ([]keyschema.Tag, error) {
	return x.labelSet(ctx, metric, hash)
}
