package fleet

import "math"

// Unit generates the values of one unit, step by step.
type Unit struct {
	f      *Fleet
	number int
	gen    int
	next   int
	specs  []spec
	load   float64 // mean load, about 1
	phase  float64 // of its daily cycle
	seed   uint64

	state  []float64
	since  []float64 // start of the host (index 0) and of its services, in seconds
	demand []float64 // requests of each service in this step
	values []float64
}

// Unit returns unit u before its first step.
func (f *Fleet) Unit(u int) *Unit {
	specs := f.specs(u)
	unit := &Unit{
		f: f, number: u, specs: specs, state: make([]float64, len(specs)), values: make([]float64, len(specs)),
		since: make([]float64, f.opts.Services+1), demand: make([]float64, f.opts.Services+1),
	}
	unit.start(0)
	return unit
}

// start replaces the unit by a new one.
func (u *Unit) start(gen int) {
	u.gen = gen
	u.seed = Mix(u.f.opts.Seed^saltUnit, uint64(u.number), uint64(gen))
	u.load = 0.4 + 1.2*Unit01(Mix(u.seed, 0, 1))
	u.phase = 2 * math.Pi * Unit01(Mix(u.seed, 0, 2))
	for i := range u.since {
		u.since[i] = u.now() - math.Floor(1e6*Unit01(Mix(u.seed, uint64(i), 3)))
	}
	for i := range u.specs {
		s := &u.specs[i]
		r := Unit01(Mix(u.seed, uint64(i), 4))
		age := u.now() - u.since[s.service+1]
		switch s.shape {
		case counter:
			u.state[i] = math.Floor(s.rate * u.load * age * (0.9 + 0.2*r))
		case gauge:
			u.state[i] = math.Floor(s.level * (0.7 + 0.6*r))
		default:
			u.state[i] = s.level
		}
	}
}

// now returns the time of the next step. The offset of 1.7 billion makes it look like Unix seconds.
func (u *Unit) now() float64 { return 1.7e9 + math.Floor(float64(u.next)*u.f.opts.StepSeconds) }

// Generation returns how often the unit was replaced up to its last step.
func (u *Unit) Generation() int { return u.gen }

// Series returns the unit's series at its last step, in the order of the values.
func (u *Unit) Series() []Series { return u.f.series(u.number, u.gen, u.specs) }

// Step takes the next step and returns one value for each series. If renewed is true, the unit was replaced and has other
// series than before. The values are valid until the next call.
func (u *Unit) Step() (values []float64, renewed bool) {
	step := u.next
	if renewed = u.f.Renewed(u.number, step); renewed {
		u.start(u.gen + 1)
	}
	u.restart(step)
	u.next++
	seconds := u.f.opts.StepSeconds
	busy := u.load * (1 + 0.35*math.Sin(u.phase+2*math.Pi*float64(step)*seconds/86400))
	mixed := Mix(u.seed^saltStep, uint64(step), 0)
	for i := range u.demand {
		u.demand[i] = math.Floor(40 * busy * seconds * (0.6 + 0.8*Unit01(Mix(mixed, uint64(i), 1))))
	}
	for i := range u.specs {
		u.values[i] = u.nextValue(i, busy, Mix(mixed, uint64(i), 2))
	}
	return u.values, renewed
}

// restart reboots the host about every three days and restarts each service about every six hours.
func (u *Unit) restart(step int) {
	for i := range u.since {
		mean := 6 * 3600.0
		if i == 0 {
			mean = 72 * 3600
		}
		if Unit01(Mix(u.seed^saltRestart, uint64(step), uint64(i)))*mean >= u.f.opts.StepSeconds || step == 0 {
			continue
		}
		u.since[i] = u.now()
		for j := range u.specs {
			s := &u.specs[j]
			if (s.service == i-1 || i == 0) && (s.shape == counter || s.shape == bucket || s.shape == sum) {
				u.state[j] = 0
			}
		}
	}
}

// nextValue returns the value of series i at the next step. r is random.
func (u *Unit) nextValue(i int, busy float64, r uint64) float64 {
	s := &u.specs[i]
	x := Unit01(r)
	switch s.shape {
	case counter:
		u.state[i] += math.Floor(s.rate * busy * u.f.opts.StepSeconds * (0.6 + 0.8*x))
	case bucket:
		u.state[i] += math.Floor(u.demand[s.service+1] * s.rate)
	case sum:
		u.state[i] += u.demand[s.service+1] * s.rate * (0.8 + 0.4*x)
	case gauge:
		u.state[i] = math.Abs(math.Floor(u.state[i] + s.rate*(2*x-1)*2 + (s.level-u.state[i])*0.03))
	case mantissa:
		return s.level / s.per * busy * (0.7 + 0.6*x)
	case rare:
		if r%1000 == 0 {
			u.state[i] = s.level + s.rate*float64(r>>32%5)
		}
	case started:
		return u.since[s.service+1]
	}
	return u.state[i] / s.per
}

// Rewritten returns the value of the second write of a sample whose first value is v. It differs from v, is close to it
// and has the same number of decimals.
func (f *Fleet) Rewritten(slot, step int, v float64) float64 {
	w := v + float64(1+Mix(f.opts.Seed^saltRewrite, uint64(slot), uint64(step))%3)
	if w == v { // v is too large for a step of 1
		return math.Nextafter(v, math.Inf(1))
	}
	return w
}
