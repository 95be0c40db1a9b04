// Package grid has the basic types of operators over columns. They are the times of a query's steps, a series of a result,
// rows with one value for each step, and the memory of these rows.
//
// A step without a value has the stale marker ([Absent]).
package grid
