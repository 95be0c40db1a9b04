package store

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"halite/storage/storagetest"
)

func TestOptionsAreChecked(t *testing.T) {
	const day = 24 * time.Hour
	require.NoError(t, CheckRetention(30*day, 400*day, 0))
	require.NoError(t, CheckRetention(0, 0, 0))
	for _, bad := range [][3]time.Duration{
		{30 * day, 20 * day, 0}, {0, 400 * day, 0}, {day, 400 * day, 300 * day}, {time.Hour, time.Hour, 0}, {day, 0, 400 * day},
	} {
		require.Error(t, CheckRetention(bad[0], bad[1], bad[2]), "%v", bad)
	}
	tables := storagetest.NewModel(time.Now)
	require.NoError(t, Options{Tables: tables}.Validate())
	require.Error(t, Options{Tables: tables, MarksMax: -1}.Validate())
	require.Error(t, Options{Tables: tables, CloseDelay: -1}.Validate())
	require.Error(t, Options{}.Validate())
}

func TestMonthsAndDays(t *testing.T) {
	for day := int64(0); day < 60_000; day += 13 {
		month := MonthOfDay(day)
		require.LessOrEqual(t, MonthStart(month), day)
		require.Greater(t, MonthStart(month+1), day)
		require.Equal(t, int(day-MonthStart(month))+1, DayOfMonth(day))
	}
	require.Equal(t, "2024-01-20", DayText(19_742))
	require.Equal(t, "2024-01", MonthText(MonthOfDay(19_742)))
	require.Equal(t, int64(-1), DayOf(-1))
}

// TestDifferenceListsChangedBuckets checks which versions a change of the manifest raises.
func TestDifferenceListsChangedBuckets(t *testing.T) {
	before := &Record{Closed: 100, ClosedMonth: 2, Days: map[int64]Work{40: WorkPart}, Months: map[int64]bool{3: true}}
	after := &Record{Closed: 102, ClosedMonth: 2, Days: map[int64]Work{40: WorkWhole}, Months: map[int64]bool{}}
	days, months := difference(before, after)
	require.ElementsMatch(t, []int64{40, 40, 101, 102}, days)
	require.ElementsMatch(t, []int64{1, 3}, months)
	after.Closed += 10 * changedDaysMax
	days, _ = difference(before, after)
	require.Nil(t, days, "all days")
}
