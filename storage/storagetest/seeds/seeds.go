package seeds

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"
)

// Default is the number of seeds that a test runs if the environment does not set it.
type Default struct {
	Full  uint64 // without -short
	Short uint64 // with -short, as under the race detector, which makes tests about ten times slower
}

// Range returns the first seed and the number of seeds to run. It fails the test if the environment holds no numbers.
func Range(t testing.TB, d Default) (first, count uint64) {
	t.Helper()
	return rangeFrom(t, 1, d)
}

// New is Range for a test that runs new seeds each time. A failed test logs the first one.
func New(t testing.TB, d Default) (first, count uint64) {
	t.Helper()
	first, count = rangeFrom(t, rand.Uint64(), d)
	logFailed(t, first)
	return first, count
}

func rangeFrom(t testing.TB, otherwise uint64, d Default) (first, count uint64) {
	t.Helper()
	count = d.Full
	if testing.Short() {
		count = d.Short
	}
	first, replay := number(t, "HALITE_SEED", otherwise)
	if replay {
		count = 1
	}
	count, _ = number(t, "HALITE_SEEDS", count)
	return first, count
}

// logFailed logs the seed of a test if the test fails.
func logFailed(t testing.TB, seed uint64) {
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("repeat with HALITE_SEED=%d", seed)
		}
	})
}

// Asked reports whether HALITE_SEEDS sets the number of seeds. Then tests run all cases instead of a sample.
func Asked() bool { return os.Getenv("HALITE_SEEDS") != "" }

// Number returns the number in an environment variable, such as HALITE_CASES, or otherwise if it is not set. It fails the test
// if the variable holds no number.
func Number(t testing.TB, name string, otherwise uint64) uint64 {
	t.Helper()
	n, _ := number(t, name, otherwise)
	return n
}

func number(t testing.TB, name string, otherwise uint64) (n uint64, set bool) {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise, false
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s=%q is not a number: %v", name, text, err)
	}
	return n, true
}

// Rand returns a random source with a new seed each time, or with the seed of HALITE_SEED. A failed test logs its seed. Tests
// that need different numbers for one seed pass different streams.
func Rand(t testing.TB, stream uint64) *rand.Rand {
	t.Helper()
	seed, _ := number(t, "HALITE_SEED", uint64(time.Now().UnixNano()))
	logFailed(t, seed)
	return rand.New(rand.NewPCG(seed, stream))
}
