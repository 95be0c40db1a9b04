// Package rollup defines the aggregate state of the samples of one series in one span of time.
//
// A [State] holds all that range functions need from a span inside their window. It has the number of samples, the first and
// last sample, extremes, sums, resets, changes and counter correction. Two states of adjacent spans join to the state of
// both spans. So a query answers a long window from a few states and the raw samples at its two edges. The query computes
// extrapolation, lookback and other results that depend on the window.
//
// A state is computed from whole columns of samples and replaces the stored one. Storage never adds single samples to
// it, so retries, replays, late and rewritten samples cannot count twice.
//
// [Compute] makes the states that are stored. [Columns] holds the states of consecutive buckets, [Packing] keeps some of
// their fields in memory, and [Func] evaluates PromQL functions from a state. Package cell encodes states, package store
// keeps them in tables, and package job computes them. A State describes floats. Package histograms chooses the native
// histograms that are kept with it.
//
// # Invariants
//
//   - [Join] is associative and has the zero State as identity on both sides.
//   - Counts, extremes, first, last, resets and changes of a join are exact. Sums, counter
//     correction and moments are equal up to the order of additions.
//
// # Concurrency
//
// A State is a value. A Columns belongs to one goroutine at a time; a Packing is safe for concurrent use.
package rollup
