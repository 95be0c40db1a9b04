package grid

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

// New counts the steps. An instant query has equal start and end; its step only needs to be positive.
func New(startMs, endMs, stepMs int64) Grid {
	return Grid{StartMs: startMs, EndMs: endMs, StepMs: stepMs, Steps: int((endMs-startMs)/stepMs) + 1}
}

// At is the time of step k.
func (g Grid) At(k int) int64 { return g.StartMs + int64(k)*g.StepMs }

// First is the grid of what has the same value at every step.
func (g Grid) First() Grid {
	return Grid{StartMs: g.StartMs, EndMs: g.StartMs, StepMs: g.StepMs, Steps: 1}
}

// Instant reports whether the engine would treat the grid as an instant query and keep an order.
func (g Grid) Instant() bool { return g.StartMs == g.EndMs }

// Series names a series of a result.
type Series struct {
	Labels labels.Labels
	// Dropped says that the metric name is not part of the series any more. The labels are only rewritten where that
	// shows: an aggregation by other labels never needs it.
	Dropped bool
	// Group is the number of Labels that are only a part; all knows the rest; see read.Column.
	Group uint32
	All   *index.Series
}

// Whole is the series with all its labels.
func (s Series) Whole() Series {
	if s.Group == 0 {
		return s
	}
	b := labels.NewScratchBuilder(16)
	return Series{Labels: s.All.AllLabels(&b), Dropped: s.Dropped}
}

// Absent is the value of a step without one. Stale markers in the data thus need no care.
func Absent() float64 { return math.Float64frombits(value.StaleNaN) }

// IsAbsent reports whether v stands for a step without a value.
func IsAbsent(v float64) bool { return math.Float64bits(v) == value.StaleNaN }

// HasAbsent reports whether a step has no value.
func HasAbsent(vs []float64) bool {
	for _, v := range vs {
		if IsAbsent(v) {
			return true
		}
	}
	return false
}

// Present is v, or another NaN if a change of sign has made it the mark of an absent value.
func Present(v float64) float64 {
	if IsAbsent(v) {
		return math.NaN()
	}
	return v
}

// Count is the number of values in a row.
func Count(row []float64) int {
	n := 0
	for _, v := range row {
		if !IsAbsent(v) {
			n++
		}
	}
	return n
}

// AnyPresent reports whether a step has a value.
func AnyPresent(row []float64) bool {
	for _, v := range row {
		if !IsAbsent(v) {
			return true
		}
	}
	return false
}

// ClearRow leaves no step a value.
func ClearRow(row []float64) {
	for i := range row {
		row[i] = Absent()
	}
}

// Naming says what is known of the metric names of a result before it is evaluated.
type Naming uint8

const (
	Nameless Naming = iota // no series has a name, or names are dropped already
	OneName                // all have the same name: without it they still differ
	AnyName
)

// DropNames returns the labels without name, type and unit of the metric.
func DropNames(ls labels.Labels) labels.Labels { return ls.DropReserved(schema.IsMetadataLabel) }
