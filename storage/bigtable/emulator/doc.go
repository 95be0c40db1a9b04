// Package emulator is an in-memory Bigtable for tests and laptops: the client library's test server behind one lock.
//
// The library's server changes rows in place while it streams them, so a reader that meets a writer can see a column
// twice or not at all, which the service never shows. Here a request runs alone or beside other reads, and what a read
// found is sent after the lock is free again: a slow reader holds up nobody, and a row is seen whole.
//
// It is not the service. Of the aggregates it merges only sums, its garbage collector knows no intersections and runs
// only after a policy was changed, its sample keys are random, it checks no limits and forgets everything when it stops.
package emulator
