package recovery

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/prometheus/prometheus/model/labels"

	"halite/storage/index/lookup"
	"halite/storage/index/memory"
	"halite/storage/index/presence"
	"halite/storage/index/rowscan"
	"halite/storage/index/segment"
)

// Difference is the result of Verify for a day.
type Difference struct {
	// Missing are label sets with data rows in hours that the index lacks.
	Missing []labels.Labels
	// Surplus are label sets with hours that have no data rows. Their samples may be unflushed or deleted.
	Surplus []labels.Labels
}

// Verify compares the index of a day with the keys of the data rows. It checks the day's segment and the month's segment. It
// may report rows as missing if they are written during the call.
func (r *Recovery) Verify(ctx context.Context, day int64) (diff Difference, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("verify day %d: %w", day, err)
		}
	}()
	scan, err := r.scanner.Data(ctx, day, rowscan.FailMissing)
	if err != nil {
		return diff, err
	}
	v := verifier{Result: scan, missing: map[memory.Ref]labels.Labels{}, surplus: map[memory.Ref]labels.Labels{}}
	fromMs, toMs := dayBounds(day)
	for _, rule := range []segment.MonthRule{lookup.ByDays, lookup.ByMonths} {
		found, err := r.lookup.SelectBy(ctx, nil, rule, fromMs, toMs)
		if err != nil {
			return diff, err
		}
		if err := v.compare(found); err != nil {
			return diff, err
		}
		if r.store.Closed.Month(presence.MonthOf(day)) == nil {
			break
		}
	}
	return Difference{Missing: sortedSets(v.missing), Surplus: sortedSets(v.surplus)}, nil
}

// verifier compares results of look-ups with a scan of the data rows.
type verifier struct {
	rowscan.Result
	missing, surplus map[memory.Ref]labels.Labels // by refs of the scan
}

func (v *verifier) compare(found []lookup.Series) error {
	seen := map[memory.Ref]bool{}
	for _, k := range found {
		mask := presence.HoursOf(v.Day.Day, k.Hours)
		ref, _, err := v.Series.Add(k.Labels, 0)
		if err != nil {
			return err
		}
		seen[ref] = true
		rows := v.Day.Hours(ref)
		if rows&^mask != 0 {
			v.missing[ref] = k.Labels
		}
		if mask&^rows != 0 {
			v.surplus[ref] = k.Labels
		}
	}
	b := labels.NewScratchBuilder(16)
	var view memory.View
	for _, t := range v.Series.Tables() {
		view.Load(t)
		for row := range view.Rows {
			if ref := view.Ref(row); !seen[ref] && v.Day.Hours(ref) != 0 {
				v.missing[ref] = view.Labels(row, &b)
			}
		}
	}
	return nil
}

func sortedSets(sets map[memory.Ref]labels.Labels) []labels.Labels {
	return slices.SortedFunc(maps.Values(sets), labels.Compare)
}
