// Package translation translates queries of OpenTSDB into PromQL with the same answer. For a query without such PromQL it
// returns the reason.
//
// An interval [t, t+I) of OpenTSDB has its value at t. PromQL's window of a range I ends at the evaluation time. The translation
// moves the window by I less 1 ms into the future, so that a range query with the step I has the same values at the same times.
// OpenTSDB interpolates series without a value at a time. No PromQL does so, and such queries have no translation.
package translation
