// Package loadtest is a client that loads a server by remote write and sends it dashboard queries. It checks that
// every acknowledged sample can be read back. It works with any server that accepts remote write 1.0 and
// implements the HTTP API of Prometheus. [Run] loads one server. [Compare] sends the same bytes to several
// servers.
//
// The server runs in another process and is measured from outside. Of Halite's own packages, the client imports only
// keyschema: it computes row keys to report how its series fall on key ranges.
//
// The packages below, in the order in which a sample meets them:
//
//	fleet         the series and their values
//	load          timestamps, order and encoding of requests
//	client        write requests with retries; queries; remote read
//	acked         the outcome of every write, in bits
//	probe         dashboard queries and freshness during the load
//	measure       latencies, CPU time, memory, disk
//	verify        reads samples back and compares them with the fleet's
//	distribution  samples per salt and tablet
//	report        results as text and JSON
//
// Package plan stands apart: it estimates the nodes that a load needs in Bigtable.
//
// # Invariants
//
//   - A sample counts as acknowledged only if its request was answered 2xx. It counts as missing only if it was
//     acknowledged and the server does not return it. It counts as different only if no write explains its bits.
//   - One sender sends all samples of a series, one request at a time.
//   - The same options and timestamps make the same requests.
//
// # Concurrency
//
// Run and Compare may be called from several goroutines. Within a call, each sender owns its stream; the set of
// acknowledged samples and the counters are shared and safe for concurrent use.
package loadtest
