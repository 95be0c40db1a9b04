// Package restricted adds the matchers of a principal to all that an index is asked for.
//
// Every read of series, labels and samples asks the index first: PromQL on both paths, look-ups, remote read, federation and
// exemplars. So one wrapper around the index keeps a restricted principal from all series outside of its matchers.
package restricted
