// Package translation translates OpenTSDB queries into PromQL with the same result. If a query has no translation, it returns
// the reason.
//
// An interval [t, t+I) of OpenTSDB has its value at t. PromQL's window of a range I ends at the evaluation time. The
// translation moves the window by I less 1 ms into the future. So a range query with the step I has the same values at the
// same times. OpenTSDB interpolates a series that has no value at a time. PromQL cannot, so such queries have no
// translation.
package translation
