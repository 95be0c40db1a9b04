package promql

// aheadMax is the number of words that are fetched side by side.
const aheadMax = 2 * searchAhead

// ahead is words that are about to be needed and lie anywhere in memory. They are gathered first and then read in a loop
// that does nothing else: so the processor has as many of these reads under way as it can, where it would soon run out of
// room for all the work between them.
type ahead struct {
	words [aheadMax]*uint64
	n     int
	// touched keeps the compiler from leaving out what is read.
	touched uint64
}

// add gathers a word, and reads all of them when there are many.
func (a *ahead) add(word *uint64) {
	if a.n == aheadMax {
		a.read()
	}
	a.words[a.n] = word
	a.n++
}

// read reads the words gathered.
func (a *ahead) read() {
	sum := a.touched
	for _, word := range a.words[:a.n] {
		sum += *word
	}
	a.touched, a.n = sum, 0
}
