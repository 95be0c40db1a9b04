// Package compaction turns the journals of closed days into segments, and the segments of days into segments of months.
//
// A [Merge] makes the content of one segment from sources: the active series, the segment of a day, or the former segment of a
// month. The [Compactor] decides when a partition is compacted, writes its next generation, switches to it, and deletes the
// former one. It also removes hours and metrics, as that rewrites segments, too. See generation.go for the steps and crashes.
package compaction
