package fleet

import (
	"cmp"
	"errors"
	"fmt"
)

// Options describe a fleet. The zero value of each field takes the default stated in its comment.
type Options struct {
	// Seed is the seed of all random choices. Default 1.
	Seed uint64
	// Job is the value of the label job of every series. It distinguishes the fleet's series from others. Default
	// "loadtest".
	Job string
	// Hosts is the number of hosts. Default 0, for a fleet of the hot or Zipf-sized metrics alone.
	Hosts int
	// Services is the number of services on each host. Default 3, which makes 100 series per host. A negative value means none.
	Services int
	// HotSeries is the number of series of the metric HotMetric. They differ in a sequential id. Default 0.
	HotSeries int
	// HotScattered gives these series random ids instead of sequential ones.
	HotScattered bool
	// ZipfSeries is the number of series of all Zipf-sized metrics. The size of such a metric falls with its rank.
	// Default 0.
	ZipfSeries int
	// ZipfMetrics is the number of Zipf-sized metrics. Default 100.
	ZipfMetrics int
	// ChurnPercent of the hosts are replaced by new ones every ChurnSteps steps. Default 0.
	ChurnPercent float64
	// ChurnSteps is the number of steps between replacements. Default 20.
	ChurnSteps int
	// StepSeconds is the length of a step. Counters grow in proportion to it. Default 15.
	StepSeconds float64
	// SeriesMax bounds the series of the fleet at any one time. Default 20 million.
	SeriesMax int
}

// Default values of Options.
const (
	DefaultJob         = "loadtest"
	DefaultServices    = 3
	DefaultZipfMetrics = 100
	DefaultChurnSteps  = 20
	DefaultStepSeconds = 15
	DefaultSeriesMax   = 20_000_000
)

// ErrOptions is wrapped by all errors of Validate. The caller has to change the options.
var ErrOptions = errors.New("fleet options")

// Validate fills in defaults and reports all errors at once.
func (o *Options) Validate() error {
	o.setDefaults()
	var errs []error
	refuse := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("%w: %s", ErrOptions, fmt.Sprintf(format, args...)))
	}
	for _, n := range []struct {
		name  string
		value int
	}{{"Hosts", o.Hosts}, {"HotSeries", o.HotSeries}, {"ZipfSeries", o.ZipfSeries}} {
		if n.value < 0 {
			refuse("%s is %d; it must not be negative", n.name, n.value)
		}
	}
	for _, n := range []struct {
		name  string
		value float64
	}{
		{"ZipfMetrics", float64(o.ZipfMetrics)}, {"ChurnSteps", float64(o.ChurnSteps)},
		{"StepSeconds", o.StepSeconds}, {"SeriesMax", float64(o.SeriesMax)},
	} {
		if !(n.value > 0) {
			refuse("%s is %g; it must be above 0", n.name, n.value)
		}
	}
	if !(o.ChurnPercent >= 0 && o.ChurnPercent <= 100) {
		refuse("ChurnPercent is %g; it must be 0 to 100", o.ChurnPercent)
	}
	if o.ZipfSeries > 0 && o.ZipfMetrics > o.ZipfSeries {
		refuse("ZipfMetrics is %d; it must not exceed ZipfSeries, which is %d", o.ZipfMetrics, o.ZipfSeries)
	}
	series := float64(o.Hosts)*float64(o.hostSeries()) + float64(o.HotSeries) + float64(o.ZipfSeries)
	switch {
	case series < 1:
		refuse("the fleet has no series: set Hosts, HotSeries or ZipfSeries")
	case series > float64(o.SeriesMax):
		refuse("the fleet has %.0f series, SeriesMax is %d", series, o.SeriesMax)
	}
	return errors.Join(errs...)
}

func (o *Options) setDefaults() {
	if o.Seed == 0 {
		o.Seed = 1
	}
	if o.Job == "" {
		o.Job = DefaultJob
	}
	o.Services = cmp.Or(o.Services, DefaultServices)
	o.Services = max(o.Services, 0)
	o.ZipfMetrics = cmp.Or(o.ZipfMetrics, DefaultZipfMetrics)
	o.ChurnSteps = cmp.Or(o.ChurnSteps, DefaultChurnSteps)
	o.StepSeconds = cmp.Or(o.StepSeconds, DefaultStepSeconds)
	o.SeriesMax = cmp.Or(o.SeriesMax, DefaultSeriesMax)
}
