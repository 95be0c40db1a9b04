// Package cursor walks the cells of one partition in key order, forward or in reverse, and merges day chunks with the cells
// outside them. A Heap merges the cursors of several partitions.
package cursor
