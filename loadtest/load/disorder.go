package load

import "halite/loadtest/fleet"

// Order says in which order a sample is sent relative to others of its series.
type Order uint8

// Values of Order.
const (
	InOrder Order = iota
	OutOfOrder
	Late
	Rewritten // in order, then again with another value
)

// Disorder chooses the Order of every sample. It depends on the seed alone, so that the verification can repeat it.
type Disorder struct {
	seed                        uint64
	outOfOrder, late, rewritten float64 // shares, 0 to 1
	lateMs                      float64
}

// NewDisorder returns the disorder of a load.
func NewDisorder(o *Options) Disorder {
	return Disorder{
		seed: o.Fleet.Seed ^ 0x5851f42d4c957f2d, outOfOrder: o.OutOfOrderPercent / 100, late: o.LatePercent / 100,
		rewritten: o.RewrittenPercent / 100, lateMs: float64(o.LateBy.Milliseconds()),
	}
}

// At returns the order of a sample and the delay, in milliseconds, of the sample or of its second write.
func (d *Disorder) At(slot, step int) (order Order, delayMs int64) {
	if d.outOfOrder+d.late+d.rewritten == 0 {
		return InOrder, 0
	}
	r := fleet.Mix(d.seed, uint64(slot), uint64(step))
	x := fleet.Unit01(r)
	delayMs = int64(d.lateMs*(0.5+fleet.Unit01(fleet.Mix(r, 1, 2)))) + 1
	switch {
	case x < d.late:
		return Late, delayMs
	case x < d.late+d.rewritten:
		return Rewritten, delayMs
	case x < d.late+d.rewritten+d.outOfOrder:
		return OutOfOrder, 1 // due just after the next sample of its series
	}
	return InOrder, 0
}

// Seed returns the seed of the disorder.
func (d *Disorder) Seed() uint64 { return d.seed }
