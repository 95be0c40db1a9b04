package aggregation

import (
	"fmt"
	"maps"
	"slices"
)

// Interpolation is the rule for the value of a series between two of its points.
type Interpolation uint8

const (
	// Linear interpolates on the straight line between both points.
	Linear Interpolation = iota
	// Zero contributes 0.
	Zero
	// Highest and Lowest contribute the largest and the smallest number of the type.
	Highest
	Lowest
	// Previous contributes the value of the previous point.
	Previous
)

// Aggregator reduces several values to one.
type Aggregator struct {
	name   string
	method Interpolation
	// doubles and longs reduce one or more values. If sorts is set, they may reorder them.
	doubles func([]float64) float64
	longs   func([]int64) int64
	sorts   bool
}

// Name returns the name in queries.
func (a *Aggregator) Name() string { return a.name }

// Groups reports whether the aggregator combines series. Otherwise each series is a separate result.
func (a *Aggregator) Groups() bool { return a.name != none }

// none is the aggregator that combines no series.
const none = "none"

// Aggregators are all aggregators by name.
type Aggregators map[string]*Aggregator

// NewAggregators returns the aggregators of OpenTSDB.
func NewAggregators() Aggregators {
	all := Aggregators{}
	add := func(name string, method Interpolation, doubles func([]float64) float64, longs func([]int64) int64) {
		all[name] = &Aggregator{name: name, method: method, doubles: doubles, longs: longs}
	}
	add("sum", Linear, sumDoubles, sumLongs)
	add("pfsum", Previous, sumDoubles, sumLongs)
	add("zimsum", Zero, sumDoubles, sumLongs)
	add("squareSum", Zero, squareSumDoubles, squareSumLongs)
	add("min", Linear, minDoubles, slices.Min[[]int64])
	add("max", Linear, maxDoubles, slices.Max[[]int64])
	add("mimmin", Highest, minDoubles, slices.Min[[]int64])
	add("mimmax", Lowest, maxDoubles, slices.Max[[]int64])
	add("avg", Linear, avgDoubles, avgLongs)
	add("mult", Linear, multiplyDoubles, multiplyLongs)
	add("dev", Linear, devDoubles, devLongs)
	add("diff", Linear, diffDoubles, diffLongs)
	add("count", Zero, countDoubles, countLongs)
	add("first", Zero, first[float64], first[int64])
	add("last", Zero, last[float64], last[int64])
	add(none, Zero, first[float64], first[int64])
	add("median", Linear, medianDoubles, medianLongs)
	all["median"].sorts = true
	for _, p := range []float64{50, 75, 90, 95, 99, 99.9} {
		digits := fmt.Sprint(p)
		if p == 99.9 {
			digits = "999"
		}
		for suffix, estimate := range map[string]estimation{"": legacy, "r3": nearestRank, "r7": inclusive} {
			name := "p" + digits
			if suffix != "" {
				name = "ep" + digits + suffix
			}
			// For doubles, OpenTSDB uses the legacy estimation in all three.
			add(name, Linear, percentileDoubles(p), percentileLongs(p, estimate))
			all[name].sorts = true
		}
	}
	return all
}

// Names returns the names, sorted.
func (all Aggregators) Names() []string { return slices.Sorted(maps.Keys(all)) }
