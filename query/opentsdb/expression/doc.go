// Package expression evaluates formulas over joined series for /api/query/exp, and functions of series for /api/query/gexp.
//
// A [Formula] is parsed once and evaluated at each time of the series that a [Join] combines. The package does no I/O.
package expression
