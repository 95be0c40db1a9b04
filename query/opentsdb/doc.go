// Package opentsdb answers OpenTSDB's queries.
//
// An [Engine] takes a validated query of package request. For each sub-query it selects series, reads their columns, and
// passes the samples of each series to a transform of package aggregation. It reads slice by slice, so that downsampled
// series take little memory. Then it divides the series into groups and aggregates each group. The [Answer] has the same
// numbers as the answer of OpenTSDB.
//
// Queries run within the limits of package query. All reads select series in the index, which applies the matchers of the
// principal.
package opentsdb
