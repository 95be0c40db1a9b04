package keyviz

import (
	"context"
	"fmt"
	"slices"

	"halite/keyschema"
	"halite/storage/keyviz/heat"
)

// Limits of a Sample.
const (
	// SampleKeysMax bounds the keys of a Sample.
	SampleKeysMax = 2048
	// SampleColumnsMax bounds its columns.
	SampleColumnsMax = 120
)

// Sample is the load of sampled keys.
type Sample struct {
	Metric heat.Metric
	// TimesMs are the starts of the columns, and the end of the last one.
	TimesMs []int64
	// Keys are sorted row keys.
	Keys []string
	// Weights are the counts by column and key. They add up to the counts of the heat map.
	Weights [][]float64
}

// Sample returns the load of sampled keys. Each range gives equal parts of its counts to its sampled keys, or all of them to
// the nearest sampled key. The error wraps ErrBadRequest if the request is invalid, or if no key has been sampled yet.
func (c *Collector) Sample(ctx context.Context, r Request) (*Sample, error) {
	r.Rows = RowsMax
	if r.Columns == 0 || r.Columns > SampleColumnsMax {
		r.Columns = SampleColumnsMax
	}
	m, err := c.Map(ctx, r)
	if err != nil {
		return nil, err
	}
	s := &Sample{Metric: m.Metric, TimesMs: m.TimesMs, Keys: c.sampledKeys(m.Starts[0], m.End)}
	if len(s.Keys) == 0 {
		return nil, fmt.Errorf("%w: no key of the range has been sampled since the start of the server; "+
			"try again after a minute of load", ErrBadRequest)
	}
	s.Weights = make([][]float64, len(m.Values))
	for i := range s.Weights {
		s.Weights[i] = make([]float64, len(s.Keys))
	}
	for row, start := range m.Starts {
		first, _ := slices.BinarySearch(s.Keys, start)
		end := len(s.Keys)
		if row+1 < len(m.Starts) {
			end, _ = slices.BinarySearch(s.Keys, m.Starts[row+1])
		}
		if first == end { // no key was sampled in the row
			first = min(first, len(s.Keys)-1)
			end = first + 1
		}
		for column := range m.Values {
			for key := first; key < end; key++ {
				s.Weights[column][key] += m.Values[column][row] / float64(end-first)
			}
		}
	}
	return s, nil
}

// sampledKeys returns the sampled keys of a range, at most SampleKeysMax of them, with one key for each series.
func (c *Collector) sampledKeys(start, end string) (keys []string) {
	c.set.EachKey(func(key string, _ float64) {
		if key >= start && (end == "" || key < end) {
			keys = append(keys, key)
		}
	})
	slices.Sort(keys)
	keys = slices.CompactFunc(keys, func(a, b string) bool { return seriesOf(a) == seriesOf(b) })
	if len(keys) <= SampleKeysMax {
		return keys
	}
	thin := make([]string, SampleKeysMax)
	for i := range thin {
		thin[i] = keys[i*len(keys)/SampleKeysMax]
	}
	return thin
}

// seriesOf returns a row key without its hour.
func seriesOf(key string) string {
	if prefix, _, ok := keyschema.CutHour([]byte(key)); ok {
		return string(prefix)
	}
	return key
}
