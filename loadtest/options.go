package loadtest

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"time"

	"halite/keyschema"
	"halite/loadtest/fleet"
)

// Options describe a load. The zero value of each field takes the default that its comment states.
type Options struct {
	// Fleet says which series there are. Its StepSeconds is set from Interval.
	Fleet fleet.Options
	// Rate is the number of samples a second, rewritten ones included; 0 sends as fast as the server takes them.
	Rate float64
	// From and To bound the timestamps of a load over a past range. Zero means live: samples are stamped when they are
	// due.
	From, To time.Time
	// Duration bounds a live load. Default 1 min.
	Duration time.Duration
	// Interval is the time between the samples of a series. Default 15 s over a past range. A live load with a Rate has
	// the interval that follows from it; without a Rate, Interval sets the rate, and without either the next sample of
	// a series follows when all others were sent.
	Interval time.Duration
	// Senders is the number of requests under way at a time; each sender has its own series. Default 4.
	Senders int
	// RequestSamples is the number of samples of a request. Default 2000.
	RequestSamples int
	// Shuffle changes the order of the series from request to request.
	Shuffle bool
	// OutOfOrderPercent of the samples are sent just after the next one of their series.
	OutOfOrderPercent float64
	// LatePercent of the samples are sent later than their time by about LateBy.
	LatePercent float64
	// RewrittenPercent of the samples are sent again after about LateBy, with another value that must win.
	RewrittenPercent float64
	// LateBy is the mean delay of late and rewritten samples, which lie between half of it and one and a half. Default
	// 1 min.
	LateBy time.Duration
	// RetryFor is how long a request is tried again on 429, 5xx and broken connections. Default 1 min.
	RetryFor time.Duration
	// RequestTimeout bounds one try of a request, queries included. Default 1 min.
	RequestTimeout time.Duration
	// QueryRate is the number of dashboard queries a second that Run asks beside the load. Default 0.
	QueryRate float64
	// CanaryEvery is the pause between two measurements of freshness. Default 500 ms; negative measures none.
	CanaryEvery time.Duration
	// VerifyPercent of the units are read back at the end. Default 100; negative reads none.
	VerifyPercent float64
	// Settle is the rest after the load, after which CPU and disk are measured once more. Default 0.
	Settle time.Duration
	// Schema decides the salts of series; nil asks the server, and means the default rule if that does not tell.
	Schema *keyschema.Schema
	// SamplesMax bounds the samples of the load, as two bits are kept of each. Default 10 billion.
	SamplesMax int64
	// Progress takes what is going on; nil discards it. Terminal says that it is one: a bar is drawn in place instead
	// of a line every 5 s.
	Progress io.Writer
	Terminal bool
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

// Default values of Options.
const (
	DefaultDuration       = time.Minute
	DefaultInterval       = 15 * time.Second
	DefaultSenders        = 4
	DefaultRequestSamples = 2000
	DefaultLateBy         = time.Minute
	DefaultRetryFor       = time.Minute
	DefaultRequestTimeout = time.Minute
	DefaultCanaryEvery    = 500 * time.Millisecond
	DefaultVerifyPercent  = 100
	DefaultSamplesMax     = 10_000_000_000
)

// Bounds of what a sender may be asked for.
const (
	sendersMax        = 1000
	requestSamplesMax = 100_000
)

// ErrOptions is wrapped by all errors of Validate; the caller has to change the options.
var ErrOptions = errors.New("load options")

func (o *Options) live() bool { return o.From.IsZero() && o.To.IsZero() }

// Validate fills in defaults and reports every fault at once.
func (o *Options) Validate() error {
	o.setDefaults()
	var faults []error
	refuse := func(format string, args ...any) {
		faults = append(faults, fmt.Errorf("%w: %s", ErrOptions, fmt.Sprintf(format, args...)))
	}
	for _, n := range []struct {
		name      string
		value, to float64
	}{
		{"OutOfOrderPercent", o.OutOfOrderPercent, 100}, {"LatePercent", o.LatePercent, 100},
		{"RewrittenPercent", o.RewrittenPercent, 100},
		{"LatePercent, OutOfOrderPercent and RewrittenPercent together", o.LatePercent + o.OutOfOrderPercent + o.RewrittenPercent, 100},
		{"VerifyPercent", max(o.VerifyPercent, 0), 100}, {"Rate", o.Rate, 1e9}, {"QueryRate", o.QueryRate, 1e5},
		{"Senders", float64(o.Senders) - 1, sendersMax - 1}, {"RequestSamples", float64(o.RequestSamples) - 1, requestSamplesMax - 1},
		{"Settle in seconds", o.Settle.Seconds(), 86400},
	} {
		if !(n.value >= 0 && n.value <= n.to) {
			refuse("%s is out of bounds (0 to %g)", n.name, n.to)
		}
	}
	for _, d := range []struct {
		name  string
		value time.Duration
	}{
		{"Duration", o.Duration}, {"LateBy", o.LateBy}, {"RetryFor", o.RetryFor}, {"RequestTimeout", o.RequestTimeout},
	} {
		if d.value <= 0 {
			refuse("%s is %s, it must be above 0", d.name, d.value)
		}
	}
	switch {
	case o.Interval != 0 && o.Interval < time.Millisecond:
		refuse("Interval is %s, at least 1ms", o.Interval)
	case !o.live() && (o.From.UnixMilli() < 0 || !o.To.After(o.From)):
		refuse("the range %s to %s is not one", o.From, o.To)
	case o.live() && o.Rate > 0 && o.Interval > 0:
		refuse("a live load with a Rate has its own Interval; set one of both")
	}
	return errors.Join(faults...)
}

func (o *Options) setDefaults() {
	o.Duration = cmp.Or(o.Duration, DefaultDuration)
	if !o.live() {
		o.Interval = cmp.Or(o.Interval, DefaultInterval)
	}
	o.Senders = cmp.Or(o.Senders, DefaultSenders)
	o.RequestSamples = cmp.Or(o.RequestSamples, DefaultRequestSamples)
	o.LateBy = cmp.Or(o.LateBy, DefaultLateBy)
	o.RetryFor = cmp.Or(o.RetryFor, DefaultRetryFor)
	o.RequestTimeout = cmp.Or(o.RequestTimeout, DefaultRequestTimeout)
	o.CanaryEvery = cmp.Or(o.CanaryEvery, DefaultCanaryEvery)
	o.VerifyPercent = cmp.Or(o.VerifyPercent, DefaultVerifyPercent)
	o.SamplesMax = cmp.Or(o.SamplesMax, DefaultSamplesMax)
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Progress == nil {
		o.Progress = io.Discard
	}
}
