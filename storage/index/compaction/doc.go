// Package compaction turns the journals of closed days into segments, and the segments of days into segments of months.
//
// A [Merge] makes the content of one segment from sources: the active series, the segment of a day, or the previous segment
// of a month. The [Compactor] decides when to compact a partition, writes its next generation, switches to it, and deletes
// the previous one. It also removes hours and metrics, because a removal rewrites segments. generation.go describes the
// steps, and the state after a crash in each of them.
package compaction
