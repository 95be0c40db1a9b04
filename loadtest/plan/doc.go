// Package plan estimates the rows, cells, bytes and nodes that a load needs in Bigtable. It also simulates how a load of
// Zipf-sized metrics is distributed over nodes.
//
// [Make] computes a [Plan] from a [Load], from [Costs] that a test measures on the emulator, and from [Limits] that the
// service publishes. Prices are optional.
//
// [Simulate] distributes the series of metrics over salts, splits the key space into tablets and places them on nodes. The
// same seed gives the same figures.
//
// The package is pure: no I/O, no clock, no state.
package plan
