package accumulate

import (
	"math"

	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/util/kahansum"

	"halite/query/columnar/grid"
	"halite/query/columnar/window"
)

// State is the state of a group: columns with one value for each step. The first column is absent at steps at which the group
// has had no value yet.
type State struct {
	Values, second, third []float64
	// incremental marks, for averages, the steps that use an incremental mean; nil if no step does.
	incremental []bool
}

// Function defines an aggregation.
type Function struct {
	Columns int // number of columns of a state
	Add     func(g *State, values []float64)
	// Finish puts the results into the first column. It is nil if the first column already has the results.
	Finish func(g *State)
}

// NewState makes a state from memory for all its columns.
func (f Function) NewState(memory []float64, steps int) State {
	clear(memory)
	s := State{Values: memory[:steps:steps]}
	grid.ClearRow(s.Values)
	if f.Columns > 1 {
		s.second = memory[steps : 2*steps : 2*steps]
	}
	if f.Columns > 2 {
		s.third = memory[2*steps:]
	}
	return s
}

// ForOperator returns the accumulation for an operator.
func ForOperator(op parser.ItemType) (Function, bool) {
	switch op {
	case parser.SUM:
		return Function{Columns: 2, Add: addSum, Finish: finishSum}, true
	case parser.AVG:
		return Function{Columns: 3, Add: addAverage, Finish: finishAverage}, true
	case parser.MIN:
		return Function{Columns: 1, Add: addMin}, true
	case parser.MAX:
		return Function{Columns: 1, Add: addMax}, true
	case parser.COUNT:
		return Function{Columns: 1, Add: addCount}, true
	case parser.GROUP:
		return Function{Columns: 1, Add: addGroup}, true
	case parser.STDVAR:
		return Function{Columns: 3, Add: addVariance, Finish: finishVariance(func(v float64) float64 { return v })}, true
	case parser.STDDEV:
		return Function{Columns: 3, Add: addVariance, Finish: finishVariance(math.Sqrt)}, true
	}
	return Function{}, false
}

// addSum adds to sums in Values and to their compensation in second.
func addSum(g *State, values []float64) {
	sums, comps := g.Values[:len(values)], g.second[:len(values)]
	for k, v := range values {
		if grid.IsAbsent(v) {
			continue
		}
		if grid.IsAbsent(sums[k]) {
			sums[k] = v
			continue
		}
		if sums[k], comps[k] = window.Kahan(v, sums[k], comps[k]); window.Infinite(sums[k]) {
			comps[k] = 0
		}
	}
}

func finishSum(g *State) {
	for k, v := range g.Values {
		if !grid.IsAbsent(v) {
			g.Values[k] = v + g.second[k]
		}
	}
}

// addAverage adds to sums in Values, to compensations in second and to counts in third. If a sum would overflow, Values and
// second hold an incremental mean from that step on.
func addAverage(g *State, values []float64) {
	sums, comps, counts := g.Values[:len(values)], g.second[:len(values)], g.third[:len(values)]
	for k, v := range values {
		if grid.IsAbsent(v) {
			continue
		}
		counts[k]++
		if grid.IsAbsent(sums[k]) {
			sums[k] = v
			continue
		}
		n := counts[k]
		if g.incremental == nil || !g.incremental[k] {
			sum, comp := window.Kahan(v, sums[k], comps[k])
			if !window.Infinite(sum) {
				sums[k], comps[k] = sum, comp
				continue
			}
			if g.incremental == nil {
				g.incremental = make([]bool, len(values))
			}
			g.incremental[k] = true
			sums[k] /= n - 1
			comps[k] /= n - 1
		}
		q := (n - 1) / n
		sums[k], comps[k] = kahansum.Inc(v/n, q*sums[k], q*comps[k])
	}
}

func finishAverage(g *State) {
	for k, v := range g.Values {
		switch {
		case grid.IsAbsent(v):
		case g.incremental != nil && g.incremental[k]:
			g.Values[k] = v + g.second[k]
		default:
			g.Values[k] = v/g.third[k] + g.second[k]/g.third[k]
		}
	}
}

func addMin(g *State, values []float64) {
	for k, v := range values {
		if !grid.IsAbsent(v) && (g.Values[k] > v || math.IsNaN(g.Values[k])) {
			g.Values[k] = v
		}
	}
}

func addMax(g *State, values []float64) {
	for k, v := range values {
		if !grid.IsAbsent(v) && (g.Values[k] < v || math.IsNaN(g.Values[k])) {
			g.Values[k] = v
		}
	}
}

func addCount(g *State, values []float64) {
	for k, v := range values {
		switch {
		case grid.IsAbsent(v):
		case grid.IsAbsent(g.Values[k]):
			g.Values[k] = 1
		default:
			g.Values[k]++
		}
	}
}

func addGroup(g *State, values []float64) {
	for k, v := range values {
		if !grid.IsAbsent(v) {
			g.Values[k] = 1
		}
	}
}

// addVariance updates the sum of squared distances in Values, the mean in second and the count in third.
func addVariance(g *State, values []float64) {
	for k, v := range values {
		if grid.IsAbsent(v) {
			continue
		}
		if grid.IsAbsent(g.Values[k]) {
			g.Values[k] = 0
			if math.IsNaN(v) || math.IsInf(v, 0) {
				g.Values[k] = math.NaN()
			}
			g.second[k], g.third[k] = v, 1
			continue
		}
		g.third[k]++
		delta := v - g.second[k]
		g.second[k] += delta / g.third[k]
		g.Values[k] += delta * (v - g.second[k])
	}
}

func finishVariance(result func(float64) float64) func(g *State) {
	return func(g *State) {
		for k, v := range g.Values {
			if !grid.IsAbsent(v) {
				g.Values[k] = result(v / g.third[k])
			}
		}
	}
}
