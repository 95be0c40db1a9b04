package retention

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"halite/keyschema"
	"halite/storage"
)

// Options configure New. A zero field means the default that its comment names.
type Options struct {
	// Store is the engine; its tables are storage.SpanTables. Required. The caller closes it after the Sweeper.
	Store storage.Store
	// Retention is the retention in force. Required.
	Retention *keyschema.Retention
	// SeriesTier is the tier whose retention the tables of the index have; Raw.
	SeriesTier keyschema.Tier
	// Needed returns the first day of a tier that a later computation reads. some is false if there is no such day. nil means
	// that there never is one.
	Needed func(t keyschema.Tier) (day int64, some bool)
	// MaySweep reports whether this process may sweep now; nil means always. It is required if several processes share the
	// tables.
	MaySweep func() bool
	// Grace is the time that data stays in the files beyond its age, because some rows are still in memory at that age; 6
	// hours. Negative means none.
	Grace time.Duration
	// Interval is the time between two sweeps; 10 minutes.
	Interval time.Duration
	// CheckInterval is the time between two calls of MaySweep while it returns false; Interval.
	CheckInterval time.Duration
	// Share is the part of one CPU that a sweep may use, up to 1; 0.2.
	Share float64
	// RangesMax is the number of metrics in one request to drop rows; 256.
	RangesMax int

	Now        func() time.Time      // time.Now
	Logger     *slog.Logger          // discarded
	Registerer prometheus.Registerer // not registered
}

// Validate lists all faults.
func (o Options) Validate() error {
	var errs []error
	check := func(bad bool, format string, args ...any) {
		if bad {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	check(o.Store == nil, "Store is required")
	check(o.Retention == nil, "Retention is required")
	check(o.Interval < 0, "Interval %s is negative", o.Interval)
	check(o.CheckInterval < 0, "CheckInterval %s is negative", o.CheckInterval)
	check(o.Share < 0 || o.Share > 1, "Share %g is not in 0…1", o.Share)
	check(o.RangesMax < 0, "RangesMax %d is negative", o.RangesMax)
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("retention options: %w", err)
	}
	return nil
}

func (o Options) withDefaults() Options {
	o.Grace = max(0, cmp.Or(o.Grace, 6*time.Hour))
	o.Interval = cmp.Or(o.Interval, 10*time.Minute)
	o.CheckInterval = cmp.Or(o.CheckInterval, o.Interval)
	o.Share = cmp.Or(o.Share, 0.2)
	o.RangesMax = cmp.Or(o.RangesMax, 256)
	if o.Needed == nil {
		o.Needed = func(keyschema.Tier) (int64, bool) { return 0, false }
	}
	if o.MaySweep == nil {
		o.MaySweep = func() bool { return true }
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// place has the table and families of a tier.
type place struct {
	table    string
	families []string
}

// placeOf returns the table and families of a tier.
func placeOf(t keyschema.Tier) place {
	switch t {
	case keyschema.Hours:
		return place{storage.TableRollup, []string{storage.FamilyHours}}
	case keyschema.Days:
		return place{storage.TableRollup, []string{storage.FamilyDays}}
	case keyschema.NativeHistograms:
		return place{storage.TableData, []string{storage.FamilyHistograms}}
	default:
		return place{storage.TableData, []string{storage.FamilySamples, storage.FamilyExemplars, storage.FamilyStartTimes}}
	}
}
