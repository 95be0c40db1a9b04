// Package load decides which samples are sent, in which order and when, and encodes them as remote-write requests.
//
// A Timeline gives each step of the fleet its timestamps. A Stream makes the requests of one sender: it delays late
// samples, writes others twice, and shuffles the series. A StepLimiter keeps the senders' timestamps close together.
//
// # Invariants
//
//   - The same options and timestamps make the same requests.
//   - Each sample is written once; each rewritten sample twice, in this order.
//   - All samples of a series are in one stream.
//
// # Concurrency
//
// A Timeline and a StepLimiter are safe for concurrent use. A Stream belongs to one goroutine.
package load
