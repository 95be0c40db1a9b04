// Package epoch tells when something of a bucket of time was last changed, so that what was read of it can be kept.
//
// A reader notes the epoch of a bucket, reads, and keeps what it has read with that epoch; who finds it later uses it if
// the bucket has the same epoch still. A writer announces a change before anybody can see it and again afterwards: what
// was read in between is not used for longer.
//
// Concurrency: a Clock may be used by any number of goroutines.
package epoch
