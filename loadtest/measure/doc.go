// Package measure measures a server from outside: latencies in histograms, the CPU time and memory of its process, and
// the size of its data directory.
//
// It knows no protocol. CPU time and memory are read on Linux only.
//
// # Concurrency
//
// A Histogram is safe for concurrent use. A Recorder belongs to one goroutine. Only WatchMemory may run in another
// goroutine, until the load ends.
package measure
