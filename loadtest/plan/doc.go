// Package plan says on paper what a load takes in Bigtable: rows and cells a second, bytes, nodes; and simulates how a
// load of Zipf-sized metrics falls on nodes.
//
// [Make] is arithmetic on a [Load], on [Costs] that a test of this package measures against the emulator, and on [Limits]
// that the service publishes. It knows no prices, unless it is told.
//
// [Simulate] deals the series of metrics onto salts, cuts the key space into tablets and places them on nodes. It is
// deterministic: the same seed gives the same figures.
//
// The package is pure: no I/O, no clock, no state.
package plan
