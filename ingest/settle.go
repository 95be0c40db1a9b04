package ingest

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"halite/keyschema"
	"halite/storage/index"
	"halite/storage/tombstone"
)

// settleSeries is the number of series whose rows are looked for together.
const settleSeries = 1024

// settler takes hours without samples out of the catalogue after a deletion.
type settler struct {
	i       *Ingester
	removal *index.Removal
	reach   reach
	// open are the hours of which something may be left: those at the edges, or all if it is not known what has happened since;
	// and those beside.
	open []index.HourSpan
	refs map[string]index.Ref // of the active series, by labels
}

// settle takes the hours of a deletion in which series have no samples any more out of the catalogue. anew says that the
// deletion was carried out before, so that samples may have been written since. The caller holds the flusher's lock.
func (i *Ingester) settle(
	ctx context.Context, removal *index.Removal, t *tombstone.Tombstone, found []index.Series, anew bool,
) error {
	f := i.find()
	s := settler{i: i, removal: removal, reach: f.reach(t), open: edgeHours(t), refs: map[string]index.Ref{}}
	if anew {
		s.open = []index.HourSpan{s.reach.concerned}
	}
	if beside := s.reach.beside(); len(beside) > 0 {
		s.open = append(s.open, beside...)
		var err error
		found, err = f.selected(ctx, Deletion{
			Selectors: t.Selectors, FromMs: keyschema.HourStartMs(s.reach.first), ToMs: keyschema.HourCellMs(s.reach.last),
		})
		if err != nil {
			return err
		}
	}
	if len(s.open) > 0 {
		if err := s.inMemory(ctx, found); err != nil {
			return err
		}
	}
	sure := index.HourSpan{First: 1}
	if !anew {
		sure.First, sure.Last = wholeHours(t)
	}
	if err := removal.Fold(ctx, s.reach.first, s.reach.last, sure, t.Selectors, s.gone); err != nil {
		return err
	}
	return i.opts.Tombstones.Settle(ctx, t.ID)
}

// inMemory clears the open hours without samples that open days know of active series.
func (s *settler) inMemory(ctx context.Context, found []index.Series) error {
	var key []byte
	for some := range slices.Chunk(found, settleSeries) {
		asked := make([]index.Series, 0, len(some))
		for _, one := range some {
			if one.Ref == 0 {
				continue
			}
			key = one.Labels.Bytes(key[:0])
			s.refs[string(key)] = one.Ref
			one.Hours = nil
			for _, span := range s.open {
				one.Hours = s.removal.Touched(one.Hours, one.Ref, span.First, span.Last)
			}
			if len(one.Hours) > 0 {
				asked = append(asked, one)
			}
		}
		empty, err := s.i.find().gone(ctx, asked, s.reach)
		if err != nil {
			return err
		}
		for n, spans := range empty {
			ref := []index.Ref{asked[n].Ref}
			s.i.head.Hours(uint32(ref[0]), func(has func(hour int64) bool) {
				eachHour(spans, func(hour int64) {
					if !has(hour) {
						s.removal.Clear(ref, hour, hour)
					}
				})
			})
		}
	}
	return nil
}

// gone is the index.Gone of the deletion.
func (s *settler) gone(ctx context.Context, series []index.Series) ([][]index.HourSpan, error) {
	out := make([][]index.HourSpan, len(series))
	for start := 0; start < len(series); start += settleSeries {
		some := slices.Clone(series[start:min(len(series), start+settleSeries)])
		for n := range some {
			all := some[n].Hours
			some[n].Hours = nil
			eachHour(all, func(hour int64) {
				into := &out[start+n]
				if s.isOpen(hour) {
					into = &some[n].Hours
				}
				*into = append(*into, index.HourSpan{First: hour, Last: hour})
			})
		}
		empty, err := s.i.find().gone(ctx, some, s.reach)
		if err != nil {
			return nil, err
		}
		var key []byte
		for n, spans := range empty {
			key = some[n].Labels.Bytes(key[:0])
			ref := s.refs[string(key)]
			s.i.head.Hours(uint32(ref), func(has func(hour int64) bool) {
				eachHour(spans, func(hour int64) {
					if ref == 0 || !has(hour) {
						out[start+n] = append(out[start+n], index.HourSpan{First: hour, Last: hour})
					}
				})
			})
		}
	}
	return out, nil
}

func (s *settler) isOpen(hour int64) bool {
	return slices.ContainsFunc(s.open, func(h index.HourSpan) bool { return h.First <= hour && hour <= h.Last })
}

func eachHour(spans []index.HourSpan, visit func(hour int64)) {
	for _, span := range spans {
		for hour := span.First; hour <= span.Last; hour++ {
			visit(hour)
		}
	}
}

// rowHourDigits is the length of the hour at the end of a row key.
const rowHourDigits = 7

// settleAnew settles a deletion that may have been carried out long ago: one that a crash or an error has cut off, or
// whose samples replay has brought back for a while. The caller holds the flusher's lock, or is alone.
func (i *Ingester) settleAnew(ctx context.Context, t *tombstone.Tombstone) error {
	found, err := i.find().selected(ctx, Deletion{Selectors: t.Selectors, FromMs: t.FromMs, ToMs: t.ToMs})
	if err != nil {
		return err
	}
	removal, err := i.opts.Index.StartRemoval()
	if err != nil {
		return err
	}
	defer removal.Close()
	return i.settle(ctx, removal, t, found, true)
}

// settlePending settles what is still to be settled.
func (i *Ingester) settlePending(ctx context.Context) error {
	if i.opts.Tombstones == nil {
		return nil
	}
	i.flusher.Lock()
	defer i.flusher.Unlock()
	var errs []error
	view := i.opts.Tombstones.View()
	defer view.Release()
	for _, t := range view.List() {
		if !t.Pending {
			continue
		}
		if err := i.settleAnew(ctx, t); err != nil {
			errs = append(errs, fmt.Errorf("finish deletion %s: %w", t, err))
		}
	}
	return errors.Join(errs...)
}
