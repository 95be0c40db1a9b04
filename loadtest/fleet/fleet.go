package fleet

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"sort"
	"strconv"

	"halite/keyschema"
)

// syntheticUnitSeries is the number of series of a unit of the hot metric or of the Zipf-sized metrics.
const syntheticUnitSeries = 100

// HotMetric is the name of the metric of Options.HotSeries.
const HotMetric = "loadtest_hot_total"

// Series identifies a series. Tags are sorted by name and do not include the metric name.
type Series struct {
	Metric string
	Tags   []keyschema.Tag
}

// kind is the kind of a unit.
type kind uint8

const (
	host kind = iota
	hot
	zipf
)

// Fleet is a set of units. It is immutable.
type Fleet struct {
	opts      Options
	hotUnits  int
	zipfUnits int
	zipfEnds  []int // number of series up to and including each Zipf-sized metric
	slots     int
}

// New validates opts and returns a fleet.
func New(opts Options) (*Fleet, error) {
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	f := &Fleet{
		opts:      opts,
		hotUnits:  (opts.HotSeries + syntheticUnitSeries - 1) / syntheticUnitSeries,
		zipfUnits: (opts.ZipfSeries + syntheticUnitSeries - 1) / syntheticUnitSeries,
		slots:     opts.Hosts*opts.hostSeries() + opts.HotSeries + opts.ZipfSeries,
	}
	if opts.ZipfSeries > 0 {
		f.zipfEnds = zipfEnds(opts.ZipfSeries, opts.ZipfMetrics)
	}
	return f, nil
}

// zipfEnds divides series among metrics. The size of a metric is about the size of the first divided by its rank, and at
// least 1.
func zipfEnds(series, metrics int) []int {
	harmonic := 0.0
	for i := range metrics {
		harmonic += 1 / float64(i+1)
	}
	ends := make([]int, metrics)
	at, weight := 0, 0.0
	for i := range metrics {
		weight += 1 / float64(i+1)
		after := metrics - 1 - i // each of the following metrics needs a series
		at = min(max(at+1, int(math.Round(float64(series)*weight/harmonic))), series-after)
		ends[i] = at
	}
	return ends
}

// Options returns the options with their defaults filled in.
func (f *Fleet) Options() Options { return f.opts }

// Units returns the number of units.
func (f *Fleet) Units() int { return f.opts.Hosts + f.hotUnits + f.zipfUnits }

// Slots returns the number of series that exist at any one time. A slot is the index of a series in the fleet. With churn,
// a slot has several series over time.
func (f *Fleet) Slots() int { return f.slots }

// SlotsBefore returns the number of slots of the units 0 to u−1. This is also the first slot of unit u.
func (f *Fleet) SlotsBefore(u int) int {
	hosts := min(u, f.opts.Hosts)
	slots := hosts * f.opts.hostSeries()
	if u -= hosts; u > 0 {
		slots += min(u*syntheticUnitSeries, f.opts.HotSeries)
	}
	if u -= f.hotUnits; u > 0 {
		slots += min(u*syntheticUnitSeries, f.opts.ZipfSeries)
	}
	return slots
}

// Renewed reports whether unit u is replaced at a step.
func (f *Fleet) Renewed(u, step int) bool {
	return f.opts.ChurnPercent > 0 && step > 0 && step%f.opts.ChurnSteps == 0 && f.replaced(u, step/f.opts.ChurnSteps)
}

// replaced reports whether unit u is replaced at the start of an epoch of ChurnSteps steps.
func (f *Fleet) replaced(u, epoch int) bool {
	return u < f.opts.Hosts && Unit01(Mix(f.opts.Seed^saltChurn, uint64(u), uint64(epoch)))*100 < f.opts.ChurnPercent
}

// Each of these is mixed into the seed to make an independent sequence of random numbers.
const (
	saltChurn = (iota + 1) << 40
	saltUnit
	saltRestart
	saltStep
	saltRewrite
	saltSession
)

func (f *Fleet) kindOf(u int) (k kind, number int) {
	switch {
	case u < f.opts.Hosts:
		return host, u
	case u < f.opts.Hosts+f.hotUnits:
		return hot, u - f.opts.Hosts
	}
	return zipf, u - f.opts.Hosts - f.hotUnits
}

