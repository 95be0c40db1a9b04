package distribution

import (
	"cmp"
	"slices"
	"strings"

	"halite/keyschema"
	"halite/loadtest/acked"
	"halite/loadtest/fleet"
	"halite/loadtest/load"
)

// metricsMax bounds the metrics that a report lists.
const metricsMax = 10

// saltLoads are the loads that a group of series puts on each salt.
type saltLoads struct {
	series               int
	samples, rows, bytes []int64
}

func newSaltLoads(salts int) *saltLoads {
	return &saltLoads{samples: make([]int64, salts), rows: make([]int64, salts), bytes: make([]int64, salts)}
}

func (l *saltLoads) add(salt int, samples, rows, bytes int64) {
	l.series++
	l.samples[salt] += samples
	l.rows[salt] += rows
	l.bytes[salt] += bytes
}

func (l *saltLoads) report() BySalt {
	return BySalt{l.series, newSkew(l.samples, l.series), newSkew(l.rows, l.series), newSkew(l.bytes, l.series)}
}

// Analysis computes the keys of all acknowledged samples. Its fields are its input; Tablets may be empty.
type Analysis struct {
	Fleet    *fleet.Fleet
	Timeline *load.Timeline
	Acked    *acked.Set
	Schema   *keyschema.Schema
	Tablets  []Tablet // sorted by Start

	groups        map[int]*saltLoads // by number of salts
	metrics       map[metricSalts]*saltLoads
	tabletSamples []int64
	tabletRows    []int64
}

// metricSalts is a metric with a number of salts. The number may change from some hour on, by another rule.
type metricSalts struct {
	metric string
	salts  int
}

// sampleWireBytes is the size of a sample in a write request without its labels.
const sampleWireBytes = 1 + 2 + 2 + 16

// Run walks all acknowledged samples and reports their distribution.
func (a *Analysis) Run() *Report {
	a.groups, a.metrics = make(map[int]*saltLoads), make(map[metricSalts]*saltLoads)
	a.tabletSamples, a.tabletRows = make([]int64, len(a.Tablets)), make([]int64, len(a.Tablets))
	for u := range a.Fleet.Units() {
		a.addUnit(u)
	}
	out := &Report{}
	for _, g := range a.groups {
		out.Salts = append(out.Salts, g.report())
	}
	slices.SortFunc(out.Salts, func(a, b BySalt) int { return cmp.Compare(a.Samples.Ranges, b.Samples.Ranges) })
	out.Metrics = a.largestMetrics()
	if len(a.Tablets) > 0 {
		out.Tablets = &ByTablet{Samples: newSkew(a.tabletSamples, 0), Rows: newSkew(a.tabletRows, 0)}
	}
	return out
}

// largestMetrics returns the distributions of the metrics with the most samples.
func (a *Analysis) largestMetrics() []ByMetric {
	var list []ByMetric
	for name, loads := range a.metrics {
		list = append(list, ByMetric{name.metric, loads.report()})
	}
	slices.SortFunc(list, func(a, b ByMetric) int {
		return cmp.Or(cmp.Compare(b.Samples.Sum(), a.Samples.Sum()), cmp.Compare(a.Metric, b.Metric))
	})
	return list[:min(len(list), metricsMax)]
}

// hourSamples counts the acknowledged samples of one slot in one hour.
type hourSamples struct {
	hour    int64
	samples int64
}

// addUnit adds the samples of a unit. Each replacement of the unit begins other series.
func (a *Analysis) addUnit(u int) {
	firstSlot := a.Fleet.SlotsBefore(u)
	slots := a.Fleet.SlotsBefore(u+1) - firstSlot
	hours := make([][]hourSamples, slots)
	gen := 0
	for step := range a.Timeline.StepsBegun() {
		if a.Fleet.Renewed(u, step) {
			a.addSeries(a.Fleet.SeriesOf(u, gen), hours)
			hours, gen = make([][]hourSamples, slots), gen+1
		}
		hour := keyschema.HourOf(a.Timeline.TsMs(firstSlot, step))
		for i := range hours {
			w := a.Acked.Outcome(firstSlot+i, step)
			n := int64(0)
			if w.First {
				n++
			}
			if w.Second {
				n++
			}
			if n == 0 {
				continue
			}
			if k := len(hours[i]); k == 0 || hours[i][k-1].hour != hour {
				hours[i] = append(hours[i], hourSamples{hour: hour})
			}
			hours[i][len(hours[i])-1].samples += n
		}
	}
	a.addSeries(a.Fleet.SeriesOf(u, gen), hours)
}

// addSeries adds the hours of each series to its salt and tablets.
func (a *Analysis) addSeries(series []fleet.Series, hours [][]hourSamples) {
	var key []byte
	for i, s := range series {
		for len(hours[i]) > 0 {
			rule := a.Schema.RuleAt(s.Metric, hours[i][0].hour)
			var samples, rows int64
			for _, h := range hours[i] {
				if a.Schema.RuleAt(s.Metric, h.hour) != rule {
					break
				}
				samples += h.samples
				rows++
				if len(a.Tablets) > 0 {
					key = keyschema.AppendHour(rule.AppendPrefix(key[:0], s.Metric, s.Tags), h.hour)
					at := a.tabletOf(string(key))
					a.tabletSamples[at] += h.samples
					a.tabletRows[at]++
				}
			}
			hours[i] = hours[i][rows:]
			salt := rule.Salt(s.Metric, s.Tags)
			wireBytes := samples * int64(len(load.AppendSeriesLabels(key[:0], s))+sampleWireBytes)
			for _, loads := range []*saltLoads{a.group(rule.Salts), a.metric(s.Metric, rule.Salts)} {
				loads.add(salt, samples, rows, wireBytes)
			}
		}
	}
}

func (a *Analysis) group(salts int) *saltLoads {
	if a.groups[salts] == nil {
		a.groups[salts] = newSaltLoads(salts)
	}
	return a.groups[salts]
}

func (a *Analysis) metric(name string, salts int) *saltLoads {
	at := metricSalts{name, salts}
	if a.metrics[at] == nil {
		a.metrics[at] = newSaltLoads(salts)
	}
	return a.metrics[at]
}

// tabletOf returns the index of the tablet that holds a key.
func (a *Analysis) tabletOf(key string) int {
	at, found := slices.BinarySearchFunc(a.Tablets, key, func(t Tablet, k string) int { return strings.Compare(t.Start, k) })
	if !found {
		at--
	}
	return max(at, 0)
}
