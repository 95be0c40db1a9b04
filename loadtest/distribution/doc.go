// Package distribution reports how evenly the acknowledged samples of a load fall on key ranges. These are the salts of
// their metrics and the server's tablets.
//
// # Concurrency
//
// A TabletWatcher and an Analysis belong to one goroutine each.
package distribution
