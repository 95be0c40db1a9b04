package index

import (
	"fmt"
	"testing"
	"time"

	"halite/storage/storagetest/seeds"
)

// seedCount returns the number of seeds of a random test. HALITE_SEEDS replaces it, and -short divides it by three.
func seedCount(t testing.TB, otherwise uint64) uint64 {
	_, count := seeds.Range(t, seeds.Default{Full: otherwise, Short: (otherwise + 3) / 4})
	return count
}

// TestAgainstOracle runs random touches, persists, compactions, crashes, retirements and rebuilds over several days. It
// compares every look-up with a naive map, hour by hour.
func TestAgainstOracle(t *testing.T) {
	for seed := range seedCount(t, 8) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, seed)
			for range 150 {
				w.step()
				w.check()
			}
		})
	}
}

// step does one random thing.
func (w *world) step() {
	op := w.rng.IntN(16)
	w.t.Logf("op %d at hour %d", op, w.hourNow())
	switch op {
	case 0, 1, 2, 3, 4, 5:
		w.touchSome()
	case 6, 7:
		w.persist()
	case 8, 9:
		w.advance(time.Duration(w.rng.IntN(8)) * time.Hour)
	case 10:
		w.advance(31 * time.Minute)
		w.maintain()
	case 11:
		w.persist()
		w.reopen()
	case 12:
		w.reopen()
	case 13:
		w.retire()
	case 14:
		w.rebuild()
	case 15:
		w.failSome()
	}
}

// failSome fails a persist or a compaction after some Applies, and continues in the same process or after a crash.
func (w *world) failSome() {
	w.store.budget.Store(int64(w.rng.IntN(12)))
	w.store.after = w.rng.IntN(2) == 0
	for range 3 {
		w.advance(31 * time.Minute)
		if w.rng.IntN(2) == 0 {
			w.persist()
		} else {
			w.maintain()
		}
	}
	w.store.budget.Store(1 << 60)
	if w.rng.IntN(2) == 0 {
		w.reopen()
	}
}
