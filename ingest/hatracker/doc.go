// Package hatracker elects one replica of each cluster of a tenant, for pairs of Prometheus servers that scrape the same
// targets. The writer stores only the samples of the elected replica.
//
// An election is a lease (storage/lease) of the cluster in table meta, and the replica holds it. Requests of the elected
// replica renew the lease. If the replica sends nothing for longer than the fail-over time, the lease ends. Then the next
// replica that sends a request takes the lease. Servers that share the tables use the same leases. A restarted server knows
// the elected replicas.
//
// Concurrency: all methods may be called by any number of goroutines.
package hatracker
