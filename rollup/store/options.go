package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"halite/keyschema"
	"halite/storage"
	"halite/storage/tombstone"
)

// Options configure Open. Zero fields take their documented defaults.
type Options struct {
	// Tables holds the data, rollup and meta tables. Required; the caller closes it after the Store.
	Tables storage.Store
	// Retention is the retention of samples, hourly states and daily states; nil keeps them forever.
	Retention *keyschema.Retention
	// Deletions are the deletions in force, which reads of Tables apply; nil if deletions are not supported.
	Deletions *tombstone.Set
	// CloseDelay is the time from the end of a day until it closes; 30 minutes.
	CloseDelay time.Duration
	// Reset discards the manifest, which may be damaged, and plans all days that have samples again.
	Reset bool
	// MarksMax is the largest number of dirty series of one day in one write, and of series marked during a pass. Above
	// it, the whole day is computed again; 4096.
	MarksMax int

	// Shared is set if several processes write the tables.
	Shared *Shared

	Now        func() time.Time      // time.Now
	Logger     *slog.Logger          // discards
	Registerer prometheus.Registerer // none
}

// Validate lists all faults.
func (o Options) Validate() error {
	var errs []error
	check := func(bad bool, format string, args ...any) {
		if bad {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	check(o.Tables == nil, "Tables is required")
	check(o.CloseDelay < 0, "CloseDelay is negative")
	check(o.Shared != nil && (o.Shared.HoldsLease == nil || o.Shared.Fresh == nil || o.Shared.Margin <= 0),
		"Shared needs HoldsLease, Fresh and a Margin above 0")
	check(o.MarksMax < 0, "MarksMax is negative")
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("rollup store options: %w", err)
	}
	return nil
}

// CheckRetention returns an error if the retention of samples, hours and days is invalid; 0 keeps data
// forever.
func CheckRetention(raw, hours, days time.Duration) error {
	ages := keyschema.NewRetentionByTier(raw, hours, days)
	var errs []error
	for t := keyschema.Hours; t <= keyschema.Days; t++ {
		errs = append(errs, t.Check(ages[t]), t.CheckOrder(ages[t-1], ages[t]))
	}
	return errors.Join(errs...)
}

func (o Options) withDefaults() Options {
	o.CloseDelay = cmp.Or(o.CloseDelay, 30*time.Minute)
	o.MarksMax = cmp.Or(o.MarksMax, 4096)
	if o.Retention == nil {
		o.Retention = keyschema.NewRetention(keyschema.Uniform(keyschema.RetentionByTier{}))
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// Shared describes several processes that keep the same states. Each process writes through its own invalidating store. One
// process at a time computes.
//
// A writer marks states before it writes late rows, as in a single process. But it decides by the clock which days are
// closed, and each of its marks is a separate cell with the time. It also records the dirty day in the manifest's row. The
// job removes only marks and records that are older than Margin when it begins. By then the writers have written the rows
// of these marks. A writer fails if it has not written its rows a sixth of Margin after the mark. The job writes states
// within the same time after it has read the rows, so it never replaces newer states. The clocks may differ by two thirds
// of Margin.
//
// A reader reads the manifest before it begins ([Store.Refresh]) and finds states and marks in one row. So it uses a state
// only if the state contains all samples that were acknowledged before the reader began.
type Shared struct {
	// HoldsLease reports whether this process computes now.
	HoldsLease func() bool
	// Margin is the age of marks at which the job may remove them.
	Margin time.Duration
	// Tick is a clock that measures durations; nil is time.Now.
	Tick func() time.Time
	// Fresh returns after reads of rows apply all deletions that were made before the call.
	Fresh func(ctx context.Context) error
}

// Limit is the time for which marks protect the rows that are written after them.
func (s *Shared) Limit() time.Duration { return s.Margin / 6 }
