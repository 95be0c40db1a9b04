package grid

import (
	"math"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/schema"

	"halite/storage/index"
)

// Grid is the times of an evaluation: StartMs, StartMs+StepMs … up to EndMs.
type Grid struct {
	StartMs, EndMs, StepMs int64
	Steps                  int
}

// New returns the grid of a query. An instant query has equal start and end, and any positive step.
func New(startMs, endMs, stepMs int64) Grid {
	return Grid{StartMs: startMs, EndMs: endMs, StepMs: stepMs, Steps: int((endMs-startMs)/stepMs) + 1}
}

// At returns the time of step k.
func (g Grid) At(k int) int64 { return g.StartMs + int64(k)*g.StepMs }

// First returns the grid for an operand with the same value at every step.
func (g Grid) First() Grid {
	return Grid{StartMs: g.StartMs, EndMs: g.StartMs, StepMs: g.StepMs, Steps: 1}
}

// Instant reports whether the engine treats the grid as an instant query, whose results keep their order.
func (g Grid) Instant() bool { return g.StartMs == g.EndMs }

// Series identifies a series of a result.
type Series struct {
	Labels labels.Labels
	// Dropped says that the series no longer has the metric name, although Labels may still have it. An operator rewrites the
	// labels only if the result shows the difference. An aggregation by other labels never needs the name.
	Dropped bool
	// Group identifies Labels if they are only some of the labels; all returns all labels. See column.Column.
	Group uint32
	All   *index.Series
}

// Whole returns the series with all its labels.
func (s Series) Whole() Series {
	if s.Group == 0 {
		return s
	}
	b := labels.NewScratchBuilder(16)
	return Series{Labels: s.All.AllLabels(&b), Dropped: s.Dropped}
}

// Absent is the value of a step without a value. So stale markers in the data need no special case.
func Absent() float64 { return math.Float64frombits(value.StaleNaN) }

// IsAbsent reports whether v is Absent.
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

// Present returns v, or another NaN if a change of sign has made v equal to Absent.
func Present(v float64) float64 {
	if IsAbsent(v) {
		return math.NaN()
	}
	return v
}

// Count returns the number of values in a row.
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

// ClearRow makes all steps absent.
func ClearRow(row []float64) {
	for i := range row {
		row[i] = Absent()
	}
}

// Naming describes the metric names of a result before its evaluation.
type Naming uint8

const (
	Nameless Naming = iota // no series has a name, or the names are already dropped
	OneName                // all series have the same name, so they differ in other labels
	AnyName
)

// DropNames returns the labels without name, type and unit of the metric.
func DropNames(ls labels.Labels) labels.Labels { return ls.DropReserved(schema.IsMetadataLabel) }
