// Package ranges divides row keys into ranges, counts the load of each range by minute, and splits and merges ranges by
// load. A look-up takes no lock.
package ranges
