package loadtest

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sort"
	"strings"

	"halite/keyschema"
	"halite/loadtest/fleet"
)

// spreadMetricsMax metrics, those with the most samples, are listed in a report.
const spreadMetricsMax = 10

// KeySpread says how the acknowledged samples fell on salts and tablets.
type KeySpread struct {
	// Salts lists, for each number of salts that rules give, how the metrics with that number spread over them together.
	Salts []SaltSpread `json:"salts"`
	// Metrics are the metrics with the most samples, each over its own salts.
	Metrics []MetricSpread `json:"metrics"`
	// Tablets is nil if the server does not tell its tablets.
	Tablets *TabletSpread `json:"tablets,omitempty"`
	// TabletsError says why not.
	TabletsError string `json:"tablets_error,omitempty"`
}

// SaltSpread is the spread of one group of series over salts: their samples, their rows (series and hour) and their
// bytes on the wire before compression.
type SaltSpread struct {
	Series  int    `json:"series"`
	Samples Spread `json:"samples"`
	Rows    Spread `json:"rows"`
	Bytes   Spread `json:"bytes"`
}

// MetricSpread is the spread of one metric.
type MetricSpread struct {
	Metric string `json:"metric"`
	SaltSpread
}

// TabletSpread is the spread over the tablets that the server has at the end.
type TabletSpread struct {
	// Samples and Rows of this load, placed by their keys.
	Samples Spread `json:"samples"`
	Rows    Spread `json:"rows"`
	// RowsWritten and BytesWritten are what the server itself counted, over the last CountedSeconds: since the load began,
	// or since it last divided its tablets anew. Rows reach tablets when their hour is flushed, so that a short load may have
	// none. CountedSeconds is 0 if the tablets were divided at the very end; then each has counted since.
	RowsWritten    Spread  `json:"rows_written"`
	BytesWritten   Spread  `json:"bytes_written"`
	CountedSeconds float64 `json:"counted_seconds"`
}

// tablet is one of the server's tablets of samples.
type tablet struct {
	Start        string `json:"start"`
	End          string `json:"end"`
	RowsWritten  uint64 `json:"rowsWritten"`
	BytesWritten uint64 `json:"bytesWritten"`
}

// readTablets asks for the tablets of the table of samples.
func readTablets(ctx context.Context, c *reader) ([]tablet, error) {
	data, err := c.data(ctx, "/api/v1/status/tablets", nil)
	if err != nil {
		return nil, err
	}
	var d struct {
		Tables []struct {
			Name    string   `json:"name"`
			Tablets []tablet `json:"tablets"`
		} `json:"tables"`
	}
	if err := json.Unmarshal(data, &d); err != nil {
		return nil, fmt.Errorf("list of tablets: %w", err)
	}
	for _, t := range d.Tables {
		if t.Name == "data" && len(t.Tablets) > 0 {
			return t.Tablets, nil
		}
	}
	return nil, fmt.Errorf("list of tablets: no table %q in it", "data")
}

// readRules asks for the schema rules in force.
func readRules(ctx context.Context, c *reader) (*keyschema.Schema, error) {
	data, err := c.data(ctx, "/api/v1/status/schema", nil)
	if err != nil {
		return nil, err
	}
	var d struct {
		Rules []keyschema.Rule `json:"rules"`
	}
	if err := json.Unmarshal(data, &d); err != nil {
		return nil, fmt.Errorf("schema rules: %w", err)
	}
	return keyschema.NewSchema(d.Rules)
}

// saltLoads are the loads of one group of series.
type saltLoads struct {
	series               int
	samples, rows, bytes []int64
}

func (s *saltLoads) add(salt int, samples, rows, bytes int64) {
	s.series++
	s.samples[salt] += samples
	s.rows[salt] += rows
	s.bytes[salt] += bytes
}

func (s *saltLoads) spread() SaltSpread {
	return SaltSpread{s.series, newSpread(s.samples, s.series), newSpread(s.rows, s.series), newSpread(s.bytes, s.series)}
}

func newSaltLoads(salts int) *saltLoads {
	return &saltLoads{samples: make([]int64, salts), rows: make([]int64, salts), bytes: make([]int64, salts)}
}

// spreader walks over all that was acknowledged and places it.
type spreader struct {
	fleet    *fleet.Fleet
	timeline *timeline
	ledger   *ledger
	schema   *keyschema.Schema
	tablets  []tablet // sorted; empty if unknown

	groups        map[int]*saltLoads
	metrics       map[metricSalts]*saltLoads
	tabletSamples []int64
	tabletRows    []int64
}