var (
	regions  = [...]string{"eu-central-1", "eu-west-1", "us-east-1", "us-west-2", "ap-south-1"}
	services = [...]string{"basket", "catalogue", "checkout", "identity", "mailer", "payments", "search", "stock", "tracking"}
)

// Services returns the names of all services.
func (f *Fleet) Services() []string {
	if f.opts.Services == 0 || f.opts.Hosts == 0 {
		return nil
	}
	return services[:]
}

// Instance returns the value of the label instance of a unit that was replaced gen times. No other unit has this value.
func (f *Fleet) Instance(u, gen int) string {
	k, n := f.kindOf(u)
	switch k {
	case hot:
		return fmt.Sprintf("hot-%05d.loadtest.example:9100", n)
	case zipf:
		return fmt.Sprintf("zipf-%05d.loadtest.example:9100", n)
	}
	if gen == 0 {
		return fmt.Sprintf("host-%05d.%s.example:9100", n, regions[n%len(regions)])
	}
	return fmt.Sprintf("host-%05d-r%d.%s.example:9100", n, gen, regions[n%len(regions)])
}

// specs returns the series of unit u.
func (f *Fleet) specs(u int) []spec {
	k, n := f.kindOf(u)
	switch k {
	case hot:
		return f.hotSpecs(n*syntheticUnitSeries, min((n+1)*syntheticUnitSeries, f.opts.HotSeries))
	case zipf:
		return f.zipfSpecs(n*syntheticUnitSeries, min((n+1)*syntheticUnitSeries, f.opts.ZipfSeries))
	}
	list := machineSpecs()
	for i := range f.opts.Services {
		name := services[(n*f.opts.Services+i)%len(services)]
		if i >= len(services) {
			name += "-" + strconv.Itoa(i/len(services))
		}
		list = append(list, serviceSpecs(i, name)...)
	}
	return list
}

func (f *Fleet) hotSpecs(from, to int) []spec {
	list := make([]spec, 0, to-from)
	for i := from; i < to; i++ {
		session := fmt.Sprintf("%08d", i)
		if f.opts.HotScattered {
			session = fmt.Sprintf("%016x%04x", Mix(f.opts.Seed^saltSession, uint64(i), 0), i&0xffff)
		}
		list = append(list, spec{
			metric: HotMetric, own: tags("session", session), shape: counter, rate: 12, per: 1, service: -1,
		})
	}
	return list
}

func (f *Fleet) zipfSpecs(from, to int) []spec {
	list := make([]spec, 0, to-from)
	for i := from; i < to; i++ {
		metric, _ := slices.BinarySearch(f.zipfEnds, i+1)
		s := spec{
			metric: fmt.Sprintf("loadtest_zipf_%04d", metric), own: tags("shard", strconv.Itoa(i)), shape: gauge,
			rate: 30, level: 4000, per: 100, service: -1,
		}
		if metric%2 == 0 {
			s.shape, s.rate, s.per, s.metric = counter, 40, 1, s.metric+"_total"
		}
		list = append(list, s)
	}
	return list
}

// series returns the series of a unit in the order of their specs.
func (f *Fleet) series(u, gen int, specs []spec) []Series {
	region := regions[u%len(regions)]
	shared := tags(
		"cluster", region+"-k"+strconv.Itoa(u/10%4), "env", "production", "instance", f.Instance(u, gen), "job", f.opts.Job,
		"rack", "r"+strconv.Itoa(u/16%90), "region", region, "team", "team-"+strconv.Itoa(u%23),
		"zone", region+string(rune('a'+u/7%3)),
	)
	list := make([]Series, len(specs))
	pool := make([]keyschema.Tag, 0, len(specs)*(len(shared)+3))
	for i := range specs {
		start := len(pool)
		pool = append(append(pool, shared...), specs[i].own...)
		own := pool[start:len(pool):len(pool)]
		sort.Slice(own, func(a, b int) bool { return cmp.Less(own[a].Name, own[b].Name) })
		list[i] = Series{Metric: specs[i].metric, Tags: own}
	}
	return list
}

// SeriesOf returns the series of a unit that was replaced gen times, in the order of the unit's values.
func (f *Fleet) SeriesOf(u, gen int) []Series { return f.series(u, gen, f.specs(u)) }
