// Package remotewrite reads remote write 1.0 bodies: snappy-compressed protobuf WriteRequests.
//
// It walks the bytes and returns, for each TimeSeries, the raw bytes of its label fields and its samples. It parses labels
// only on demand: the caller hashes the raw bytes, and parses them if it does not know the hash. The package knows the
// wire format. It knows nothing about limits on labels, series or storage.
//
// Invariants:
//   - No input makes it panic.
//   - It compares the declared size with the size limit before it allocates.
//   - It refuses every body that the generated decoder of Prometheus refuses, and names the byte offset of the error.
//
// Concurrency: a Walker belongs to one goroutine. Buffers come from a pool that all goroutines share.
package remotewrite
