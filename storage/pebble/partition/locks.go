package partition

import (
	"hash/maphash"
	"math/bits"
	"sync"
)

// stripeCount is the number of row locks of a table: one for each bit of a StripeSet.
const stripeCount = 64

type StripeSet uint64

const AllStripes = StripeSet(^uint64(0))

// RowLocks are a table's row locks. A write that does not read shares the stripes of its rows. A write that reads first
// holds them exclusively, from before the read until its batch is visible. So a row does not change between such a read and
// its write, and plain writes never wait for each other.
type RowLocks struct {
	seed    maphash.Seed
	stripes [stripeCount]sync.RWMutex
}

func NewRowLocks() *RowLocks { return &RowLocks{seed: maphash.MakeSeed()} }

func (l *RowLocks) StripeOf(key []byte) StripeSet {
	return 1 << (maphash.Bytes(l.seed, key) % stripeCount)
}

// Lock locks some stripes exclusively and others shared, and returns a function that unlocks them. It locks in ascending
// order, so that no two callers wait for each other.
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
