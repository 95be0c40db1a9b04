package query

import (
	"fmt"
	"strings"
	"time"

	"github.com/prometheus/prometheus/promql"

	"halite/query/columnar"
	readers "halite/query/promql"
)

// Explain says how a query was evaluated and what it took. Its figures are those of the columnar operators; what the
// engine reads by itself is in the statistics.
type Explain struct {
	// Operators is the tree of operators, a line each, indented by two spaces a level. "engine" stands for all that
	// Prometheus' engine evaluates, with the parts below it that reached it precomputed.
	Operators []string
	// Undecided: columnar operators gave up, and the engine evaluated all of the query after them.
	Undecided bool
	// Reading says what was selected and read.
	Reading readers.Figures
	// Planning, Selecting, Reading and Evaluating follow each other; ReadTime is the decoding of rows and the copy of
	// the head.
	PlanTime, SelectTime, ReadTime, EvaluateTime time.Duration
}

// engineAlone explains a query without columnar operators.
func engineAlone(took time.Duration) *Explain {
	return &Explain{Operators: []string{"engine"}, EvaluateTime: took}
}

func explainOf(q promql.Query, took time.Duration) *Explain {
	if h, ok := q.(*hybridQuery); ok {
		return &h.explain
	}
	return engineAlone(took)
}

func (e *Explain) fill(
	plan *columnar.Plan, run *columnar.Run, read readers.Figures, planning, total time.Duration,
) {
	e.Operators = plan.Operators()
	e.Reading = read
	e.PlanTime = planning
	e.SelectTime, e.ReadTime = run.Times()
	e.EvaluateTime = total - e.SelectTime - e.ReadTime
}

// String prints the tree and the figures.
func (e *Explain) String() string {
	var b strings.Builder
	for _, line := range e.Operators {
		b.WriteString(line + "\n")
	}
	if e.Undecided {
		b.WriteString("given up; evaluated by the engine\n")
	}
	fmt.Fprintf(&b, "series %d, rows read %d, used %d, samples %d\n",
		e.Reading.Series, e.Reading.Rows, e.Reading.RowsUsed, e.Reading.Samples)
	fmt.Fprintf(&b, "plan %s, select %s, read %s, evaluate %s\n", e.PlanTime, e.SelectTime, e.ReadTime, e.EvaluateTime)
	return b.String()
}
