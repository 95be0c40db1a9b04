package operator

import (
	"github.com/grafana/regexp"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/schema"

	"halite/query/columnar/grid"
)

// relabel evaluates label_replace and label_join: new labels for each series.
type relabel struct {
	name  string
	child Vector
	dst   string
	// value returns the new value of the label dst; ok is false if the series stays unchanged.
	value func(ls labels.Labels) (v string, ok bool)
}

func (n *relabel) names() grid.Naming {
	if schema.IsMetadataLabel(n.dst) {
		return grid.AnyName
	}
	return n.child.names()
}

func (n *relabel) Describe(d *Description) { d.Node(n.name, n.child) }

func (n *relabel) Run(ev *Eval, emit emitFunc) error {
	unique := NewDuplicateCheck(grid.AnyName)
	b := labels.NewBuilder(labels.EmptyLabels())
	return n.child.Run(ev, func(s grid.Series, values []float64) error {
		s = ev.Metric(s)
		if v, ok := n.value(s.Labels); ok {
			b.Reset(s.Labels)
			b.Set(n.dst, v)
			s.Labels = b.Labels()
			// The new labels live as long as the result, and are longer than the original labels.
			if err := ev.Budget.Reserve(int64(s.Labels.ByteSize())); err != nil {
				return err
			}
			s.Dropped = s.Dropped && n.dst != model.MetricNameLabel
		}
		if err := unique.Add(s); err != nil {
			return err
		}
		return emit(s, values)
	})
}

// replacement returns the value that label_replace sets.
func replacement(pattern *regexp.Regexp, template, src string) func(labels.Labels) (string, bool) {
	return func(ls labels.Labels) (string, bool) {
		v := ls.Get(src)
		found := pattern.FindStringSubmatchIndex(v)
		if found == nil {
			return "", false
		}
		return string(pattern.ExpandString(nil, template, v, found)), true
	}
}
