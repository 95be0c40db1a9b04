// Package remotewrite reads remote write bodies: snappy-compressed protobuf messages, prometheus.WriteRequest of 1.0 and
// io.prometheus.write.v2.Request of 2.0.
//
// Walker and WalkerV2 walk the bytes. Both return a Series with samples, histograms and exemplars. A series of 1.0 has the raw
// bytes of its label fields. The caller hashes these bytes and parses them only if the hash is unknown. A series of 2.0 has
// references to symbols. WalkerV2 hashes each symbol once per request, and combines these hashes to the key of a series. The
// package implements the wire format. It has no limits on labels or series, and no storage.
//
// Invariants:
//   - No input makes it panic.
//   - It compares the declared size with the size limit before it allocates.
//   - It refuses every body that the generated decoder of Prometheus refuses, and names the byte offset of the error. It also
//     refuses a body of 2.0 whose first symbol is not empty.
//   - A wrong reference makes one series of 2.0 invalid, not the request, as in Prometheus.
//
// Concurrency: a Walker belongs to one goroutine. Buffers come from a pool that all goroutines share.
package remotewrite
