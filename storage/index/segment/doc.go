// Package segment reads and writes the segments of closed days and months.
//
// A segment has a block of columns for each large metric, a block for several small ones, and a sorted dictionary for each
// label name. Its [Manifest] lies in one cell. The write of that cell makes a generation of the segment valid. A [Store]
// reads blocks and dictionaries on demand and caches them. A [Set] holds a [Handle] for each day and month that has a
// segment.
//
// The package also names the rows and cells of all tables of the index. FORMAT.md in the index's folder draws them.
package segment
