package plan

import (
	"cmp"
	"errors"
	"fmt"
	"time"
)

// Load describes the samples to store. Zero fields take the default stated in their comment.
type Load struct {
	// Series is the number of series at any one time. Required, up to 10^12.
	Series int64 `json:"series"`
	// Interval is the time between samples of a series. Default 15 s.
	Interval time.Duration `json:"interval_ns"`
	// Raw is the retention of samples. Default 30 days.
	Raw time.Duration `json:"raw_ns"`
	// Hours and Days are the retentions of rollups of hours and of days. 0 means no rollups.
	Hours time.Duration `json:"hours_ns"`
	Days  time.Duration `json:"days_ns"`
	// ChurnPercent of the series are replaced by new ones each day. Default 0.
	ChurnPercent float64 `json:"churn_percent"`
	// Replicas is the number of clusters that each hold everything. Default 1.
	Replicas int `json:"replicas"`
	// FlushWindow is the time within which the rows of a closed hour are written to Bigtable. Default 30 minutes, maximum
	// one hour. A longer window lowers the peak, and makes the server's log and memory larger.
	FlushWindow time.Duration `json:"flush_window_ns"`
	// ReadRowsPerSecond is the number of rows that queries read. A row is a series and hour. Default 0.
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

// Validate reports all errors at once.
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
	check(l.Hours != 0 && l.Hours < l.Raw, "retention of hours: %s is shorter than the retention of samples, %s", l.Hours, l.Raw)
	check(l.Days != 0 && l.Days < l.Hours, "retention of days: %s is shorter than the retention of hours, %s", l.Days, l.Hours)
	check(l.Days != 0 && l.Hours == 0, "retention of days: rollups of days need rollups of hours, which are off")
	check(!(l.ChurnPercent >= 0 && l.ChurnPercent <= 10_000), "churn: %g %% is not in 0…10000", l.ChurnPercent)
	check(l.Replicas < 1 || l.Replicas > 8, "replicas: %d is not in 1…8", l.Replicas)
	check(l.FlushWindow < time.Second || l.FlushWindow > time.Hour, "flush window: %s is not in 1s…1h", l.FlushWindow)
	check(!(l.ReadRowsPerSecond >= 0 && l.ReadRowsPerSecond <= 1e12), "read rows: %g is not in 0…1e12", l.ReadRowsPerSecond)
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("plan: %w", err)
	}
	return nil
}

// samplesPerHour returns the mean number of samples of a series in an hour with samples.
func (l Load) samplesPerHour() float64 { return max(1, time.Hour.Seconds()/l.Interval.Seconds()) }

// seriesDays returns the number of series with samples in a day.
func (l Load) seriesDays() float64 { return float64(l.Series) * (1 + l.ChurnPercent/100) }

// rowsPerDay returns the number of rows per day. The replacement of a series splits an hour into two rows.
func (l Load) rowsPerDay() float64 {
	hours := 24 * min(1, time.Hour.Seconds()/l.Interval.Seconds())
	return float64(l.Series) * (hours + l.ChurnPercent/100)
}
