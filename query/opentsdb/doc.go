// Package opentsdb evaluates OpenTSDB queries.
//
// An [Engine] takes a validated query of package request. For each sub-query it selects series, reads their columns, and
// passes the samples of each series to a transform of package aggregation. It reads one slice of time after another, so that
// downsampled series take little memory. Then it divides the series into groups and aggregates each group. The numbers of
// the [Response] equal OpenTSDB's.
//
// Queries run within the limits of package query. All reads select series in the index, which applies the principal's
// matchers.
package opentsdb
