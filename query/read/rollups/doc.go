// Package rollups answers selectors with windows of several hours from rollup states of hours and days.
//
// The bounds of all windows divide time into intervals. A state replaces the samples of its bucket if the first and the last of
// them lie in one interval, if the head has no samples of the bucket, and if the state is known. Days are tried first, then
// hours. The remaining hours are read as rows. If samples are retired, only the state is left: it counts in the interval of its
// last sample.
//
// Decoded states are cached in the row cache. The versions of an entry come from AppendVersions of rollup/store, which is called
// before the state is read. Versions are read after the head, as for rows.
package rollups
