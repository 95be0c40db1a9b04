// Package fleet makes up the samples of a fleet of machines: which series there are and what each of them reads at each
// step. Everything follows from a seed, so that a second Fleet of the same options repeats the first, sample by sample;
// that is how a load test knows what it must find again without keeping it.
//
// A fleet is made of units, things that would be scraped together: hosts with services on them, and for the special
// loads, stretches of a hot metric or of Zipf-sized metrics. All series of a unit are sampled at the same instants.
//
// The package knows no clock, no wire format and no server; a step is a number.
//
// # Invariants
//
//   - The number of series of a unit never changes; with churn, a host is replaced by one of another name with as many.
//   - The series of one fleet are distinct, those of replaced hosts included.
//   - Values are finite and never −0, so that any text that names a float64 exactly can be compared with them.
//
// # Concurrency
//
// A Fleet is immutable and may be shared. A Unit has state and belongs to one goroutine.
package fleet
