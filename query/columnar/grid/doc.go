// Package grid holds what every operator over columns works with: the times of a query's steps, a series of a result,
// rows with one value for each step, and the memory for these rows.
//
// A step without a value has the stale marker ([Absent]).
package grid
