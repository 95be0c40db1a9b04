// Package translation writes queries of OpenTSDB as PromQL, where both have the same answer, and says why not elsewhere.
//
// An interval [t, t+I) of OpenTSDB has its value at t. PromQL's window of a range I ends at the evaluation time. The translation
// moves the window by I less 1 ms into the future, so that a range query with the step I has the same values at the same times.
// OpenTSDB interpolates series without a value at a time. No PromQL does so, and such queries have no translation.
package translation
