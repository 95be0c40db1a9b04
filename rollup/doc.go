// Package rollup holds the aggregate state that stands for the samples of one series in one span of time.
//
// A [State] is what the functions over a range need to know of a span that lies wholly inside their window: how many
// samples, the first and the last with their times, extremes, sums, and what happened between neighbours (resets,
// changes, counter correction). Two states of neighbouring spans join to the state of both, so that a long window is
// answered from a few states and the raw samples at its two edges. Extrapolation, lookback and everything else that
// depends on the window stays with the query.
//
// A state is always computed from whole columns and written over the former one, never added to sample by sample in
// storage: retries, replays, late and rewritten samples then cannot count twice.
//
// [Compute] makes the states that are stored; [Encoder] and [Decoder] pack those of a day's hours, or of a month's days,
// into one cell (FORMAT.md draws it); [Columns] holds them unpacked, [Packing] lays some
// fields of them side by side to be kept in memory; [Func] evaluates PromQL's functions from a state. Tables, rows and the
// job lie in package tiers below. States are of floats; native histograms would be another state in families of their own.
//
// Invariants: a cell gives back the bits of its states, or an error that wraps [ErrCorrupt], whatever its bytes.
// [Join] is associative and has the zero State as identity on both sides. Counts, extremes, first, last, resets and
// changes of a join are exactly those of the samples themselves; sums, counter correction and moments are equal up to
// the order of additions.
//
// Concurrency: a State is a value; Encoder, Decoder and Columns belong to one goroutine at a time, a Packing to any.
package rollup
