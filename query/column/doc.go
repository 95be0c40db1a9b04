// Package column holds samples as columns: the times and values of one series as two slices, with known properties of them.
//
// [Points] are the slices alone. [Samples] need no slice of times if the times are evenly spaced. They also have [Properties] of
// the values. A [Column] is the samples of one series, in one or more segments. [Records] are histograms, start timestamps and
// exemplars. Buffers and pools reuse the memory of columns.
package column
