package lookup

import (
	"context"

	"github.com/prometheus/prometheus/model/labels"
)

// ResultKind is the kind of result that a look-up returns.
type ResultKind uint8

// Kinds of results: series, the names of their labels, or the values of one label.
const (
	ResultSeries ResultKind = iota
	ResultNames
	ResultValues
)

// Explain looks up series like Select, LabelNames or LabelValues, and returns the work instead of the result. label is the
// label of ResultValues.
func (x *Reader) Explain(
	ctx context.Context, budget Budget, kind ResultKind, label string, mintMs, maxtMs int64, matchers ...*labels.Matcher,
) (Work, error) {
	q, ok := x.newQuery(ctx, budget, mintMs, maxtMs, matchers)
	if !ok {
		return Work{}, ctx.Err()
	}
	found, err := q.resultLength(kind, label)
	q.work.Found = found
	return q.work, err
}

// resultLength runs the look-up and returns the length of its result.
func (q *query) resultLength(kind ResultKind, label string) (int, error) {
	switch kind {
	case ResultNames:
		n := labelNameScan{q: q, names: map[string]bool{}}
		err := n.run()
		return len(n.names), err
	case ResultValues:
		s := labelValueScan{q: q, name: label}
		err := s.run()
		return len(s.values), err
	}
	c := newCollector(q)
	defer c.close()
	found, err := c.run()
	return len(found), err
}
