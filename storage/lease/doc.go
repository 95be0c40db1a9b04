// Package lease lets one of several processes at a time see to work on shared tables, by a row of the meta table.
//
// The row has one cell: its qualifier names the holder, its timestamp is the end of the lease. A holder renews it long
// before; once it has ended, any other process may take it. Whoever works under a lease must bear that another process
// does the same for a moment: clocks differ, and a process may sleep through the end of its lease. A lease saves work,
// it guards nothing.
//
// A [Keeper] renews a lease in the background and says whether it is ours.
//
// Concurrency: a Lease is for one goroutine at a time.
package lease
