package rowcache

// prefetchSeries is the number of series whose slots are prefetched together, before their look-ups.
const prefetchSeries = 64

// prefetchMax is the number of words that one loop reads.
const prefetchMax = 2 * prefetchSeries

// prefetch collects words that are needed soon, and reads them in a loop without other work. So the processor has the
// largest possible number of reads in flight.
type prefetch struct {
	words [prefetchMax]*uint64
	n     int
	// touched keeps the compiler from removing the reads.
	touched uint64
}

// add collects a word. It reads all words once there are prefetchMax.
func (a *prefetch) add(word *uint64) {
	if a.n == prefetchMax {
		a.read()
	}
	a.words[a.n] = word
	a.n++
}

// read reads the collected words.
func (a *prefetch) read() {
	sum := a.touched
	for _, word := range a.words[:a.n] {
		sum += *word
	}
	a.touched, a.n = sum, 0
}
