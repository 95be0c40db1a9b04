// Package expression computes with the series that OpenTSDB's queries answer: formulas over joined series for /api/query/exp, and
// functions of series for /api/query/gexp.
//
// A [Formula] is parsed once and evaluated for each time of the series that a [Join] puts together. The package does no I/O.
package expression
