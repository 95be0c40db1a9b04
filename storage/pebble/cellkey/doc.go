// Package cellkey encodes rows and cells as keys of the LSM tree. FORMAT.md of package pebble draws the keys.
//
// A key starts with table, family and day, so the cells of one family and day (a partition) are one sorted run. The package
// also defines the order of keys (the tree's comparer), the merge operator of aggregates, and ranges of encoded rows.
//
// All functions are pure. Errors wrap storage.ErrCorrupt.
package cellkey
