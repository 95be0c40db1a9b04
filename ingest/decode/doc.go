// Package decode reads remote write 1.0 bodies: snappy-compressed protobuf WriteRequests.
//
// It walks the bytes and hands out, for each TimeSeries, the raw bytes of its label fields and its samples; labels are
// parsed only on demand, for series that the caller does not know by a hash of those bytes. It knows the wire format
// and nothing about limits on labels, series or storage.
//
// Invariants: no input makes it panic; what it allocates is bounded by the size limit, which is compared with the
// declared size before anything is allocated; a body that the generated decoder of Prometheus refuses is refused here,
// with the byte offset of the fault.
//
// Concurrency: a Walker belongs to one goroutine; buffers come from a pool that all share.
package decode
