package job

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Options configure New. A zero field means the default that its comment names.
type Options struct {
	// Settle is the time without late writes that a day needs before it is computed again; 5 minutes. The job waits
	// at most twelve times as long. Negative means no wait.
	Settle time.Duration
	// Interval is the time between two runs; 1 minute.
	Interval time.Duration
	// Share is the part of one CPU that the job may use, up to 1; 0.25.
	Share float64
	// BatchBytes is the size of the cells and keys that are written at once; 8 MiB.
	BatchBytes int
	// Progress is called at the start of Verify and Rebuild, and after each day and month with samples. It gets the number of
	// finished days and months, and the number of all. nil is none.
	Progress func(done, total int)

	Logger     *slog.Logger          // the logger of the store
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
	check(o.Interval < 0, "Interval is negative")
	check(o.Share < 0 || o.Share > 1, "Share %g is not in 0…1", o.Share)
	check(o.BatchBytes < 0, "BatchBytes is negative")
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("rollup job options: %w", err)
	}
	return nil
}

func (o Options) withDefaults() Options {
	o.Settle = max(cmp.Or(o.Settle, 5*time.Minute), 0)
	o.Interval = cmp.Or(o.Interval, time.Minute)
	o.Share = cmp.Or(o.Share, 0.25)
	o.BatchBytes = cmp.Or(o.BatchBytes, 8<<20)
	if o.Progress == nil {
		o.Progress = func(int, int) {}
	}
	return o
}
