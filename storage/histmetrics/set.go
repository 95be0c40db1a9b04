package histmetrics

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"halite/keyschema"
	"halite/storage"
)

const (
	// rowPrefix begins the rows of table meta that hold the hours of a metric. rowEnd sorts after all of them.
	rowPrefix = "histograms#"
	rowEnd    = "histograms$"
	qualifier = "hours"
	// valueBytes is the size of a cell: the first and the last hour, big-endian.
	valueBytes = 8
	applyRows  = 1000
)

// span is the first and the last hour in which a metric has histograms.
type span struct{ first, last int64 }

func (s span) holds(o span) bool { return s.first <= o.first && o.last <= s.last }

func (s span) with(o span) span { return span{min(s.first, o.first), max(s.last, o.last)} }

// state is the state of one metric.
type state struct {
	hours  span
	stored span // span in table meta; valid if kept is set
	kept   bool
}

// Set is the set of metrics with histograms; see the package comment.
type Set struct {
	meta  storage.Table
	count atomic.Int64 // number of metrics

	mu      sync.RWMutex
	metrics map[string]*state
	dirty   map[string]struct{} // not yet in the table

	persisting sync.Mutex
}

// Open reads the set from table meta. The error wraps storage.ErrCorrupt if a cell is damaged.
func Open(ctx context.Context, meta storage.Table) (*Set, error) {
	s := &Set{meta: meta, metrics: map[string]*state{}, dirty: map[string]struct{}{}}
	return s, s.load(ctx)
}

func (s *Set) load(ctx context.Context) (err error) {
	rows := s.meta.ReadRows(ctx, storage.RowSet{Ranges: []storage.RowRange{{Start: []byte(rowPrefix), End: []byte(rowEnd)}}},
		storage.ReadOptions{Filter: storage.Filter{Families: []string{storage.FamilyMeta}, VersionsMax: 1}})
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		row := rows.Row()
		metric, err := keyschema.Unescape(bytes.TrimPrefix(row.Key, []byte(rowPrefix)))
		if err != nil {
			return fmt.Errorf("%w: row %q of table %s: %w", storage.ErrCorrupt, row.Key, storage.TableMeta, err)
		}
		for _, cell := range row.Cells {
			if string(cell.Qualifier) != qualifier {
				continue
			}
			hours, ok := parseHours(cell.Value)
			if !ok {
				return fmt.Errorf("%w: row %q of table %s: the cell with the hours of histograms has %d bytes",
					storage.ErrCorrupt, row.Key,
					storage.TableMeta, len(cell.Value))
			}
			s.metrics[metric] = &state{hours: hours, stored: hours, kept: true}
		}
	}
	s.count.Store(int64(len(s.metrics)))
	if err := rows.Err(); err != nil {
		return fmt.Errorf("read the metrics with histograms: %w", err)
	}
	return nil
}

func parseHours(value []byte) (hours span, ok bool) {
	if len(value) != valueBytes {
		return hours, false
	}
	hours = span{int64(binary.BigEndian.Uint32(value)), int64(binary.BigEndian.Uint32(value[4:]))}
	return hours, hours.first <= hours.last && hours.last <= keyschema.HourMax
}

func appendHours(dst []byte, hours span) []byte {
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(dst, uint32(hours.first)), uint32(hours.last))
}

// Len is the number of metrics.
func (s *Set) Len() int { return int(s.count.Load()) }

// Has reports whether a metric may have histograms in the hours from firstHour to lastHour. If it returns false, there are none.
// A nil set has no metrics.
func (s *Set) Has(metric string, firstHour, lastHour int64) bool {
	if s == nil || s.count.Load() == 0 {
		return false
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	at := s.metrics[metric]
	return at != nil && at.hours.first <= lastHour && firstHour <= at.hours.last
}

// Metrics lists the metrics that may have histograms in the hours from firstHour to lastHour, sorted.
func (s *Set) Metrics(firstHour, lastHour int64) (out []string) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for metric, at := range s.metrics {
		if at.hours.first <= lastHour && firstHour <= at.hours.last {
			out = append(out, metric)
		}
	}
	slices.Sort(out)
	return out
}

