package loadtest

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"time"

	"halite/keyschema"
	"halite/loadtest/load"
)

// Options describe a load test. The zero value of each field takes the default stated in its comment.
type Options struct {
	// Load describes the samples.
	Load load.Options
	// RetryFor is the time for which a request is retried after 429, 5xx and broken connections. Default 1 min.
	RetryFor time.Duration
	// RequestTimeout bounds one attempt of a request or query. Default 1 min.
	RequestTimeout time.Duration
	// QueryRate is the number of dashboard queries per second during the load. Default 0.
	QueryRate float64
	// FreshnessEvery is the pause between two measurements of freshness. Default 500 ms; a negative value measures none.
	FreshnessEvery time.Duration
	// VerifyPercent of the units are read back at the end. Default 100; a negative value reads none.
	VerifyPercent float64
	// Settle is the time between the end of the load and the second measurement of CPU time and disk. Default 0.
	Settle time.Duration
	// Schema decides the salts of series. If it is nil, the server's rules decide; a server that does not answer is assumed
	// to use the default rule.
	Schema *keyschema.Schema
	// Progress receives progress messages; nil discards them. If Terminal is true, a bar is redrawn in place.
	// Otherwise a line is written every 5 s.
	Progress io.Writer
	Terminal bool
	// Now is the clock. Default time.Now.
	Now func() time.Time
}

// Default values of Options.
const (
	DefaultRetryFor       = time.Minute
	DefaultRequestTimeout = time.Minute
	DefaultFreshnessEvery = 500 * time.Millisecond
	DefaultVerifyPercent  = 100
)

// ErrOptions is wrapped by the errors of Validate about fields of Options and CompareOptions. The errors about
// Options.Load wrap load.ErrOptions. The caller has to change the options.
var ErrOptions = errors.New("load test options")

// Validate fills in defaults and reports all errors at once.
func (o *Options) Validate() error {
	o.setDefaults()
	errs := []error{o.Load.Validate()}
	refuse := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("%w: %s", ErrOptions, fmt.Sprintf(format, args...)))
	}
	for _, n := range []struct {
		name       string
		value, max float64
	}{
		{"VerifyPercent", max(o.VerifyPercent, 0), 100}, {"QueryRate", o.QueryRate, 1e5},
		{"Settle in seconds", o.Settle.Seconds(), 86400},
	} {
		if !(n.value >= 0 && n.value <= n.max) {
			refuse("%s is %g; it must be 0 to %g", n.name, n.value, n.max)
		}
	}
	for _, d := range []struct {
		name  string
		value time.Duration
	}{{"RetryFor", o.RetryFor}, {"RequestTimeout", o.RequestTimeout}} {
		if d.value <= 0 {
			refuse("%s is %s; it must be above 0", d.name, d.value)
		}
	}
	return errors.Join(errs...)
}

func (o *Options) setDefaults() {
	o.RetryFor = cmp.Or(o.RetryFor, DefaultRetryFor)
	o.RequestTimeout = cmp.Or(o.RequestTimeout, DefaultRequestTimeout)
	o.FreshnessEvery = cmp.Or(o.FreshnessEvery, DefaultFreshnessEvery)
	o.VerifyPercent = cmp.Or(o.VerifyPercent, DefaultVerifyPercent)
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Progress == nil {
		o.Progress = io.Discard
	}
}
