package pebble

import (
	"hash/maphash"
	"math/bits"
	"sync"
)

// stripeCount is the number of row locks of a table; one bit each of a stripeSet.
const stripeCount = 64

type stripeSet uint64

const allStripes = stripeSet(^uint64(0))

// rowLocks are a table's row locks. A write that reads nothing shares the stripes of its rows; one that reads first has
// them for itself, from before the read until its batch is visible. So nothing it decided upon can change meanwhile,
// and plain writes never wait for one another.
type rowLocks struct {
	seed    maphash.Seed
	stripes [stripeCount]sync.RWMutex
}

func newRowLocks() *rowLocks { return &rowLocks{seed: maphash.MakeSeed()} }

func (l *rowLocks) stripeOf(key []byte) stripeSet {
	return 1 << (maphash.Bytes(l.seed, key) % stripeCount)
}

// lock takes the exclusive side of some stripes and the shared side of others, in ascending order so that no two
// callers wait for each other, and returns what gives them back.
func (l *rowLocks) lock(exclusive, shared stripeSet) (unlock func()) {
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
