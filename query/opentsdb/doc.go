// Package opentsdb answers OpenTSDB's queries.
//
// An [Engine] takes a checked query of package request. For each sub-query it selects series, reads their columns, and gives the
// samples of each series to a transform of package aggregation, slice by slice, so that downsampled series take little memory.
// Then it divides the series into groups and aggregates each of them.
//
// Queries run within the limits of package query. A principal reads what its matchers leave, since all reads ask the index.
package opentsdb
