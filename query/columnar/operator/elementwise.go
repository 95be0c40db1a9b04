package operator

import (
	"math"
	"time"

	"halite/query/columnar/grid"
)

// valueFunction applies a function to each value and drops the metric name. args are the scalar arguments after the vector.
type valueFunction struct {
	name  string
	child Vector
	args  []Scalar
	// prepare takes one row for each argument and returns the function of value and step, or nil to drop all values.
	prepare func(ev *Eval, args [][]float64) func(v float64, k int) float64
}

func (n *valueFunction) names() grid.Naming { return grid.Nameless }

func (n *valueFunction) Describe(d *Description) {
	d.Node(n.name, n.child)
	for _, a := range n.args {
		a.Describe(d)
	}
}

func (n *valueFunction) Run(ev *Eval, emit emitFunc) error {
	args, annos, err := ev.scalars(n.args)
	if err != nil {
		return err
	}
	f := n.prepare(ev, args)
	unique := NewDuplicateCheck(n.child.names())
	err = n.child.Run(ev, func(s grid.Series, values []float64) error {
		for k, v := range values {
			if !grid.IsAbsent(v) {
				values[k] = f(v, k)
			}
		}
		present := grid.Count(values)
		if err := ev.account(present + 1); err != nil || present == 0 {
			return err
		}
		s.Dropped = true
		if err := unique.check(ev, s); err != nil {
			return err
		}
		return emit(s, values)
	})
	ev.Annotations.Merge(annos)
	return err
}

// simple returns the prepare function for a function that only depends on the value.
func simple(f func(float64) float64) func(*Eval, [][]float64) func(float64, int) float64 {
	return func(*Eval, [][]float64) func(float64, int) float64 {
		return func(v float64, _ int) float64 { return f(v) }
	}
}

// stepTime evaluates timestamp() of operands other than selectors: the time of the step.
func stepTime(ev *Eval, _ [][]float64) func(float64, int) float64 {
	return func(_ float64, k int) float64 { return float64(ev.Grid.At(k)) / 1000 }
}

func clampMin(_ *Eval, args [][]float64) func(float64, int) float64 {
	return func(v float64, k int) float64 { return math.Max(args[0][k], math.Min(math.Inf(+1), v)) }
}

func clampMax(_ *Eval, args [][]float64) func(float64, int) float64 {
	return func(v float64, k int) float64 { return math.Max(math.Inf(-1), math.Min(args[0][k], v)) }
}

func clamp(_ *Eval, args [][]float64) func(float64, int) float64 {
	return func(v float64, k int) float64 {
		if args[1][k] < args[0][k] {
			return grid.Absent()
		}
		return math.Max(args[0][k], math.Min(args[1][k], v))
	}
}

func round(_ *Eval, args [][]float64) func(float64, int) float64 {
	return func(v float64, k int) float64 {
		inverse := 1.0
		if len(args) > 0 {
			inverse = 1.0 / args[0][k]
		}
		return math.Floor(v*inverse+0.5) / inverse
	}
}

// simpleFunctions are the functions of one value. They drop the name.
func simpleFunctions(name string) func(float64) float64 {
	switch name {
	case "abs":
		return func(v float64) float64 { return grid.Present(math.Abs(v)) }
	case "ceil":
		return math.Ceil
	case "floor":
		return math.Floor
	case "exp":
		return math.Exp
	case "sqrt":
		return math.Sqrt
	case "ln":
		return math.Log
	case "log2":
		return math.Log2
	case "log10":
		return math.Log10
	case "sgn":
		return sign
	case "rad":
		return func(v float64) float64 { return v * math.Pi / 180 }
	case "deg":
		return func(v float64) float64 { return v * 180 / math.Pi }
	}
	if f := dateFunction(name); f != nil {
		return func(v float64) float64 { return f(time.Unix(int64(v), 0).UTC()) }
	}
	return trigonometric(name)
}

