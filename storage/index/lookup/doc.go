// Package lookup finds the series that match in a time range.
//
// A [Reader] evaluates each matcher once per distinct value of its label, in a dictionary. Then it scans columns of value
// ids, first of active series, then of segments. For a long window it reads the segment of a month instead of the segments
// of its days. It joins series from several places by a hash of their labels.
package lookup