// Mark adds an hour of a metric. Readers see it when Mark returns. The caller calls Persist before it writes histograms of the
// hour to the data table.
func (s *Set) Mark(metric string, hour int64) {
	hours := span{hour, hour}
	s.mu.RLock()
	at := s.metrics[metric]
	done := at != nil && at.hours.holds(hours)
	s.mu.RUnlock()
	if done {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if at = s.metrics[metric]; at == nil {
		at = &state{hours: hours}
		s.metrics[metric] = at
		s.count.Add(1)
	}
	at.hours = at.hours.with(hours)
	if !at.kept || !at.stored.holds(at.hours) {
		s.dirty[metric] = struct{}{}
	}
}

// Persist writes the hours that table meta lacks. It stores the last hour rounded up to the end of its day, so that a metric is
// written once a day. The next Sync of the store makes them durable.
func (s *Set) Persist(ctx context.Context) error {
	s.persisting.Lock()
	defer s.persisting.Unlock()
	changed := s.unstored()
	for metrics := range slices.Chunk(slices.Sorted(maps.Keys(changed)), applyRows) {
		var muts []storage.RowMutation
		for _, metric := range metrics {
			muts = append(muts, storage.RowMutation{
				Key: keyschema.AppendEscaped([]byte(rowPrefix), metric),
				Entries: []storage.Entry{{
					Kind: storage.SetCell, Family: storage.FamilyMeta, Qualifier: []byte(qualifier),
					Value: appendHours(nil, changed[metric]),
				}},
			})
		}
		if err := s.meta.Apply(ctx, muts); err != nil {
			return fmt.Errorf("write the metrics with histograms: %w", err)
		}
		s.setStored(metrics, changed)
	}
	return nil
}

// Expire removes the metrics that have no histograms in firstHour or later. The caller no longer marks hours before
// firstHour. Expire first deletes a metric's cell in table meta, so a failure keeps the metric in the set.
func (s *Set) Expire(ctx context.Context, firstHour int64) error {
	s.persisting.Lock()
	defer s.persisting.Unlock()
	for metrics := range slices.Chunk(s.before(firstHour), applyRows) {
		var muts []storage.RowMutation
		for _, metric := range metrics {
			muts = append(muts, storage.RowMutation{
				Key: keyschema.AppendEscaped([]byte(rowPrefix), metric), Entries: []storage.Entry{{Kind: storage.DeleteRow}},
			})
		}
		if err := s.meta.Apply(ctx, muts); err != nil {
			return fmt.Errorf("remove expired metrics with histograms: %w", err)
		}
		s.remove(metrics, firstHour)
	}
	return nil
}

// DropTenant removes the metrics whose stored names begin with a tenant's prefix, which is not empty. The caller no longer
// marks their hours. The removal is durable after the next Sync of the store.
func (s *Set) DropTenant(ctx context.Context, prefix string) error {
	s.persisting.Lock()
	defer s.persisting.Unlock()
	start := keyschema.AppendEscaped([]byte(rowPrefix), prefix)
	if err := s.meta.DropRows(ctx, storage.RowRange{Start: start, End: append(slices.Clone(start), '\xff')}); err != nil {
		return fmt.Errorf("remove the metrics with histograms of a tenant: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for metric := range s.metrics {
		if strings.HasPrefix(metric, prefix) {
			delete(s.metrics, metric)
			delete(s.dirty, metric)
			s.count.Add(-1)
		}
	}
	return nil
}

// before returns the metrics that have no histograms in firstHour or later, sorted.
func (s *Set) before(firstHour int64) (metrics []string) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for metric, at := range s.metrics {
		if at.hours.last < firstHour {
			metrics = append(metrics, metric)
		}
	}
	slices.Sort(metrics)
	return metrics
}

// remove removes metrics whose cells were deleted. A metric that another call has marked in the meantime stays, and
// Persist writes its cell again.
func (s *Set) remove(metrics []string, firstHour int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, metric := range metrics {
		at := s.metrics[metric]
		if at.hours.last >= firstHour {
			at.kept = false
			s.dirty[metric] = struct{}{}
			continue
		}
		delete(s.metrics, metric)
		delete(s.dirty, metric)
		s.count.Add(-1)
	}
}

// unstored returns the hours of each metric whose cell in table meta is missing or out of date.
func (s *Set) unstored() map[string]span {
	s.mu.RLock()
	defer s.mu.RUnlock()
	changed := make(map[string]span, len(s.dirty))
	for metric := range s.dirty {
		at := s.metrics[metric]
		hours := at.hours
		hours.last = min(hours.last/keyschema.DayHours*keyschema.DayHours+keyschema.DayHours-1, keyschema.HourMax)
		if at.kept {
			hours = hours.with(at.stored)
		}
		changed[metric] = hours
	}
	return changed
}

// setStored records the hours that table meta now holds.
func (s *Set) setStored(metrics []string, stored map[string]span) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, metric := range metrics {
		at := s.metrics[metric]
		at.stored, at.kept = stored[metric], true
		if at.stored.holds(at.hours) {
			delete(s.dirty, metric)
		}
	}
}
