package keyschema

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
)

// SeriesWarnDefault is the default share of a limit of series at which the server warns.
const SeriesWarnDefault = 0.8

// SeriesWarn returns the number of series at which the server warns. A warn above 1 is that number. A smaller one is a share
// of the limit, and 0 means SeriesWarnDefault. A limit of 0 has no warning.
func SeriesWarn(limit int, warn float64) int {
	warn = cmp.Or(warn, SeriesWarnDefault)
	if warn <= 1 {
		warn = math.Ceil(warn * float64(limit))
	}
	return int(min(warn, float64(limit)))
}

// SeriesLimit bounds the active series of a metric.
type SeriesLimit struct {
	// Pattern is the pattern of the rule.
	Pattern string
	// Max is the largest number of series. Warn is the number at which the server warns. 0 means no limit.
	Max, Warn int
	// DryRun accepts series beyond Max.
	DryRun bool
}

// SeriesLimit returns the limit of a metric, or the zero value if it has none. Among the rules with max_series, the one with
// the most specific matching pattern applies. Among equally specific rules, the last one in the list applies.
func (s *Schema) SeriesLimit(metric string) SeriesLimit {
	for _, l := range s.set.Load().limits {
		if matchMetric(l.Pattern, metric) {
			return l
		}
	}
	return SeriesLimit{}
}

// SeriesWarnMin returns the smallest number of series at which any rule warns, or 0 if no rule limits
// series.
func (s *Schema) SeriesWarnMin() (least int) {
	for _, l := range s.set.Load().limits {
		if l.Max > 0 && (least == 0 || l.Warn < least) {
			least = l.Warn
		}
	}
	return least
}

// seriesLimits returns the limits of rules, by preference.
func seriesLimits(rules []Rule) []SeriesLimit {
	var out []SeriesLimit
	for _, r := range slices.Backward(rules) {
		if r.MaxSeries != nil {
			out = append(out, SeriesLimit{
				Pattern: r.Pattern, Max: *r.MaxSeries, Warn: SeriesWarn(*r.MaxSeries, r.MaxSeriesWarn), DryRun: r.MaxSeriesDryRun,
			})
		}
	}
	slices.SortStableFunc(out, func(a, b SeriesLimit) int {
		return cmp.Compare(specificity(b.Pattern), specificity(a.Pattern))
	})
	return out
}

// seriesFaults returns the faults of a rule's limit of series.
func (r *Rule) seriesFaults() []error {
	var out []error
	if r.MaxSeries == nil {
		if r.MaxSeriesWarn != 0 || r.MaxSeriesDryRun {
			out = append(out, errors.New("max_series_warn and max_series_dry_run need max_series"))
		}
		return out
	}
	if *r.MaxSeries < 0 {
		out = append(out, fmt.Errorf("max_series is %d; it must not be negative, 0 means no limit", *r.MaxSeries))
	}
	if !(r.MaxSeriesWarn >= 0) {
		out = append(out, fmt.Errorf("max_series_warn is %g; it must not be negative", r.MaxSeriesWarn))
	}
	return out
}
