// Package recovery updates the memory of an index from its tables: at start, after damage, and after writes of other processes.
// It can rebuild the index from the data rows, and compares both.
package recovery
