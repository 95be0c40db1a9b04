// Package rollups evaluates selectors with windows of several hours from rollup states of hours and days.
//
// A [Plan] decides which times are read from states, and a [Batch] has the states and the remaining samples of a series. The
// bounds of all windows divide time into intervals. A state replaces the samples of its bucket if its first and its last
// sample lie in one interval and the head has no samples of the bucket. The reader tries days first, then hours, and reads the
// rows of the remaining hours. So the result is exact. If samples are retired, only the state is left, and it counts in the
// interval of its last sample.
//
// The row cache holds decoded states. The versions of an entry come from AppendVersions of rollup/store. The reader asks for
// them after it has read the head, as for rows, and before it reads the states.
package rollups
