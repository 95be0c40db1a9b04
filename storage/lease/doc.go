// Package lease lets one process at a time do work on shared tables. The lease is a row of the meta table.
//
// The row has one cell. Its qualifier names the holder, and its timestamp is the end of the lease. A holder renews the lease
// long before its end. After the end, any other process may take it. Work under a lease must tolerate that another process
// does the same work for a moment. Clocks differ, and a process may pause beyond the end of its lease. So a lease saves work
// but gives no mutual exclusion. If a clock was set back, a lease may end hours from now; such a lease is free.
//
// A [Keeper] renews a lease in the background and reports whether this process holds it.
//
// Concurrency: a Lease is for one goroutine at a time.
package lease
