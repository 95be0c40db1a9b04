// Package restricted adds the matchers of a principal to every look-up in an index.
//
// Every read of series, labels and samples starts with the index: PromQL on both paths, look-ups, remote read, federation
// and exemplars. So one wrapper around the index hides all other series from a restricted principal.
package restricted
