package rowcache

// prefetchSeries is the number of series whose slots are prefetched before the first of them is looked up.
const prefetchSeries = 64

// prefetchMax is the number of words that are fetched side by side.
const prefetchMax = 2 * prefetchSeries

// prefetch gathers words that are needed soon, and reads them in a loop that does nothing else. The processor then has as many
// reads in flight as it can; with other work between them it would have fewer.
type prefetch struct {
	words [prefetchMax]*uint64
	n     int
	// touched keeps the compiler from removing the reads.
	touched uint64
}

// add gathers a word, and reads all words when there are many.
func (a *prefetch) add(word *uint64) {
	if a.n == prefetchMax {
		a.read()
	}
	a.words[a.n] = word
	a.n++
}

// read reads the words gathered.
func (a *prefetch) read() {
	sum := a.touched
	for _, word := range a.words[:a.n] {
		sum += *word
	}
	a.touched, a.n = sum, 0
}