func trigonometric(name string) func(float64) float64 {
	switch name {
	case "acos":
		return math.Acos
	case "acosh":
		return math.Acosh
	case "asin":
		return math.Asin
	case "asinh":
		return math.Asinh
	case "atan":
		return math.Atan
	case "atanh":
		return math.Atanh
	case "cos":
		return math.Cos
	case "cosh":
		return math.Cosh
	case "sin":
		return math.Sin
	case "sinh":
		return math.Sinh
	case "tan":
		return math.Tan
	case "tanh":
		return math.Tanh
	}
	return nil
}

func sign(v float64) float64 {
	switch {
	case v < 0:
		return -1
	case v > 0:
		return 1
	}
	return v
}

// dateFunction returns the named function of a time in UTC, or nil.
func dateFunction(name string) func(t time.Time) float64 {
	switch name {
	case "minute":
		return func(t time.Time) float64 { return float64(t.Minute()) }
	case "hour":
		return func(t time.Time) float64 { return float64(t.Hour()) }
	case "day_of_week":
		return func(t time.Time) float64 { return float64(t.Weekday()) }
	case "day_of_month":
		return func(t time.Time) float64 { return float64(t.Day()) }
	case "day_of_year":
		return func(t time.Time) float64 { return float64(t.YearDay()) }
	case "days_in_month":
		return func(t time.Time) float64 {
			return float64(time.Date(t.Year(), t.Month()+1, 0, 0, 0, 0, 0, time.UTC).Day())
		}
	case "month":
		return func(t time.Time) float64 { return float64(t.Month()) }
	case "year":
		return func(t time.Time) float64 { return float64(t.Year()) }
	}
	return nil
}

// withScalar evaluates an operation between a vector and a scalar.
type withScalar struct {
	child  Vector
	number Scalar
	op     string
	// One of the two is set. The operands are in the order of the expression.
	arithmetic func(a, b float64) float64
	compare    func(a, b float64) bool
	// scalarLeft means that the scalar is the left operand. asBool means that comparisons return 0 or 1 instead of filtering.
	scalarLeft, asBool bool
}

func (n *withScalar) drops() bool { return n.arithmetic != nil || n.asBool }

func (n *withScalar) names() grid.Naming {
	if n.drops() {
		return grid.Nameless
	}
	return n.child.names()
}

func (n *withScalar) Describe(d *Description) {
	d.Node(n.op+" scalar", n.child)
	n.number.Describe(d)
}

func (n *withScalar) Run(ev *Eval, emit emitFunc) error {
	number, annos, err := ev.scalars([]Scalar{n.number})
	if err != nil {
		return err
	}
	if n.scalarLeft {
		// A scalar on the left is also evaluated first.
		ev.Annotations.Merge(annos)
	}
	unique := NewDuplicateCheck(n.child.names())
	err = n.child.Run(ev, func(s grid.Series, values []float64) error {
		n.apply(values, number[0])
		present := grid.Count(values)
		if err := ev.account(present + 1); err != nil || present == 0 {
			return err
		}
		if n.drops() {
			s.Dropped = true
			if err := unique.check(ev, s); err != nil {
				return err
			}
		}
		return emit(s, values)
	})
	if !n.scalarLeft {
		ev.Annotations.Merge(annos)
	}
	return err
}

func (n *withScalar) apply(values, number []float64) {
	for k, v := range values {
		if grid.IsAbsent(v) {
			continue
		}
		a, b := v, number[k]
		if n.scalarLeft {
			a, b = b, a
		}
		switch {
		case n.arithmetic != nil:
			values[k] = n.arithmetic(a, b)
		case n.asBool:
			values[k] = truth(n.compare(a, b))
		case !n.compare(a, b):
			values[k] = grid.Absent()
		}
	}
}

// vectorFunction evaluates vector().
type vectorFunction struct{ child Scalar }

func (n vectorFunction) names() grid.Naming { return grid.Nameless }

func (n vectorFunction) Describe(d *Description) { n.child.Describe(d) }

func (n vectorFunction) Run(ev *Eval, emit emitFunc) error {
	values, err := ev.Number(n.child)
	if err != nil {
		return err
	}
	if err := ev.account(len(values) + 1); err != nil {
		return err
	}
	row := make([]float64, len(values))
	copy(row, values)
	return emit(grid.Series{}, row)
}
