// Package fleet generates the series of a fleet of machines and their values at each step. Everything follows from a
// seed: two fleets with the same options have the same samples. So a load test can verify samples without storing them.
//
// A fleet consists of units that would be scraped together. A unit is a host with its services, or a range of the series
// of the hot metric or of the Zipf-sized metrics. All series of a unit are sampled at the same times.
//
// The package uses no clock, no wire format and no server. A step is a number.
//
// # Invariants
//
//   - The number of series of a unit never changes. With churn, a new host with the same number of series replaces a host.
//   - All series of a fleet are distinct, including the series of replaced hosts.
//   - Values are finite and never −0, so that they survive an exact text format.
//
// # Concurrency
//
// A Fleet is immutable and safe for concurrent use. A Unit belongs to one goroutine.
package fleet
