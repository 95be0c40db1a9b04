package tiers

import (
	"context"
	"maps"

	"halite/storage"
	"halite/storage/changes"
)

// epochs tell since when what Read gives of a day's hours, and of a month's days, is the same for all series. States grow
// too old besides.
type epochs struct{ days, months changes.Clock }

// AppendEpochs appends the epochs of the hours of the days from first to last, or of the days of these months. What a Read
// that begins later gives is as of that epoch or newer; it may be kept and used as long as the epoch is the same when it
// is asked for again, after the samples in memory were, and its cells are not too old.
func (t *Tiers) AppendEpochs(dst []uint64, unit Unit, first, last int64) []uint64 {
	if unit == Days {
		return t.epochs.months.Append(dst, first, last)
	}
	return t.epochs.days.Append(dst, first, last)
}

// during makes a change of some days' hours, and of some months' days, known on both sides of it; nil means all.
func (e *epochs) during(days, months []int64, change func() error) error {
	e.change(days, months)
	defer e.change(days, months)
	return change()
}

func (e *epochs) change(days, months []int64) {
	e.days.Change(days)
	e.months.Change(months)
}

// differences lists the days whose hours, and the months whose days, may be valid by one of two records and not by the
// other.
func differences(a, b *record) (days, months []int64) {
	touched := map[int64]bool{}
	for _, r := range [2][2]*record{{a, b}, {b, a}} {
		for day, what := range r[0].Days {
			if r[1].Days[day] != what {
				days = append(days, day)
				touched[MonthOfDay(day)] = true
			}
		}
		for month := range r[0].Months {
			if !r[1].Months[month] {
				touched[month] = true
			}
		}
	}
	for day := min(a.Closed, b.Closed) + 1; day <= max(a.Closed, b.Closed) && len(days) <= closedTogether; day++ {
		days = append(days, day)
	}
	for month := min(a.ClosedMonth, b.ClosedMonth) + 1; month <= max(a.ClosedMonth, b.ClosedMonth); month++ {
		touched[month] = true
	}
	for month := range maps.Keys(touched) {
		months = append(months, month)
	}
	if len(days) > closedTogether {
		days = nil // all
	} else if days == nil {
		days = []int64{}
	}
	if months == nil {
		months = []int64{}
	}
	return days, months
}

// closedTogether is the number of days from which on all count as changed at once.
const closedTogether = 1 << 10

// epochTable is the table of states; what is written to it becomes known.
type epochTable struct {
	storage.Table
	epochs *epochs
}

// Apply is part of storage.Table.
func (t *epochTable) Apply(ctx context.Context, muts []storage.RowMutation) error {
	days, months := bucketsOf(muts)
	return t.epochs.during(days, months, func() error { return t.Table.Apply(ctx, muts) })
}

// Load is part of storage.Table.
func (t *epochTable) Load(ctx context.Context, muts []storage.RowMutation) error {
	days, months := bucketsOf(muts)
	return t.epochs.during(days, months, func() error { return t.Table.Load(ctx, muts) })
}

// CheckAndApply is part of storage.Table.
func (t *epochTable) CheckAndApply(
	ctx context.Context, key []byte, cond storage.Filter, then, otherwise storage.RowMutation,
) (matched bool, err error) {
	err = t.epochs.during(nil, nil, func() (err error) {
		matched, err = t.Table.CheckAndApply(ctx, key, cond, then, otherwise)
		return err
	})
	return matched, err
}

// DropRows is part of storage.Table.
func (t *epochTable) DropRows(ctx context.Context, r storage.RowRange) error {
	return t.epochs.during(nil, nil, func() error { return t.Table.DropRows(ctx, r) })
}

// bucketsOf lists the days and months that mutations change; nil if one changes what has no place.
func bucketsOf(muts []storage.RowMutation) (days, months []int64) {
	days, months = []int64{}, []int64{}
	month, start := int64(-1), int64(0)
	for i := range muts {
		_, m, ok := parseKey(muts[i].Key)
		if !ok {
			return nil, nil
		}
		if m != month {
			month, start = m, MonthStart(m)
		}
		for _, e := range muts[i].Entries {
			switch {
			case e.Family == storage.FamilyDays:
				months = appendNew(months, m)
			case e.Family == storage.FamilyHours && len(e.Qualifier) > 0:
				days = appendNew(days, start+int64(e.Qualifier[0])-1)
			default:
				return nil, nil
			}
		}
	}
	return days, months
}

// appendNew appends a number unless it is the last one.
func appendNew(list []int64, n int64) []int64 {
	if k := len(list); k > 0 && list[k-1] == n {
		return list
	}
	return append(list, n)
}

// Changing tells of a deletion of samples from fromMs to toMs, which change carries out: what Read gives changes with it.
func (t *Tiers) Changing(fromMs, toMs int64, change func() error) error {
	first, last := floorDay(fromMs), floorDay(toMs)
	if last-first >= closedTogether {
		return t.epochs.during(nil, nil, change)
	}
	days, months := []int64{}, []int64{}
	for day := first; day <= last; day++ {
		days, months = append(days, day), appendNew(months, MonthOfDay(day))
	}
	return t.epochs.during(days, months, change)
}
