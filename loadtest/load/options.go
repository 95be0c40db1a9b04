package load

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"halite/loadtest/fleet"
)

// Options describe the samples of a load. The zero value of each field takes the default stated in its comment.
type Options struct {
	// Fleet describes the series. Its StepSeconds is set from Interval.
	Fleet fleet.Options
	// Rate is the number of samples per second, rewritten samples included. 0 sends as fast as the server accepts.
	Rate float64
	// From and To bound the timestamps of a load over a past range. If both are zero, the load is live: the timestamp
	// of a sample is the time at which it is due.
	From, To time.Time
	// Duration is the length of a live load. Default 1 min.
	Duration time.Duration
	// Interval is the time between the samples of a series. Default 15 s over a past range. In a live load, set either
	// Rate or Interval; the other follows. Without both, a live load writes the next sample of each series after all
	// other series have theirs.
	Interval time.Duration
	// Senders is the number of concurrent requests. Each sender has its own series. Default 4.
	Senders int
	// RequestSamples is the number of samples per request. Default 2000.
	RequestSamples int
	// Shuffle changes the order of the series from request to request.
	Shuffle bool
	// OutOfOrderPercent of the samples are sent just after the next sample of their series.
	OutOfOrderPercent float64
	// LatePercent of the samples are sent about LateBy after their timestamp.
	LatePercent float64
	// RewrittenPercent of the samples are sent again after about LateBy, with another value. The second value must win.
	RewrittenPercent float64
	// LateBy is the mean delay of late and rewritten samples. Delays lie between half and one and a half times LateBy.
	// Default 1 min.
	LateBy time.Duration
	// SamplesMax bounds the samples of the load, because two bits are kept for each. Default 10 billion.
	SamplesMax int64
}

// Default values of Options.
const (
	DefaultDuration       = time.Minute
	DefaultInterval       = 15 * time.Second
	DefaultSenders        = 4
	DefaultRequestSamples = 2000
	DefaultLateBy         = time.Minute
	DefaultSamplesMax     = 10_000_000_000
)

const (
	sendersMax        = 1000
	requestSamplesMax = 100_000
)

// ErrOptions is wrapped by all errors of Validate and NewTimeline. The caller has to change the options.
var ErrOptions = errors.New("load options")

// Live reports whether samples get the time at which they are due as their timestamp.
func (o *Options) Live() bool { return o.From.IsZero() && o.To.IsZero() }

// Validate fills in defaults and reports all errors at once.
func (o *Options) Validate() error {
	o.setDefaults()
	var errs []error
	refuse := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("%w: %s", ErrOptions, fmt.Sprintf(format, args...)))
	}
	for _, n := range []struct {
		name          string
		value, lo, hi float64
	}{
		{"OutOfOrderPercent", o.OutOfOrderPercent, 0, 100}, {"LatePercent", o.LatePercent, 0, 100},
		{"RewrittenPercent", o.RewrittenPercent, 0, 100},
		{"the sum of LatePercent, OutOfOrderPercent and RewrittenPercent",
			o.LatePercent + o.OutOfOrderPercent + o.RewrittenPercent, 0, 100},
		{"Rate", o.Rate, 0, 1e9}, {"Senders", float64(o.Senders), 1, sendersMax},
		{"RequestSamples", float64(o.RequestSamples), 1, requestSamplesMax},
	} {
		if !(n.value >= n.lo && n.value <= n.hi) {
			refuse("%s is %g; it must be %g to %g", n.name, n.value, n.lo, n.hi)
		}
	}
	for _, d := range []struct {
		name  string
		value time.Duration
	}{{"Duration", o.Duration}, {"LateBy", o.LateBy}} {
		if d.value <= 0 {
			refuse("%s is %s; it must be above 0", d.name, d.value)
		}
	}
	switch {
	case o.Interval != 0 && o.Interval < time.Millisecond:
		refuse("Interval is %s; it must be at least 1ms", o.Interval)
	case !o.Live() && (o.From.UnixMilli() < 0 || !o.To.After(o.From)):
		refuse("the range from %s to %s is empty or before 1970", o.From, o.To)
	case o.Live() && o.Rate > 0 && o.Interval > 0:
		refuse("the Rate of a live load decides its Interval: set only one of them")
	}
	return errors.Join(errs...)
}

func (o *Options) setDefaults() {
	o.Duration = cmp.Or(o.Duration, DefaultDuration)
	if !o.Live() {
		o.Interval = cmp.Or(o.Interval, DefaultInterval)
	}
	o.Senders = cmp.Or(o.Senders, DefaultSenders)
	o.RequestSamples = cmp.Or(o.RequestSamples, DefaultRequestSamples)
	o.LateBy = cmp.Or(o.LateBy, DefaultLateBy)
	o.SamplesMax = cmp.Or(o.SamplesMax, DefaultSamplesMax)
}
