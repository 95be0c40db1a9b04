// Package column holds samples as columns: times and values of one series as two slices, with what is known about them.
//
// [Points] are the slices alone. [Samples] may do without times where these are evenly spaced, and know [Properties] of the
// values. A [Column] is the samples of one series, in one or more segments. [Records] are histograms, start timestamps and
// exemplars. Buffers and pools reuse the memory of columns.
package column
