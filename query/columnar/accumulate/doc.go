// Package accumulate aggregates rows of values: sum, avg, min, max, count, group, stddev, stdvar, and the counts of values.
//
// A [State] belongs to one group of series and has a few columns with one value for each step. A [Function] adds one row to
// it at a time, in the order of Prometheus's engine, so that results are equal to the last bit. The package knows no labels
// and no plan.
package accumulate
