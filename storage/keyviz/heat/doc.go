// Package heat holds the load of row keys: columns with the counts of key ranges in a span of time. Columns add up, merge
// ranges, and have a durable form. See FORMAT.md.
package heat
