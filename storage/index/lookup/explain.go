package lookup

import (
	"context"

	"github.com/prometheus/prometheus/model/labels"
)

// Answer is what a look-up returns.
type Answer uint8

// The answers of look-ups: series, the names of their labels, or the values of one label.
const (
	AnswerSeries Answer = iota
	AnswerNames
	AnswerValues
)

// Explain looks up series like Select, LabelNames or LabelValues, and returns the work instead of the answer. label is the
// label of AnswerValues.
func (x *Reader) Explain(
	ctx context.Context, budget Budget, answer Answer, label string, mintMs, maxtMs int64, matchers ...*labels.Matcher,
) (Work, error) {
	q, ok := x.newQuery(ctx, budget, mintMs, maxtMs, matchers)
	if !ok {
		return Work{}, ctx.Err()
	}
	found, err := q.answer(answer, label)
	q.work.Found = found
	return q.work, err
}

// answer returns the length of an answer.
func (q *query) answer(answer Answer, label string) (int, error) {
	switch answer {
	case AnswerNames:
		n := labelNameScan{q: q, names: map[string]bool{}}
		err := n.run()
		return len(n.names), err
	case AnswerValues:
		s := labelValueScan{q: q, name: label}
		err := s.run()
		return len(s.values), err
	}
	c := newCollector(q)
	defer c.close()
	found, err := c.run()
	return len(found), err
}
