package operator

import (
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"

	"halite/query/columnar/grid"
)

// absentFunction evaluates absent and absent_over_time: 1 at the steps at which the operand has no series.
type absentFunction struct {
	name   string
	child  Vector
	labels labels.Labels
	// overTime distinguishes absent_over_time from absent.
	overTime bool
}

func (n *absentFunction) names() grid.Naming { return grid.Nameless }

func (n *absentFunction) Describe(d *Description) { d.Node(n.name, n.child) }

func (n *absentFunction) Run(ev *Eval, emit emitFunc) error {
	before := ev.held
	row := constantRow(ev.Grid.Steps, 1)
	series := 0
	err := n.child.Run(ev, func(_ grid.Series, values []float64) error {
		series++
		for k, v := range values {
			if !grid.IsAbsent(v) {
				row[k] = grid.Absent()
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	present := grid.Count(row)
	if err := ev.account(present + series + 1); err != nil {
		return err
	}
	if n.overTime {
		before = ev.held // the engine still holds the series of the operand
	}
	if err := ev.replace(before, present); err != nil || present == 0 {
		return err
	}
	return emit(grid.Series{Labels: n.labels}, row)
}

// labelsOfAbsent returns the labels for which the matchers require one value.
func labelsOfAbsent(matchers []*labels.Matcher) labels.Labels {
	b := labels.NewBuilder(labels.EmptyLabels())
	seen := map[string]bool{}
	for _, m := range matchers {
		switch {
		case m.Name == model.MetricNameLabel:
		case m.Type == labels.MatchEqual && !seen[m.Name]:
			b.Set(m.Name, m.Value)
			seen[m.Name] = true
		default:
			b.Del(m.Name)
		}
	}
	return b.Labels()
}
