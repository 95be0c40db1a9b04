// Package aggregation implements the arithmetic of OpenTSDB queries. It downsamples each series and turns it into rates. Then it
// interpolates and aggregates the series of a group.
//
// A [Transform] takes the samples of one series in order and returns its points. A [Group] aggregates the points of several
// series. Both return the same numbers as OpenTSDB 2.4 and 2.5. Integers stay integers unless they are downsampled. Rates hold
// their last value between points. Downsampled values are always doubles.
//
// All times are milliseconds since 1970. The package does no I/O and reads no clock.
package aggregation