// metricSalts is a metric under a rule; another rule may hold for it from some hour on.
type metricSalts struct {
	metric string
	salts  int
}

// sampleWireBytes is what a sample takes on the wire beside its labels.
const sampleWireBytes = 1 + 2 + 2 + 16

func (s *spreader) run() *KeySpread {
	s.groups, s.metrics = make(map[int]*saltLoads), make(map[metricSalts]*saltLoads)
	s.tabletSamples, s.tabletRows = make([]int64, len(s.tablets)), make([]int64, len(s.tablets))
	for u := range s.fleet.Units() {
		s.unit(u)
	}
	out := &KeySpread{}
	for _, g := range s.groups {
		out.Salts = append(out.Salts, g.spread())
	}
	sort.Slice(out.Salts, func(i, j int) bool { return out.Salts[i].Samples.Ranges < out.Salts[j].Samples.Ranges })
	var names []metricSalts
	for name := range s.metrics {
		names = append(names, name)
	}
	total := func(name metricSalts) (n int64) {
		for _, x := range s.metrics[name].samples {
			n += x
		}
		return n
	}
	sort.Slice(names, func(i, j int) bool {
		a, b := total(names[i]), total(names[j])
		return a > b || a == b && names[i].metric < names[j].metric
	})
	for _, name := range names[:min(len(names), spreadMetricsMax)] {
		out.Metrics = append(out.Metrics, MetricSpread{name.metric, s.metrics[name].spread()})
	}
	if len(s.tablets) > 0 {
		out.Tablets = &TabletSpread{Samples: newSpread(s.tabletSamples, 0), Rows: newSpread(s.tabletRows, 0)}
	}
	return out
}

// hourSamples are the acknowledged samples of one slot in one hour.
type hourSamples struct {
	hour    int64
	samples int64
}

// unit places the samples of a unit, generation by generation.
func (s *spreader) unit(u int) {
	firstSlot := s.fleet.SlotsBefore(u)
	slots := s.fleet.SlotsBefore(u+1) - firstSlot
	hours := make([][]hourSamples, slots)
	gen := 0
	for step := range s.timeline.begun() {
		if s.fleet.Renewed(u, step) {
			s.place(s.fleet.SeriesOf(u, gen), hours)
			hours, gen = make([][]hourSamples, slots), gen+1
		}
		hour := keyschema.HourOf(s.timeline.tsMs(firstSlot, step))
		for i := range hours {
			w := s.ledger.look(firstSlot+i, step)
			n := int64(0)
			if w.first {
				n++
			}
			if w.second {
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
	s.place(s.fleet.SeriesOf(u, gen), hours)
}

func (s *spreader) place(names []fleet.Series, hours [][]hourSamples) {
	var key []byte
	for i, name := range names {
		for len(hours[i]) > 0 {
			rule := s.schema.RuleAt(name.Metric, hours[i][0].hour)
			var samples, rows int64
			for _, h := range hours[i] {
				if s.schema.RuleAt(name.Metric, h.hour) != rule {
					break
				}
				samples += h.samples
				rows++
				if len(s.tablets) > 0 {
					key = keyschema.AppendHour(rule.AppendPrefix(key[:0], name.Metric, name.Tags), h.hour)
					at := s.tabletOf(string(key))
					s.tabletSamples[at] += h.samples
					s.tabletRows[at]++
				}
			}
			hours[i] = hours[i][rows:]
			salt := rule.Salt(name.Metric, name.Tags)
			wireBytes := samples * int64(len(appendSeriesLabels(key[:0], name))+sampleWireBytes)
			for _, loads := range []*saltLoads{s.group(rule.Salts), s.metric(name.Metric, rule.Salts)} {
				loads.add(salt, samples, rows, wireBytes)
			}
		}
	}
}

func (s *spreader) group(salts int) *saltLoads {
	if s.groups[salts] == nil {
		s.groups[salts] = newSaltLoads(salts)
	}
	return s.groups[salts]
}

// metric returns the loads of a metric while it has so many salts.
func (s *spreader) metric(name string, salts int) *saltLoads {
	at := metricSalts{name, salts}
	if s.metrics[at] == nil {
		s.metrics[at] = newSaltLoads(salts)
	}
	return s.metrics[at]
}

func (s *spreader) tabletOf(key string) int {
	at, found := slices.BinarySearchFunc(s.tablets, key, func(t tablet, k string) int { return strings.Compare(t.Start, k) })
	if !found {
		at--
	}
	return max(at, 0)
}
