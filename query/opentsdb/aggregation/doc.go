// Package aggregation is the arithmetic of OpenTSDB queries: a series is downsampled and turned into rates, then the series of
// a group are interpolated and aggregated.
//
// A [Transform] takes the samples of one series in order and returns its points. A [Group] joins the points of several series.
// Both return the same numbers as OpenTSDB 2.4 and 2.5. Integers stay integers unless they are downsampled. Rates hold their last
// value between points. Downsampled values are always doubles.
//
// All times are milliseconds since 1970. The package does no I/O and reads no clock.
package aggregation
