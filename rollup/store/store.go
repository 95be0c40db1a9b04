package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"halite/keyschema"
	"halite/storage"
)

// Store holds the states of hours and days. See the package comment. Package job uses Data, Table and Manifest. They do not
// change after Open.
type Store struct {
	Data     storage.Table // samples, without the deleted ones
	Table    storage.Table // states
	Manifest *Manifest

	opts     Options
	versions *versions
	metrics  *metrics
}

// Open opens the tables and reads the manifest. For a store without manifest, it plans all closed days that have samples.
func Open(ctx context.Context, opts Options) (*Store, error) {
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	s := &Store{opts: opts.withDefaults(), versions: new(versions)}
	longest := s.opts.Retention.Load().Longest()
	raw, hours, days := longest[keyschema.Raw], longest[keyschema.Hours], longest[keyschema.Days]
	var err error
	if s.Data, err = opts.Tables.EnsureTable(ctx, storage.DataSchema(time.Duration(raw))); err != nil {
		return nil, fmt.Errorf("open table %s: %w", storage.TableData, err)
	}
	table, err := opts.Tables.EnsureTable(ctx, storage.RollupSchema(time.Duration(hours), time.Duration(days)))
	if err != nil {
		return nil, fmt.Errorf("open table %s: %w", storage.TableRollup, err)
	}
	s.Table = &versionedTable{table, s.versions}
	m, found, err := openManifest(ctx, opts.Tables, opts.Reset, s.versions, opts.Shared)
	if err != nil {
		return nil, err
	}
	s.Manifest = m
	if !found {
		if _, err := s.Plan(ctx, 0, s.LastClosed()); err != nil {
			return nil, err
		}
	}
	if s.metrics, err = newMetrics(opts.Registerer, s); err != nil {
		return nil, err
	}
	return s, nil
}

// Options returns the options with defaults.
func (s *Store) Options() *Options { return &s.opts }

// LastClosed is the last day that is over and has had CloseDelay to receive late samples.
func (s *Store) LastClosed() int64 {
	return DayOf(s.opts.Now().Add(-s.opts.CloseDelay).UnixMilli()) - 1
}

// OldestSampled is the first day that can have samples.
func (s *Store) OldestSampled() int64 { return s.oldest(keyschema.Raw) }

// OldestHourly is the first day that can have states of hours.
func (s *Store) OldestHourly() int64 { return s.oldest(keyschema.Hours) }

// oldest is the first day within the longest retention of a tier.
func (s *Store) oldest(tier keyschema.Tier) int64 {
	return DayOf(s.opts.Retention.Load().Longest()[tier].CutoffMs(s.opts.Now().UnixMilli()))
}

// Plan closes the days up to last. It plans the days that were open until now, and those from first to last, if they have
// samples. It returns the planned days.
func (s *Store) Plan(ctx context.Context, first, last int64) ([]int64, error) {
	return s.Manifest.CloseDays(ctx, last, func(open int64) ([]int64, error) {
		return s.SampledDays(ctx, max(s.OldestSampled(), min(first, open)), last)
	})
}

// SampledDays lists the days from first to last that have floats or histograms.
func (s *Store) SampledDays(ctx context.Context, first, last int64) ([]int64, error) {
	days, err := DaysWith(ctx, s.Data, storage.FamilySamples, first, last)
	if err != nil {
		return nil, err
	}
	more, err := DaysWith(ctx, s.Data, storage.FamilyHistograms, first, last)
	days = append(days, more...)
	slices.Sort(days)
	return slices.Compact(days), err
}

// DaysWith lists the days from first to last that have cells of a family. It halves the span, because some engines
// read the whole table to find no cell, and most of a long span has none.
func DaysWith(ctx context.Context, table storage.Table, family string, first, last int64) ([]int64, error) {
	if first > last {
		return nil, nil
	}
	has, err := hasCell(ctx, table, family, first, last)
	if err != nil {
		return nil, fmt.Errorf("look for cells of days %d to %d: %w", first, last, err)
	}
	if !has {
		return nil, nil
	}
	if first == last {
		return []int64{first}, nil
	}
	middle := first + (last-first)/2
	days, err := DaysWith(ctx, table, family, first, middle)
	if err != nil {
		return nil, err
	}
	more, err := DaysWith(ctx, table, family, middle+1, last)
	return append(days, more...), err
}

// hasCell reports whether a table has a cell of the family in a span of days. It returns true for an unreadable
// span.
func hasCell(ctx context.Context, table storage.Table, family string, first, last int64) (bool, error) {
	has, err := storage.HasRow(ctx, table, storage.RowSet{Ranges: []storage.RowRange{{}}}, storage.Filter{
		Families: []string{family}, FromMs: first * dayMs, ToMs: (last + 1) * dayMs, KeysOnly: true,
	})
	if errors.Is(err, storage.ErrCorrupt) {
		return true, nil
	}
	return has, err
}

// ReportCorrupt counts and logs a damaged cell.
func (s *Store) ReportCorrupt(key []byte, err error) {
	s.metrics.corrupt.Inc()
	s.opts.Logger.Error("rollup cell is damaged; queries read raw samples instead; repair it with tsdb rollup rebuild",
		"row", string(key), "err", err)
}

// Refresh returns once Has and Read use a manifest that was stored after the call. A single process need not call it.
func (s *Store) Refresh(ctx context.Context) error {
	if s.opts.Shared == nil {
		return nil
	}
	return s.Manifest.shared.refresher.Refresh(ctx)
}
