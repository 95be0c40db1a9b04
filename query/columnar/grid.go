package columnar

import (
	"math"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/schema"

	"halite/storage/index"
)

// Grid is the times at which an expression is evaluated: StartMs, StartMs+StepMs … as far as EndMs.
type Grid struct {
	StartMs, EndMs, StepMs int64
	Steps                  int
}

// NewGrid counts the steps. An instant query has equal start and end; its step only needs to be positive.
func NewGrid(startMs, endMs, stepMs int64) Grid {
	return Grid{StartMs: startMs, EndMs: endMs, StepMs: stepMs, Steps: int((endMs-startMs)/stepMs) + 1}
}

// at is the time of step k.
func (g Grid) at(k int) int64 { return g.StartMs + int64(k)*g.StepMs }

// first is the grid of what has the same value at every step.
func (g Grid) first() Grid {
	return Grid{StartMs: g.StartMs, EndMs: g.StartMs, StepMs: g.StepMs, Steps: 1}
}

// instant reports whether the engine would treat the grid as that of an instant query, and keep an order.
func (g Grid) instant() bool { return g.StartMs == g.EndMs }

// Series names a series of a result.
type Series struct {
	Labels labels.Labels
	// dropped says that the metric name is not part of the series any more. The labels are only rewritten where that
	// shows: an aggregation by other labels never needs it.
	dropped bool
	// group is the number of Labels that are only a part; all knows the rest; see read.Column.
	group uint32
	all   *index.Series
}

// whole is the series with all its labels.
func (s Series) whole() Series {
	if s.group == 0 {
		return s
	}
	b := labels.NewScratchBuilder(16)
	return Series{Labels: s.all.AllLabels(&b), dropped: s.dropped}
}

// absent is the value of a step without one. Stale markers in the data thus need no care.
func absent() float64 { return math.Float64frombits(value.StaleNaN) }

func isAbsent(v float64) bool { return math.Float64bits(v) == value.StaleNaN }

func hasAbsent(vs []float64) bool {
	for _, v := range vs {
		if isAbsent(v) {
			return true
		}
	}
	return false
}

// present is v, or another NaN if a change of sign has made it the mark of an absent value.
func present(v float64) float64 {
	if isAbsent(v) {
		return math.NaN()
	}
	return v
}

// count is the number of values in a row.
func count(row []float64) int {
	n := 0
	for _, v := range row {
		if !isAbsent(v) {
			n++
		}
	}
	return n
}

func anyPresent(row []float64) bool {
	for _, v := range row {
		if !isAbsent(v) {
			return true
		}
	}
	return false
}

func clearRow(row []float64) {
	for i := range row {
		row[i] = absent()
	}
}

// naming says what is known of the metric names of a result before it is evaluated.
type naming uint8

const (
	nameless naming = iota // no series has a name, or names are dropped already
	oneName                // all have the same name: without it they still differ
	anyName
)

// dropNames is the labels without those that tell of the metric.
func dropNames(ls labels.Labels) labels.Labels { return ls.DropReserved(schema.IsMetadataLabel) }
