// Package budget bounds the memory of each query and of all queries together.
//
// A [Budget] accounts for one query, from its start until the last byte of its response is written. It leases its memory
// from the [Pool] of all queries. A query that exceeds a limit gets a [LimitError].
//
// Concurrency: budgets and pools are safe for concurrent use.
package budget
