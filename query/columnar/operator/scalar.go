package operator

import (
	"math"

	"github.com/prometheus/prometheus/promql/parser"

	"halite/query/columnar/grid"
)

// literal is a number.
type literal float64

func (n literal) values(ev *Eval) ([]float64, error) {
	return constantRow(ev.Grid.Steps, float64(n)), nil
}

func (n literal) Describe(*Description) {}

// clock evaluates time(), in seconds.
type clock struct{}

func (clock) values(ev *Eval) ([]float64, error) {
	row := make([]float64, ev.Grid.Steps)
	for k := range row {
		row[k] = float64(ev.Grid.At(k)) / 1000
	}
	return row, nil
}

func (clock) Describe(*Description) {}

// negation evaluates the unary minus of a scalar.
type negation struct{ child Scalar }

func (n negation) values(ev *Eval) ([]float64, error) {
	in, err := ev.Number(n.child)
	if err != nil {
		return nil, err
	}
	row := make([]float64, len(in))
	for k, v := range in {
		row[k] = -v
	}
	return row, nil
}

func (n negation) Describe(d *Description) { n.child.Describe(d) }

// scalarBinary evaluates an operation between two scalars.
type scalarBinary struct {
	left, right Scalar
	op          func(a, b float64) float64
}

func (n scalarBinary) values(ev *Eval) ([]float64, error) {
	left, err := ev.Number(n.left)
	if err != nil {
		return nil, err
	}
	right, err := ev.Number(n.right)
	if err != nil {
		return nil, err
	}
	row := make([]float64, len(left))
	for k := range row {
		row[k] = n.op(left[k], right[k])
	}
	return row, nil
}

func (n scalarBinary) Describe(d *Description) {
	n.left.Describe(d)
	n.right.Describe(d)
}

// scalarFunction evaluates scalar(): the value of the only series at a step, or NaN if the number of series is not one.
type scalarFunction struct{ child Vector }

func (n scalarFunction) values(ev *Eval) ([]float64, error) {
	before := ev.held
	row := make([]float64, ev.Grid.Steps)
	found := make([]bool, ev.Grid.Steps)
	for k := range row {
		row[k] = math.NaN()
	}
	series := 0
	err := n.child.Run(ev, func(_ grid.Series, values []float64) error {
		series++
		for k, v := range values {
			if grid.IsAbsent(v) {
				continue
			}
			if found[k] {
				v = math.NaN()
			}
			row[k], found[k] = v, true
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if err := ev.account(len(row) + series + 1); err != nil {
		return nil, err
	}
	return row, ev.replace(before, len(row))
}

func (n scalarFunction) Describe(d *Description) { d.Node("scalar", n.child) }

// arithmetic returns the function of an operator, or nil if it is not arithmetic.
func arithmetic(op parser.ItemType) func(a, b float64) float64 {
	switch op {
	case parser.ADD:
		return func(a, b float64) float64 { return a + b }
	case parser.SUB:
		return func(a, b float64) float64 { return a - b }
	case parser.MUL:
		return func(a, b float64) float64 { return a * b }
	case parser.DIV:
		return func(a, b float64) float64 { return a / b }
	case parser.POW:
		return math.Pow
	case parser.MOD:
		return math.Mod
	case parser.ATAN2:
		return math.Atan2
	}
	return nil
}

// comparison returns the function of an operator, or nil if it is not a comparison.
func comparison(op parser.ItemType) func(a, b float64) bool {
	switch op {
	case parser.EQLC:
		return func(a, b float64) bool { return a == b }
	case parser.NEQ:
		return func(a, b float64) bool { return a != b }
	case parser.GTR:
		return func(a, b float64) bool { return a > b }
	case parser.LSS:
		return func(a, b float64) bool { return a < b }
	case parser.GTE:
		return func(a, b float64) bool { return a >= b }
	case parser.LTE:
		return func(a, b float64) bool { return a <= b }
	}
	return nil
}

func truth(ok bool) float64 {
	if ok {
		return 1
	}
	return 0
}

// scalarOperation returns the function of an operator between two scalars. Comparisons return 0 or 1.
func scalarOperation(op parser.ItemType) func(a, b float64) float64 {
	if f := arithmetic(op); f != nil {
		return f
	}
	if compare := comparison(op); compare != nil {
		return func(a, b float64) float64 { return truth(compare(a, b)) }
	}
	return nil
}
