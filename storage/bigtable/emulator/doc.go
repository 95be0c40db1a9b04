// Package emulator is an in-memory Bigtable for tests and laptops: the client library's test server behind one lock.
//
// The library's server changes rows in place while it streams them. So a reader that meets a writer can see a column twice or
// not at all, which the service never shows. Here a read runs only together with other reads, and any other request runs
// alone. The emulator sends the result of a read after it has released the lock. So a slow reader blocks no request, and reads
// see rows whole.
//
// It differs from the service. It merges sums but no other aggregates. Its garbage collector has no intersections and runs
// only after a policy has changed. Its sample keys are random, it checks no limits, and its data is gone when it stops.
package emulator
