// Package hatracker elects one replica of each cluster of a tenant, for pairs of Prometheus servers that scrape the same targets.
// The writer stores the samples of the elected replica only.
//
// An election is a lease (storage/lease) of the cluster in table meta, and the replica holds it. Requests of the elected replica
// renew it. When they stay away for longer than the fail-over time, the lease ends, and the next replica that sends takes it.
// Servers that share the tables agree, and a restarted server knows the elected replicas.
//
// Concurrency: all methods may be called by any number of goroutines.
package hatracker
