package partition

import (
	"hash/maphash"
	"math/bits"
	"sync"
)

// stripeCount is the number of row locks of a table; one bit each of a StripeSet.
const stripeCount = 64

type StripeSet uint64

const AllStripes = StripeSet(^uint64(0))

// RowLocks are a table's row locks. A write that reads nothing shares the stripes of its rows; one that reads first has
// them for itself, from before the read until its batch is visible. So nothing it decided upon can change meanwhile,
// and plain writes never wait for one another.
type RowLocks struct {
	seed    maphash.Seed
	stripes [stripeCount]sync.RWMutex
}

func NewRowLocks() *RowLocks { return &RowLocks{seed: maphash.MakeSeed()} }

func (l *RowLocks) StripeOf(key []byte) StripeSet {
	return 1 << (maphash.Bytes(l.seed, key) % stripeCount)
}

// Lock takes the exclusive side of some stripes and the shared side of others, in ascending order so that no two
// callers wait for each other, and returns what gives them back.
func (l *RowLocks) Lock(exclusive, shared StripeSet) (unlock func()) {
	shared &^= exclusive
	for rest := uint64(exclusive | shared); rest != 0; rest &= rest - 1 {
		i := bits.TrailingZeros64(rest)
		if exclusive&(1<<i) != 0 {
			l.stripes[i].Lock()
		} else {
			l.stripes[i].RLock()
		}
	}
	return func() {
		for rest := uint64(exclusive | shared); rest != 0; rest &= rest - 1 {
			i := bits.TrailingZeros64(rest)
			if exclusive&(1<<i) != 0 {
				l.stripes[i].Unlock()
			} else {
				l.stripes[i].RUnlock()
			}
		}
	}
}
