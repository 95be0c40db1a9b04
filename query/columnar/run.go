package columnar

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/util/annotations"
	"github.com/prometheus/prometheus/util/stats"

	"halite/query/columnar/grid"
	"halite/query/columnar/operator"
	"halite/query/read"
	"halite/query/read/rollups"
)

// Run is one evaluation of a plan over a session.
type Run struct {
	plan  *Plan
	state operator.State
	eval  *operator.Eval
}

// Begin prepares the evaluation of a plan. states is nil if there are no rollups.
func (p *Plan) Begin(ctx context.Context, s *read.Session, states *rollups.Session) *Run {
	r := &Run{plan: p, state: operator.State{Context: ctx, Session: s, Budget: s.Budget(), Rollups: states, Opts: p.opts}}
	r.state.Opts.Concurrency = s.Concurrency(p.opts.Concurrency)
	r.eval = operator.NewEval(&r.state, p.grid)
	return r
}

// Instant evaluates a whole plan at its only step.
func (r *Run) Instant() (value parser.Value, annos annotations.Annotations, err error) {
	defer operator.Catch(&err)
	if r.plan.scalar != nil {
		values, err := r.eval.Number(r.plan.scalar)
		if err != nil {
			return nil, r.state.Annotations, err
		}
		return promql.Scalar{T: r.plan.grid.StartMs, V: values[0]}, r.state.Annotations, nil
	}
	out := promql.Vector{}
	unique := operator.NewDuplicateCheck(grid.AnyName)
	err = r.plan.vector.Run(r.eval, func(s grid.Series, values []float64) error {
		ls, err := r.finalLabels(s, unique)
		if err != nil {
			return err
		}
		out = append(out, promql.Sample{Metric: ls, T: r.plan.grid.StartMs, F: values[0]})
		return nil
	})
	if err != nil {
		return nil, r.state.Annotations, err
	}
	return out, r.state.Annotations, nil
}

// Range evaluates a whole plan at all steps. Series are sorted by labels.
func (r *Run) Range() (out promql.Matrix, annos annotations.Annotations, err error) {
	defer operator.Catch(&err)
	out = promql.Matrix{}
	unique := operator.NewDuplicateCheck(grid.AnyName)
	add := func(s grid.Series, values []float64) error {
		ls, err := r.finalLabels(s, unique)
		if err != nil {
			return err
		}
		points, err := r.points(values)
		if err != nil {
			return err
		}
		out = append(out, promql.Series{Metric: ls, Floats: points})
		return nil
	}
	if r.plan.scalar != nil {
		err = r.addScalar(add)
	} else {
		err = r.plan.vector.Run(r.eval, add)
	}
	if err != nil {
		return nil, r.state.Annotations, err
	}
	slices.SortFunc(out, func(a, b promql.Series) int { return labels.Compare(a.Metric, b.Metric) })
	return out, r.state.Annotations, nil
}

// addScalar calls add with the values of a scalar plan.
func (r *Run) addScalar(add func(grid.Series, []float64) error) error {
	values, err := r.eval.Number(r.plan.scalar)
	if err != nil {
		return err
	}
	return add(grid.Series{}, values)
}

// pointBytes is the memory of a point of a result.
const pointBytes = 16

func (r *Run) points(values []float64) ([]promql.FPoint, error) {
	n := grid.Count(values)
	if err := r.state.Budget.Reserve(int64(n) * pointBytes); err != nil {
		return nil, err
	}
	points := make([]promql.FPoint, 0, n)
	for k, v := range values {
		if !grid.IsAbsent(v) {
			points = append(points, promql.FPoint{T: r.plan.grid.At(k), F: v})
		}
	}
	return points, nil
}

// finalLabels returns the labels of a series of the result. Delayed dropping of names may make some label sets equal.
func (r *Run) finalLabels(s grid.Series, unique *operator.DuplicateCheck) (labels.Labels, error) {
	if s.Dropped {
		s.Labels = grid.DropNames(s.Labels)
	}
	if r.state.Opts.DelayedNames {
		return s.Labels, unique.Add(s)
	}
	return s.Labels, nil
}

// CountSamples adds the samples of the run to the statistics of a query. The caller has set up their step tracking. Then
// the statistics count the read samples, without the delegated points that the engine counted.
func (r *Run) CountSamples(to *stats.QuerySamples) {
	total, fresh := r.eval.Counts()
	for k := range total {
		to.IncrementSamplesAtStep(k, total[k])
		to.IncrementSamplesReadAtStep(k, fresh[k])
	}
	to.UpdatePeak(r.state.Peak)
}

// PeakSamples returns the largest number of samples held at once, or slightly more.
func (r *Run) PeakSamples() int { return r.state.Peak }

// Typed reports whether series with the labels __type__ or __unit__ were selected. Then dropping names may make series equal
// although all have one name. The engine looks for such series over the whole range.
func (r *Run) Typed() bool { return r.state.Typed }

// Times returns the time that the run spent finding series and reading samples. The rest of its time was evaluation.
func (r *Run) Times() (selecting, reading time.Duration) { return r.state.Selecting, r.state.Reading }

// Undecided reports whether an error means that the engine must evaluate the query.
func Undecided(err error) bool { return errors.Is(err, operator.ErrUndecided) }
