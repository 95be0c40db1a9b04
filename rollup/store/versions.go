package store

import (
	"context"
	"maps"

	"halite/keyschema"
	"halite/storage"
	"halite/storage/changes"
)

// versions counts the changes of each day's hours, and of each month's days, over all series. Retention changes no
// version.
type versions struct{ days, months changes.Clock }

// during counts a change of some days' hours, and of some months' days, before and after it. A nil list means all.
func (v *versions) during(days, months []int64, change func() error) error {
	v.count(days, months)
	defer v.count(days, months)
	return change()
}

func (v *versions) count(days, months []int64) {
	v.days.Change(days)
	v.months.Change(months)
}

// difference lists the days whose hours, and the months whose days, may be valid by only one of two records.
func difference(a, b *Record) (days, months []int64) {
	touched := map[int64]bool{}
	for _, r := range [2][2]*Record{{a, b}, {b, a}} {
		for day, work := range r[0].Days {
			if r[1].Days[day] != work {
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
	for day := min(a.Closed, b.Closed) + 1; day <= max(a.Closed, b.Closed) && len(days) <= changedDaysMax; day++ {
		days = append(days, day)
	}
	for month := min(a.ClosedMonth, b.ClosedMonth) + 1; month <= max(a.ClosedMonth, b.ClosedMonth); month++ {
		touched[month] = true
	}
	for month := range maps.Keys(touched) {
		months = append(months, month)
	}
	if len(days) > changedDaysMax {
		days = nil // all
	} else if days == nil {
		days = []int64{}
	}
	if months == nil {
		months = []int64{}
	}
	return days, months
}

// changedDaysMax is the largest number of days that are counted one by one. A change of more days counts as a
// change of all days.
const changedDaysMax = 1 << 10

// versionedTable is the table of states. It counts all writes as changes.
type versionedTable struct {
	storage.Table
	versions *versions
}

// Apply implements storage.Table.
func (t *versionedTable) Apply(ctx context.Context, muts []storage.RowMutation) error {
	days, months := bucketsOf(muts)
	return t.versions.during(days, months, func() error { return t.Table.Apply(ctx, muts) })
}

// Load implements storage.Table.
func (t *versionedTable) Load(ctx context.Context, muts []storage.RowMutation) error {
	days, months := bucketsOf(muts)
	return t.versions.during(days, months, func() error { return t.Table.Load(ctx, muts) })
}

// CheckAndApply implements storage.Table.
func (t *versionedTable) CheckAndApply(
	ctx context.Context, key []byte, cond storage.Filter, then, otherwise storage.RowMutation,
) (matched bool, err error) {
	err = t.versions.during(nil, nil, func() (err error) {
		matched, err = t.Table.CheckAndApply(ctx, key, cond, then, otherwise)
		return err
	})
	return matched, err
}

// DropRows implements storage.Table.
func (t *versionedTable) DropRows(ctx context.Context, r storage.RowRange) error {
	return t.versions.during(nil, nil, func() error { return t.Table.DropRows(ctx, r) })
}

// bucketsOf lists the days and months that mutations change. It returns nil for all, if an entry names no bucket.
func bucketsOf(muts []storage.RowMutation) (days, months []int64) {
	days, months = []int64{}, []int64{}
	month, start := int64(-1), int64(0)
	for i := range muts {
		_, m, ok := keyschema.CutMonth(muts[i].Key)
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
