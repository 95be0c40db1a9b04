package plan

import (
	"cmp"
	"errors"
	"fmt"
	"time"
)

// Load is what is to be stored. Zero fields take the default named beside them.
type Load struct {
	// Series is the number of series at any one time. Required, up to 10^12.
	Series int64 `json:"series"`
	// Interval is the time between samples of a series; 15 s.
	Interval time.Duration `json:"interval_ns"`
	// Raw is how long samples are kept; 30 days.
	Raw time.Duration `json:"raw_ns"`
	// Hours and Days are how long rollups of hours and of days are kept; 0 is none.
	Hours time.Duration `json:"hours_ns"`
	Days  time.Duration `json:"days_ns"`
	// ChurnPercent of the series are replaced by new ones each day; 0.
	ChurnPercent float64 `json:"churn_percent"`
	// Replicas is the number of clusters that each hold everything; 1.
	Replicas int `json:"replicas"`
	// FlushWindow is the time within which the rows of an hour that has closed are to be in Bigtable; 30 minutes. More
	// time makes the peak lower and the log and the memory of the server larger. Up to an hour.
	FlushWindow time.Duration `json:"flush_window_ns"`
	// ReadRowsPerSecond is what queries read, one row for each series and hour; 0.
	ReadRowsPerSecond float64 `json:"read_rows_per_second"`
}

const (
	seriesMax = 1_000_000_000_000
	day       = 24 * time.Hour
	// monthDays is the mean length of a month.
	monthDays = 365.25 / 12
)

func (l Load) withDefaults() Load {
	l.Interval = cmp.Or(l.Interval, 15*time.Second)
	l.Raw = cmp.Or(l.Raw, 30*day)
	l.Replicas = cmp.Or(l.Replicas, 1)
	l.FlushWindow = cmp.Or(l.FlushWindow, 30*time.Minute)
	return l
}

// Validate lists everything that is wrong.
func (l Load) Validate() error {
	var errs []error
	check := func(bad bool, format string, args ...any) {
		if bad {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	l = l.withDefaults()
	check(l.Series < 1 || l.Series > seriesMax, "series: %d is not in 1…%d", l.Series, int64(seriesMax))
	check(l.Interval < time.Millisecond || l.Interval > day, "interval: %s is not in 1ms…24h", l.Interval)
	check(l.Raw < day, "retention of samples: %s is less than a day", l.Raw)
	check(l.Hours != 0 && l.Hours < l.Raw, "retention of hours: %s is shorter than that of samples, %s", l.Hours, l.Raw)
	check(l.Days != 0 && l.Days < l.Hours, "retention of days: %s is shorter than that of hours, %s", l.Days, l.Hours)
	check(l.Days != 0 && l.Hours == 0, "rollups of days are computed from those of hours, which are not kept")
	check(!(l.ChurnPercent >= 0 && l.ChurnPercent <= 10_000), "churn: %g %% is not in 0…10000", l.ChurnPercent)
	check(l.Replicas < 1 || l.Replicas > 8, "replicas: %d is not in 1…8", l.Replicas)
	check(l.FlushWindow < time.Second || l.FlushWindow > time.Hour, "flush window: %s is not in 1s…1h", l.FlushWindow)
	check(!(l.ReadRowsPerSecond >= 0 && l.ReadRowsPerSecond <= 1e12), "read rows: %g is not in 0…1e12", l.ReadRowsPerSecond)
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("plan: %w", err)
	}
	return nil
}

// samplesPerHour is the mean number of samples of a series and hour that has any.
func (l Load) samplesPerHour() float64 { return max(1, time.Hour.Seconds()/l.Interval.Seconds()) }

// seriesDays is the number of series that have samples in a day.
func (l Load) seriesDays() float64 { return float64(l.Series) * (1 + l.ChurnPercent/100) }

// rowsPerDay counts series and hours with samples. Each replacement cuts one hour in two rows.
func (l Load) rowsPerDay() float64 {
	hours := 24 * min(1, time.Hour.Seconds()/l.Interval.Seconds())
	return float64(l.Series) * (hours + l.ChurnPercent/100)
}
