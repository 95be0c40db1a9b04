package tiers

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"halite/keyschema"
	"halite/storage"
	"halite/storage/tombstone"
)

// Options configure Open. Zero fields take the default named beside them.
type Options struct {
	// Store holds the data, rollup and meta tables. Required; the caller closes it after the Tiers.
	Store storage.Store
	// Raw, Hours and Days are how long samples, states of hours and states of days are kept; 0 is for ever. No tier may
	// be shorter than the one before, and none shorter than a day.
	Raw, Hours, Days time.Duration
	// Deletions are those in force, of which Store reads the samples without; nil if nothing can be deleted.
	Deletions *tombstone.Set
	// Ages are those of each metric, none longer than Raw, Hours and Days; nil is these for all.
	Ages *keyschema.Retention
	// Delay is how long after its end a day is closed; 30 minutes.
	Delay time.Duration
	// Settle is how long a day must have had no late rows before it is computed again, unless it has waited twelve times
	// as long; 5 minutes. Negative means not at all.
	Settle time.Duration
	// Interval is the time between two looks for work; 1 minute.
	Interval time.Duration
	// Share is the part of one core that the job may keep busy, up to 1; 0.25.
	Share float64
	// Reset forgets the ledger, which may be damaged, and plans all days that have samples anew.
	Reset bool
	// MarksMax is the number of stale marks of a day in one write, and of series touched during a pass, above which the
	// whole day is computed again; 4096.
	MarksMax int
	// BatchBytes is the size of the cells and keys that are loaded at once; 8 MiB.
	BatchBytes int

	// Shared is set if several processes write the tables; see there.
	Shared *Shared

	Now        func() time.Time      // time.Now
	Logger     *slog.Logger          // discarded
	Registerer prometheus.Registerer // not registered
}

// Validate lists everything that is wrong.
func (o Options) Validate() error {
	var errs []error
	check := func(bad bool, format string, args ...any) {
		if bad {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	check(o.Store == nil, "Store is nil")
	errs = append(errs, CheckRetention(o.Raw, o.Hours, o.Days))
	check(o.Delay < 0 || o.Interval < 0, "Delay or Interval is negative")
	check(o.Share < 0 || o.Share > 1, "Share %g is not in 0…1", o.Share)
	check(o.Shared != nil && (o.Shared.Turn == nil || o.Shared.Fresh == nil || o.Shared.Margin <= 0),
		"Shared needs Turn, Fresh and a Margin above 0")
	check(o.MarksMax < 0 || o.BatchBytes < 0, "MarksMax or BatchBytes is negative")
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("rollup options: %w", err)
	}
	return nil
}

// CheckRetention says what is wrong with how long samples, hours and days are to be kept; 0 is for ever.
func CheckRetention(raw, hours, days time.Duration) error {
	ages := keyschema.AgesOf(raw, hours, days)
	var errs []error
	for t := keyschema.Hours; t < keyschema.TierCount; t++ {
		errs = append(errs, t.Check(ages[t]), t.CheckBeside(ages[t-1], ages[t]))
	}
	return errors.Join(errs...)
}

func (o Options) withDefaults() Options {
	o.Delay = cmp.Or(o.Delay, 30*time.Minute)
	o.Settle = cmp.Or(o.Settle, 5*time.Minute)
	o.Interval = cmp.Or(o.Interval, time.Minute)
	o.Share = cmp.Or(o.Share, 0.25)
	o.MarksMax = cmp.Or(o.MarksMax, 4096)
	o.BatchBytes = cmp.Or(o.BatchBytes, 8<<20)
	o.Settle = max(o.Settle, 0)
	if o.Ages == nil {
		o.Ages = keyschema.Uniform(keyschema.AgesOf(o.Raw, o.Hours, o.Days))
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}
