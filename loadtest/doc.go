// Package loadtest is a client that loads a server with remote write, asks it what dashboards ask, and finds out whether
// everything that was acknowledged can be read back. It measures any server that speaks remote write 1.0 and Prometheus'
// HTTP API; [Run] loads one, [Compare] puts several side by side with the same bytes.
//
// It is a client only: of Halite's own packages it knows the row keys (package keyschema), so that it can tell how its
// series spread over key ranges, and nothing of how the server works. It is no micro-benchmark either: servers run in
// processes of their own and are measured from outside.
//
// The parts, in the order in which a sample meets them:
//
//	fleet (below)  which series there are and what they read
//	timeline       which step has which timestamp
//	stream         which samples a sender sends, in which order and when: late ones, rewritten ones, shuffled ones
//	batch, sender  the bytes; posting, retrying, counting
//	ledger         which samples were acknowledged: two bits for each
//	verification   the fleet once more, compared with what the server gives back
//
// # Invariants
//
//   - A sample counts as acknowledged only if the request that held it was answered 2xx; as lost only if it was
//     acknowledged and is not there; as different only if its bits are not those that the acknowledged writes allow.
//   - The samples of a series are handed to the server by one sender, one request at a time.
//   - The same options and timestamps make the same requests.
//
// # Concurrency
//
// Run and Compare may be called from several goroutines. Within one call each sender owns its streams; the ledger and
// the tallies are shared and safe for concurrent use.
package loadtest
