package rowscan

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"

	"halite/keyschema"
	"halite/storage"
	"halite/storage/index/envelope"
	"halite/storage/index/journal"
	"halite/storage/index/memory"
	"halite/storage/index/presence"
	"halite/storage/index/segment"
)

// Scanner reads the keys of rows.
type Scanner struct {
	// Store has the data and rollup rows.
	Store storage.Store
	// Meta has the stored label sets that are too long for row keys. Active has the long label sets that are not stored yet.
	Meta   storage.Table
	Active *memory.Index
	Logger *slog.Logger
}

// Result has the series of a day and their hours, in a separate index.
type Result struct {
	Series *memory.Index
	Day    *memory.OpenDay
}

// Missing selects how a scan treats a row whose label set is not stored.
type Missing uint8

const (
	// FailMissing ends the scan with envelope.ErrMissing.
	FailMissing Missing = iota
	// SkipMissing skips the row. The log still has its samples, and its replay adds the series.
	SkipMissing
)

// Data scans the data rows of a day.
func (s *Scanner) Data(ctx context.Context, day int64, m Missing) (Result, error) {
	scan := s.newScan(ctx, day, m)
	return scan.Result, scan.data()
}

// All scans the data rows of a day, and the rollup rows for series without samples. Rollups do not say which hours have
// samples, so such a series gets all hours of the day.
func (s *Scanner) All(ctx context.Context, day int64, m Missing) (Result, error) {
	scan := s.newScan(ctx, day, m)
	if err := scan.data(); err != nil {
		return scan.Result, err
	}
	first, monthEnd := presence.FirstHour(day), presence.FirstHour(presence.MonthOf(day).LastDay()+1)
	for family, end := range map[string]int64{storage.FamilyHours: first + keyschema.DayHours, storage.FamilyDays: monthEnd} {
		err := scan.rollups(storage.Filter{Families: []string{family}, FromMs: keyschema.HourStartMs(first),
			ToMs: keyschema.HourStartMs(end), KeysOnly: true})
		if err != nil {
			return scan.Result, err
		}
	}
	return scan.Result, nil
}

// scan adds the series of row keys to an index. The rows of a series are consecutive, so most keys need no parsing.
type scan struct {
	*Scanner
	Result
	ctx     context.Context
	missing Missing
	prefix  []byte
	ref     memory.Ref // series of the rows with prefix; 0 if the scan skips them
	b       labels.ScratchBuilder
}

func (s *Scanner) newScan(ctx context.Context, day int64, m Missing) *scan {
	return &scan{
		Scanner: s, Result: Result{Series: memory.New(), Day: memory.NewOpenDay(day)}, ctx: ctx, missing: m,
		b: labels.NewScratchBuilder(16),
	}
}

// forEachRow calls fn with the rows of a table. A missing table has no rows.
func (s *scan) forEachRow(table string, filter storage.Filter, fn func(row storage.Row) error) error {
	t, err := s.Store.Table(s.ctx, table)
	if errors.Is(err, storage.ErrNoTable) {
		return nil
	}
	if err != nil {
		return err
	}
	it := t.ReadRows(s.ctx, storage.RowSet{Ranges: []storage.RowRange{{}}}, storage.ReadOptions{Filter: filter})
	defer func() { _ = it.Close() }()
	for it.Next() {
		if err := fn(it.Row()); err != nil {
			return err
		}
	}
	return it.Err()
}

func (s *scan) data() error {
	from := keyschema.HourStartMs(presence.FirstHour(s.Day.Day))
	filter := storage.Filter{FromMs: from, ToMs: from + keyschema.DayHours*keyschema.HourMs, KeysOnly: true, VersionsMax: 1}
	return s.forEachRow(storage.TableData, filter, func(row storage.Row) error {
		prefix, hour, ok := keyschema.CutHour(row.Key)
		if !ok {
			return envelope.Corrupt(storage.TableData, row.Key, nil, segment.ErrBadKey)
		}
		if len(s.prefix) == 0 || !bytes.Equal(s.prefix, prefix) {
			if err := s.newSeries(row.Key); err != nil {
				return err
			}
			s.prefix = append(s.prefix[:0], prefix...)
		}
		if s.ref != 0 && presence.DayOf(hour) == s.Day.Day {
			s.Day.MarkActive(s.ref, presence.HourBit(hour))
		}
		return nil
	})
}

// The row key of a rollup ends with the digits of a month. The qualifier of a cell with states ends with rollupStates.
const (
	rollupDigits = 5
	rollupStates = 's'
)

// rollups adds the series of rollup rows that the scan has not found in data rows.
func (s *scan) rollups(filter storage.Filter) error {
	return s.forEachRow(storage.TableRollup, filter, func(row storage.Row) error {
		if !slices.ContainsFunc(row.Cells, func(c storage.Cell) bool { return bytes.HasSuffix(c.Qualifier, []byte{rollupStates}) }) {
			return nil // the row has only dirty marks
		}
		key := keyschema.AppendHour(slices.Clone(row.Key[:max(0, len(row.Key)-rollupDigits)]), presence.FirstHour(s.Day.Day))
		if err := s.newSeries(key); err != nil {
			return err
		}
		if s.ref != 0 && s.Day.Hours(s.ref) == 0 {
			s.Day.MarkActive(s.ref, presence.HoursMask)
		}
		return nil
	})
}

func (s *scan) newSeries(key []byte) error {
	s.ref = 0
	k, err := keyschema.ParseRowKey(key)
	if err != nil {
		return envelope.Corrupt(storage.TableData, key, nil, err)
	}
	if k.TagsHash != "" {
		k.Tags, err = journal.LabelSet(s.ctx, s.Meta, s.Active, k.Metric, k.TagsHash)
		if s.missing == SkipMissing && errors.Is(err, envelope.ErrMissing) {
			s.Logger.Warn("skipping a data row without a label set; the replay of the log adds the label set", "row", string(key))
			return nil
		}
		if err != nil {
			return err
		}
	}
	s.b.Reset()
	s.b.Add(model.MetricNameLabel, k.Metric)
	for _, t := range k.Tags {
		s.b.Add(t.Name, t.Value)
	}
	s.b.Sort()
	s.ref, _, err = s.Series.Add(s.b.Labels(), k.Hour)
	return err
}
