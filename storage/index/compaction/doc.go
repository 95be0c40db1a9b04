// Package compaction merges sources of series into the content of one segment.
//
// A [Source] is the series being written, the segment of a day, or the former segment of a month. A [Merge] gives each label
// value its rank among the values of all sources and yields the series of one metric after another, sorted by labels. The
// package decides neither when a partition is compacted nor writes anything.
package compaction
