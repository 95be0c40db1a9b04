package replay

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"halite/keyschema"
	"halite/storage/keyviz"
	"halite/storage/keyviz/heat"
)

// ErrBadLayout means that the name of a layout is unknown.
var ErrBadLayout = errors.New("unknown layout")

// Layout returns the row key that replaces a key in a column of a Sample.
type Layout func(key string, column int) string

// Rules is the layout of schema rules. It does not change a key that is not the row key of a series, or that holds only a
// hash of its tags.
func Rules(schema *keyschema.Schema) Layout {
	return func(key string, _ int) string {
		k, err := keyschema.ParseRowKey([]byte(key))
		if err != nil || k.TagsHash != "" {
			return key
		}
		prefix := schema.RuleAt(k.Metric, keyschema.HourMax).AppendPrefix(nil, k.Metric, k.Tags)
		return string(keyschema.AppendHour(prefix, k.Hour))
	}
}

// Names of layouts other than schema rules. They demonstrate bad keys.
const (
	// TimeFirst puts the time of the column in front of each key.
	TimeFirst = "time-first"
	// SequentialFirst puts a number in front of each key. Keys get numbers in the order in which they first take load.
	SequentialFirst = "sequential-id-first"
	// Static replaces each key by its metric, as if each metric had a single row.
	Static = "static-key"
)

// Named returns a layout by its name.
func Named(name string, s *keyviz.Sample) (Layout, error) {
	switch name {
	case TimeFirst:
		return func(key string, column int) string { return fmt.Sprintf("%015d#%s", s.TimesMs[column], key) }, nil
	case SequentialFirst:
		numbers := sequence(s)
		return func(key string, column int) string {
			return fmt.Sprintf("%012d#%s", len(s.Keys)*column+numbers[key], key)
		}, nil
	case Static:
		return func(key string, _ int) string {
			metric, _, _ := strings.Cut(key, "#")
			return metric + "#"
		}, nil
	}
	return nil, fmt.Errorf("%w %q; known are %s, %s and %s", ErrBadLayout, name, TimeFirst, SequentialFirst, Static)
}

// sequence numbers the keys by the column in which they first take load.
func sequence(s *keyviz.Sample) map[string]int {
	numbers := make(map[string]int, len(s.Keys))
	for _, weights := range s.Weights {
		for i, n := range weights {
			if _, known := numbers[s.Keys[i]]; n > 0 && !known {
				numbers[s.Keys[i]] = len(numbers)
			}
		}
	}
	return numbers
}

// Same is the layout of the recorded keys.
func Same(key string, _ int) string { return key }

// tablets is the number of equal ranges with which MaxOverMean compares layouts.
const tablets = 16

// Result is a replayed heat map.
type Result struct {
	Map *keyviz.Map
	// MaxOverMean is the ratio of the hottest of 16 ranges to the mean, over time. 1 is even, and 16 means that one range takes
	// all load. The ranges have equal numbers of keys, as tablets would have after a while.
	MaxOverMean float64
}

// Replay makes the heat map of a sample under a layout, with at most rows rows.
func Replay(s *keyviz.Sample, layout Layout, rows int) *Result {
	axis, places := place(s, layout)
	fine := make([][]float64, len(s.Weights))
	total := make([]float64, len(axis))
	for c, weights := range s.Weights {
		fine[c] = make([]float64, len(axis))
		for i, n := range weights {
			if n > 0 {
				at := places(c, i)
				fine[c][at] += n
				total[at] += n
			}
		}
	}
	m := &keyviz.Map{
		Metric: s.Metric, TimesMs: s.TimesMs, Missing: make([]bool, len(fine)), Touched: make([]int, len(fine)),
		Ranges: make([]int, len(fine)), Approximate: true,
	}
	starts := heat.Rows(axis, total, rows)
	for _, i := range starts {
		m.Starts = append(m.Starts, axis[i])
	}
	for c := range fine {
		m.Values = append(m.Values, addUp(fine[c], starts))
	}
	m.RowsWritten, m.BytesWritten = make([]float64, len(starts)), make([]float64, len(starts))
	return &Result{Map: m, MaxOverMean: maxOverMean(fine, len(axis))}
}

// place returns the sorted keys of the layout, and a function that returns the place of key i in a column.
func place(s *keyviz.Sample, layout Layout) (axis []string, places func(c, i int) int) {
	keys := make([][]string, len(s.Weights))
	for c, weights := range s.Weights {
		keys[c] = make([]string, len(weights))
		for i, n := range weights {
			if n > 0 {
				keys[c][i] = layout(s.Keys[i], c)
				axis = append(axis, keys[c][i])
			}
		}
	}
	slices.Sort(axis)
	axis = slices.Compact(axis)
	if len(axis) == 0 {
		axis = []string{""}
	}
	return axis, func(c, i int) int {
		at, _ := slices.BinarySearch(axis, keys[c][i])
		return at
	}
}

// addUp adds up the values from the start of each row to the next one.
func addUp(fine []float64, starts []int) []float64 {
	out := make([]float64, len(starts))
	for n, i := range starts {
		end := len(fine)
		if n+1 < len(starts) {
			end = starts[n+1]
		}
		for ; i < end; i++ {
			out[n] += fine[i]
		}
	}
	return out
}

// maxOverMean is the mean over all columns of the ratio of the hottest range to the mean range, weighted by the load of the
// column.
func maxOverMean(fine [][]float64, keys int) float64 {
	sum, all := 0.0, 0.0
	for _, column := range fine {
		var loads [tablets]float64
		total := 0.0
		for i, n := range column {
			loads[i*tablets/max(keys, tablets)] += n
			total += n
		}
		sum += slices.Max(loads[:]) * tablets
		all += total
	}
	if all == 0 {
		return 1
	}
	return sum / all
}
