package operator

import (
	"errors"
	"slices"
	"strings"

	"github.com/grafana/regexp"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"

	"halite/query/columnar/grid"
)

// namePartsMax is the number of parts into which the metrics of a selector are divided.
const namePartsMax = 64

// runByMetric runs the selector for one part of the metrics after another, and finally for series without a metric. This is
// the order of labels. If no label sorts before the metric's name, it is also the engine's order of groups.
func (n *instantSelector) runByMetric(ev *Eval, emit emitFunc) error {
	names, err := ev.Session.Metrics(ev.Context, n.windows(ev.Grid, ev.Opts.LookbackMs), n.matchers...)
	if err != nil {
		return err
	}
	check := func(s grid.Series, values []float64) error {
		if sortsBeforeName(s.Labels) {
			return ErrUndecided
		}
		return emit(s, values)
	}
	size := (len(names) + namePartsMax - 1) / namePartsMax
	for part := range slices.Chunk(names, max(1, size)) {
		if err := n.ofMetrics(part).Run(ev, check); err != nil {
			return err
		}
	}
	return n.ofMetrics([]string{""}).Run(ev, check)
}

// ofMetrics returns the selector restricted to some metrics.
func (n *instantSelector) ofMetrics(names []string) *instantSelector {
	one := *n
	one.needs = nil // numbers of groups are valid within one selection only
	m := labels.MustNewMatcher(labels.MatchEqual, model.MetricNameLabel, names[0])
	if len(names) > 1 {
		quoted := make([]string, len(names))
		for i, name := range names {
			quoted[i] = regexp.QuoteMeta(name)
		}
		m = labels.MustNewMatcher(labels.MatchRegexp, model.MetricNameLabel, strings.Join(quoted, "|"))
	}
	one.matchers = append(slices.Clone(n.matchers), m)
	return &one
}

var errStop = errors.New("stop")

func sortsBeforeName(ls labels.Labels) (before bool) {
	_ = ls.Validate(func(l labels.Label) error {
		before = l.Name < model.MetricNameLabel
		return errStop
	})
	return before
}
