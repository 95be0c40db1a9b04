// Package verify reads acknowledged samples back and compares them with the samples that were sent. It computes the sent
// samples again from the seed.
//
// # Invariants
//
//   - A sample is missing only if its write was acknowledged and the server does not return it.
//   - A sample is different only if none of the acknowledged or doubtful writes explains its bits.
//
// # Concurrency
//
// Verifier.Run reads with several goroutines. Other goroutines may call UnitsDone during this time.
package verify
